"""Forecasts that are worse than repeating the last value or the last season: that baseline takes their place."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from ..data import Parts
from ..model import SequenceModel
from ..model.start import StartFit, naive_forecasts, training_season
from ..settings import named
from ._events import Epoch
from ._fitted import Fitted
from ._objective import Objective
from ._predict import evaluate, outputs
from ._start import put_start


def not_worse_than_naive(fitted: Fitted, parts: Parts, linear: StartFit | None) -> tuple[Fitted, StartFit | None]:
    """Returns what to hand out, with the linear model that it rests on: never a forecast from windows whose mean
    absolute error on the validation part is larger than that of the last value, the last season or its linear start.

    A network that was to be trained alone (without a linear start)
    is kept, with a note.

    Args:
        fitted: The trained model.
        parts: Training and validation windows, scaled.
        linear: The linear start of the model; None without one.
    """
    model = fitted.model
    if model.relative is None or not len(parts.valid) or model.spec is None:
        return fitted, linear
    name, naive, least = _best_naive(model, parts)
    own, alone = _error(model, parts), _without_network(model) if fitted.best_epoch and linear is not None else model
    start = own if alone is model else _error(alone, parts)
    unit = _unit(fitted.objective, len(model.relative.channels))
    if not own > min(least, start):
        return fitted, linear
    if start <= least:
        note = (
            f"the forecast is that of the linear model (mean absolute error on the validation part: {start * unit:.4g};"
            f" with the network: {own * unit:.4g})."
        )
        return _handed_out(fitted, alone, parts, note, ""), linear
    repeated = name.replace("seasonal naive", "last season")
    what = "the linear model" if fitted.best_epoch == 0 and linear is not None else "the network"
    numbers = f"mean absolute error on the validation part: {least * unit:.4g}; of {what}: {own * unit:.4g}"
    if linear is None:
        note = f"{what} is worse than repeating the {repeated} ({numbers}): train with {named('start', 'linear')}."
        return replace(fitted, notes=(*fitted.notes, note)), linear
    put_start(model, naive)
    model.spec = replace(model.spec, start=naive.description, baseline=name)
    note = f"the forecast repeats the {repeated}, which is better than {what} ({numbers})."
    return _handed_out(fitted, model, parts, note, name), naive


def _without_network(model: SequenceModel) -> SequenceModel:
    """Returns the linear start alone."""
    alone = copy.deepcopy(model)
    nn.init.zeros_(alone.head.weight)
    nn.init.zeros_(alone.head.bias)
    return alone


def _handed_out(fitted: Fitted, model: SequenceModel, parts: Parts, note: str, baseline: str) -> Fitted:
    found = evaluate(model, fitted.objective, parts.valid)
    start = Epoch(0, float("nan"), found.pop("loss"), found, 0.0, 0.0)
    changed = {"model": model, "best_epoch": 0, "start": start, "baseline": baseline}
    return replace(fitted, notes=(*fitted.notes, note), **changed)


def _best_naive(model: SequenceModel, parts: Parts) -> tuple[str, StartFit, float]:
    """Returns the better of the last value and the last season on the validation part, with its error."""
    assert model.relative is not None
    channels = model.relative.channels
    horizon = model.head.out_features // len(channels)
    season = training_season(parts.train, channels, horizon)
    found = naive_forecasts(parts.train, model.relative, season)
    errors = {name: _gap(own.outputs(parts.valid), parts) for name, own in found.items()}
    name = min(errors, key=lambda own: errors[own])
    return name, found[name], errors[name]


def _error(model: SequenceModel, parts: Parts) -> float:
    found = torch.empty(len(parts.valid), model.head.out_features, dtype=torch.float64)
    for batch, output in outputs(model, parts.valid):
        found[batch.rows] = output.double().cpu()
    return _gap(found, parts)


def _gap(found: Tensor, parts: Parts) -> float:
    """Returns the mean absolute error over known targets, in the units of the model."""
    assert parts.valid.target is not None
    return float((found - torch.tensor(parts.valid.target.values)).abs().nanmean())


def _unit(objective: Objective, channels: int) -> float:
    """Returns the size of the unit of the model in the target's own units; 1 if channels have different ones."""
    scaler = objective.scaler
    if scaler is None or channels > 1 or scaler.target_shapes:
        return 1.0
    return float(scaler.target_std[0])
