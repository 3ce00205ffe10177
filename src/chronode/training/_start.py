"""A network that starts from a linear model, and the naive forecast that takes the place of a worse one."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor

from ..data import Parts, Sequences
from ..model import SequenceModel
from ..model.start import (
    StartFit,
    fit_forecast,
    fit_stack,
    fit_start,
    fit_targets,
    last_value_at_every_step,
    naive_forecasts,
    training_season,
)
from ..settings import SettingError, named
from ._events import Epoch
from ._objective import Objective
from ._predict import evaluate, outputs
from ._settings import Settings
from ._trained import Trained

_FEW_WINDOWS = 3


def add_start(network: SequenceModel, parts: Parts, settings: Settings, start: str | StartFit = "linear") -> StartFit:
    """Puts the network behind a linear model, and returns how that model was fitted; with a share, they stay apart.

    Its held-out outputs are those of models that did not see the series, so that the network does not learn to trust a
    linear model more than it deserves on other series.

    Args:
        network: Built from a spec; changed in place.
        parts: Series to train and to choose by.
        settings: Training settings; the seed divides the series into folds.
        start: "linear": the features that validate best; "summaries": those that can be updated step by step;
            "stacked": several linear models and gradient boosting; or what was fitted to the same series before.
    """
    spec = network.spec
    if spec is None:
        raise SettingError(
            f"{named('start', start)} needs a model that is built from a spec or a name.", argument="start"
        )
    if spec.symbols is not None:
        raise SettingError(f"{named('start', start)} needs numbers: symbols have no linear start.", argument="start")
    if start in ("summaries", "stacked") and spec.relative is not None:
        raise SettingError(
            f"a forecast from windows starts from their last values: use {named('start', 'linear')}.", argument="start"
        )
    valid = parts.valid[:0] if settings.refit else parts.valid  # with a refit, they are training series too
    if isinstance(start, StartFit):
        fitted = start
    elif spec.relative is None:
        fitted = fit_named(start, parts.train, valid, settings.seed)
    else:
        fitted = fit_forecast(parts.train, valid, spec.relative, seed=settings.seed)
    if settings.share is None:
        put_start(network, fitted)
    return fitted


def check_share(settings: Settings, start: str | StartFit) -> None:
    """Rejects the share of a network in a mean if there is nothing to average it with."""
    if settings.share is not None and start == "none":
        raise SettingError(
            f"{named('share', settings.share)} is a share in the mean of a network and its start: add "
            f"{named('start', 'stacked')}, or omit {named('share')}.",
            argument="share",
        )


def fit_named(start: str, train: Sequences, valid: Sequences, seed: int) -> StartFit:
    """Fits the start of a name, as for `add_start`."""
    if start == "stacked":
        return fit_targets(fit_stack, train, valid, seed=seed)
    return fit_targets(fit_start, train, valid, kinds=("summaries",) if start == "summaries" else None, seed=seed)


def refit_start(model: SequenceModel, fitted: StartFit, parts: Parts, share: float = 1.0) -> None:
    """Fits the linear part once more, to training and validation series together; `share` is its share in a mean.

    For forecasts, the newest steps are the most telling ones of what follows.
    """
    assert model.spec is not None
    again = fitted.refitted(parts.train, parts.valid.with_classes(parts.train.class_names))
    model.spec, model.start = replace(model.spec, start=again.description), again.start.to(model.head.weight.device)
    model.start.scale_by(share)


def put_start(network: SequenceModel, fitted: StartFit) -> None:
    """Puts the network behind the fitted linear model, with a head of zeros: at first, only the linear model counts.

    Example:
        >>> import torch
        >>> from chronode import ModelSpec
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0]] * 20, target=["up", "down"] * 20)
        >>> model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4))
        >>> put_start(model, fit_start(s, s))
        >>> model(s.batch([0, 1]).x).argmax(1).tolist()
        [1, 0]
    """
    _set_start(network, fitted)
    network.silence()


def _set_start(network: SequenceModel, fitted: StartFit) -> None:
    assert network.spec is not None
    network.spec = replace(network.spec, start=fitted.description)
    network.start = copy.deepcopy(fitted.start)
    if network.relative is not None and fitted.relative is not None:
        network.relative.load_state_dict(fitted.relative.state_dict())


def joined(fitted: Trained, parts: Parts, linear: StartFit, share: float) -> Trained:
    """Returns the weighted mean of a network and a linear model that were trained apart from each other; the linear
    model alone if the mean is not better on the validation part.

    Args:
        fitted: The trained network, without a start; its model is changed in place.
        parts: Training and validation series, scaled.
        linear: The linear model.
        share: Share of the network.
    """
    model, chooses = fitted.model, len(parts.valid) and not (fitted.record.settings or Settings()).refit
    _set_start(model, linear)
    mean, alone = copy.deepcopy(model), _without_network(model)
    assert mean.start is not None
    mean.scale_heads(share)
    mean.start.scale_by(1 - share)
    start, both = (_epoch_of(one, number, fitted, parts) for number, one in ((0, alone), (fitted.best_epoch, mean)))
    values = [fitted.objective.value_of(epoch.valid_loss, epoch.metrics) for epoch in (both, start)]
    if chooses and not fitted.objective.better(*values):
        model.silence()
        record = replace(fitted.record, best_epoch=0, start=start)
    else:
        model.load_state_dict(mean.state_dict())
        record = replace(fitted.record, start=start, joined=both)
    return replace(fitted, record=record)


def _epoch_of(model: SequenceModel, number: int, fitted: Trained, parts: Parts) -> Epoch:
    """Returns the results of a model on the validation part, as of an epoch of its training."""
    metrics = evaluate(model, fitted.objective, parts.valid)
    return Epoch(number, float("nan"), metrics.pop("loss"), metrics, 0.0, 0.0)


def not_worse_than_naive(
    fitted: Trained, parts: Parts, linear: StartFit | None, *, per_step: bool = False
) -> tuple[Trained, StartFit | None]:
    """Returns what to hand out, with the linear model that it rests on: never a forecast whose mean absolute error on
    the validation part is larger than that of the last value, the last season or its linear start. If that part has
    fewer than three independent windows, a naive forecast has to be better than the linear model by more than chance.

    Args:
        fitted: The trained model.
        parts: Training and validation windows, scaled.
        linear: The linear start of the model; None for a network alone.
        per_step: Whether a target at every step is a forecast, and not that of a task.
    """
    model = fitted.model
    naive_starts = _naive_starts(fitted, parts, per_step) if model.spec is not None and len(parts.valid) else {}
    if model.spec is None or not naive_starts:
        return fitted, linear
    errors = {name: _gap(start.outputs(parts.valid), parts.valid) for name, start in naive_starts.items()}
    name = min(errors, key=lambda name: errors[name])
    least, network_error = errors[name], _error(model, parts)
    alone = _without_network(model) if fitted.best_epoch and linear is not None else model
    start_error = network_error if alone is model else _error(alone, parts)
    unit = _unit(fitted.objective)
    enough = least / (1 - _chance(parts.valid, fitted)) if linear is not None else least
    if not network_error > min(enough, start_error):
        return fitted, linear
    if start_error <= enough:
        note = (
            "the forecast is that of the linear model (mean absolute error on the validation part: "
            f"{start_error * unit:.4g}; with the network: {network_error * unit:.4g})."
        )
        return _handed_out(fitted, alone, parts, note, ""), linear
    what = "the linear model" if fitted.best_epoch == 0 and linear is not None else "the network"
    note = (
        f"the forecast repeats the {name.replace('seasonal naive', 'last season')}, which is better than {what} (mean "
        f"absolute error on the validation part: {least * unit:.4g}; of {what}: {network_error * unit:.4g})."
    )
    naive = naive_starts[name]
    put_start(model, naive)
    model.spec = replace(model.spec, start=naive.description, baseline=name)
    return _handed_out(fitted, model, parts, note, name), naive


def _naive_starts(fitted: Trained, parts: Parts, per_step: bool) -> dict[str, StartFit]:
    """Returns the naive forecasts of this target as linear starts; empty if it is not a forecast."""
    model = fitted.model
    if model.relative is None:
        scaler = fitted.objective.scaler if fitted.objective.scaler is not None else parts.scaler
        last = last_value_at_every_step(parts.train, scaler) if per_step and model.per_step else None
        return {} if last is None else {"last value": last}
    channels = model.relative.channels
    season = training_season(parts.train, channels, model.head.out_features // len(channels))
    return naive_forecasts(parts.train, model.relative, season)


def _chance(valid: Sequences, fitted: Trained) -> float:
    """Returns the gain that chance allows a naive forecast on few validation windows; 0 on more."""
    assert fitted.model.relative is not None or fitted.model.per_step
    ahead = (
        1 if fitted.model.relative is None else fitted.model.head.out_features // len(fitted.model.relative.channels)
    )
    independent = max(len(valid) / ahead, 1.0)
    return 0.5 * independent**-0.5 if independent < _FEW_WINDOWS else 0.0


def _without_network(model: SequenceModel) -> SequenceModel:
    """Returns the linear start alone."""
    alone = copy.deepcopy(model)
    alone.silence()
    return alone


def _handed_out(fitted: Trained, model: SequenceModel, parts: Parts, note: str, baseline: str) -> Trained:
    start = _epoch_of(model, 0, fitted, parts)
    notes = (*fitted.notes, note)
    record = replace(fitted.record, best_epoch=0, start=start, baseline=baseline, notes=notes)
    return replace(fitted, model=model, record=record)


def _error(model: SequenceModel, parts: Parts) -> float:
    """Returns the mean absolute error over known targets of the validation part, in the units of the model."""
    pairs = [(output.double().cpu(), batch.target) for batch, output in outputs(model, parts.valid)]
    gaps = torch.cat([(output - target).abs().flatten() for output, target in pairs if target is not None])
    return float(gaps.nanmean())


def _gap(output: Tensor, valid: Sequences) -> float:
    """Returns the same of outputs in the order of the series."""
    assert valid.target is not None
    truth = valid.target.values[valid.steps] if valid.target.per_step else valid.target.values
    return float((output - torch.tensor(truth)).abs().nanmean())


def _unit(objective: Objective) -> float:
    """Returns the size of the unit of the model in the target's own units; 1 if channels have different ones."""
    scaler = objective.scaler
    if scaler is None or not objective.own_units or not scaler.targets:
        return 1.0
    if len(set(scaler.target_std)) > 1 or scaler.target_shapes:
        return 1.0
    return float(scaler.target_std[0])
