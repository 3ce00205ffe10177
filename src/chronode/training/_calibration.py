"""Prediction intervals of forecasts: calibrated on the validation part, and how good they are on other data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import Batch, Parts, Scaler, Sequences
from ..model import LEVELS, SequenceModel, View, traits_of
from ._predict import outputs

USUAL_INTERVALS = (80.0, 95.0)
"""Levels of prediction intervals in percent, if none are asked for."""
_MOST_WINDOWS = 5_000


def calibrate(model: SequenceModel, parts: Parts, held_out: Tensor | None = None) -> None:
    """Takes the margins of a forecast from the validation windows, and of a linear model also from training windows.

    Args:
        model: The trained model, before it sees the validation part.
        parts: Training and validation windows.
        held_out: If the model is its linear start alone: outputs of linear models that did not see their training
            window, relative to it.
    """
    assert model.margins is not None and model.relative is not None
    residuals, traits = [], []

    def add(batch: Batch, output: Tensor) -> None:
        assert model.relative is not None and batch.target is not None
        view = _view(model, batch)
        residuals.append((output - batch.target).double() / _repeated(view.scale.double(), output))
        traits.append(traits_of(view, model.relative.channels, batch))

    if held_out is not None:
        batch = parts.train.batch()
        add(batch, model.relative.back(held_out.double(), _view(model, batch)))
    for batch, output in outputs(model, parts.valid):
        add(batch, output.cpu())
    one_series = len(np.unique(np.concatenate([parts.train.groups, parts.valid.groups]))) == 1
    model.margins.fit(torch.cat(residuals), torch.cat(traits), one_series=one_series)
    model.margins.get_buffer("most").copy_(_largest_moves(model, parts))


def _view(model: SequenceModel, batch: Batch) -> View:
    assert model.relative is not None
    return model.relative.view(batch.x, batch.lengths, batch.observed, batch.static)


def _repeated(values: Tensor, outputs: Tensor) -> Tensor:
    """Repeats numbers of each channel, `(N, C)`, for all steps ahead of outputs `(N, K)`."""
    return values.repeat(1, outputs.shape[1] // values.shape[1])


def _largest_moves(model: SequenceModel, parts: Parts) -> Tensor:
    """Returns how far the series have ever moved from the last value of a window, `(K,)`, in the unit of its margins.

    The unit of a window with less than the usual unit of its series (the root mean square) is the usual one.
    """
    relative, margins = model.relative, model.margins
    assert relative is not None and margins is not None
    units, moves, groups = [], [], []
    for part in (parts.train, parts.valid):
        batch = part.batch(slice(0, None, max(1, len(part) // _MOST_WINDOWS)))
        assert batch.target is not None
        view = _view(model, batch)
        unit = view.scale.double() * margins.spread(traits_of(view, relative.channels, batch), view.scale.shape[1])
        moved = relative.there(batch.target, view).double().abs().nan_to_num(nan=0.0)
        units.append(unit)
        moves.append(moved * _repeated(view.scale.double() / unit, moved))
        groups.append(part.groups[batch.rows.numpy()])
    unit, moved = torch.cat(units), torch.cat(moves)
    series = torch.tensor(np.unique(np.concatenate(groups), return_inverse=True)[1])
    usual = torch.empty_like(unit)
    for one in series.unique().tolist():
        usual[series == one] = unit[series == one].square().mean(0).sqrt()
    steps = (moved * _repeated((unit / usual).clamp(max=1), moved)).amax(0).reshape(-1, len(relative.channels))
    return steps.cummax(0).values.flatten()


def margins_of(model: SequenceModel, data: Sequences, levels: Sequence[float]) -> NDArray[np.float64]:
    """Returns the half widths of intervals, `(levels, N, K)`, in the units of the model.

    Args:
        model: A trained model that forecasts from windows.
        data: Windows, scaled as for the model.
        levels: Confidence levels in percent.
    """
    if model.margins is None or not model.margins.known:
        raise ValueError(
            "this model has no prediction intervals: they belong to forecasts from windows (--forecast without "
            "--per-step) that were trained with a validation part. Train again."
        )
    return _widths(model, data, levels)


def intervals_of(
    model: SequenceModel, data: Sequences, levels: Sequence[float], scaler: Scaler | None = None
) -> NDArray[np.float64]:
    """Returns the lower and upper ends of intervals, `(levels, 2, N, K)`, in the units of the target.

    They are symmetric in the units of the model, so those of a channel that is modeled as a logarithm are not.
    """
    half, middle = margins_of(model, data, levels), _middle(model, data)
    return _in_own_units(np.stack([middle - half, middle + half], axis=1), scaler)


def interval_scores(
    model: SequenceModel, data: Sequences, levels: Sequence[float], scaler: Scaler | None = None
) -> dict[str, float]:
    """Returns the coverage of the intervals, their scaled score (MSIS), the pinball loss of their ends, and the CRPS.

    The interval score is the width plus 2 / (1 - level) times what lies beyond; it is divided by the mean absolute
    change from step to step in the window. The continuous ranked probability score is twice the mean pinball loss over
    199 evenly spaced quantiles.
    """
    assert data.target is not None
    true, scores, of_ends = np.asarray(data.target.given, dtype=np.float64), {}, []
    for level, (low, high) in zip(levels, intervals_of(model, data, levels, scaler), strict=True):
        scores[f"coverage {level:g}%"] = float(
            np.nanmean(np.where(np.isnan(true), np.nan, (low <= true) & (true <= high)))
        )
        beyond = np.maximum(low - true, 0) + np.maximum(true - high, 0)
        score = (high - low + 2 / (1 - level / 100) * beyond) / _changes(model, data, scaler)
        scores[f"msis {level:g}%"] = float(np.nanmean(score)) if np.isfinite(score).any() else float("nan")
        of_ends += _pinballs(true, (low, high), level / 100)
    middle = _middle(model, data)
    curve = [_pinball(true, _in_own_units(middle, scaler), 0.5)]
    for level, wide in zip(LEVELS, _widths(model, data, [100 * level for level in LEVELS]), strict=True):
        ends = (_in_own_units(middle + sign * wide, scaler) for sign in (-1, 1))
        curve += _pinballs(true, ends, level)
    return scores | {"pinball": float(np.mean(of_ends)), "crps": 2 * float(np.mean(curve))}


def _widths(model: SequenceModel, data: Sequences, levels: Sequence[float]) -> NDArray[np.float64]:
    """Returns half widths `(levels, N, K)` in the units of the model."""
    assert model.relative is not None and model.margins is not None
    outputs = model.head.out_features
    table = np.empty((len(levels), len(data), outputs))
    for first in range(0, len(data), 512):
        rows = slice(first, first + 512)
        batch = data.batch(rows)
        view = model.relative.view(batch.x, batch.lengths, batch.observed, batch.static)
        spread = model.margins.spread(traits_of(view, model.relative.channels, batch), outputs)
        scale = view.scale.double().repeat(1, outputs // view.scale.shape[1])
        table[:, rows] = (model.margins.widths(levels, spread) * scale).numpy(force=True)
    return table


def _changes(model: SequenceModel, data: Sequences, scaler: Scaler | None) -> NDArray[np.float64]:
    """Returns the mean absolute change from step to step in each window, `(N, K)`, NaN where nothing changes."""
    assert model.relative is not None
    channels, changes = model.relative.channels, np.empty((len(data), model.head.out_features))
    for row, series in enumerate(data):
        values = series.values[:, channels].astype(np.float64)
        values = values if scaler is None else scaler.inverse_values(values, channels)
        gaps = np.abs(np.diff(values, axis=0))
        many = (~np.isnan(gaps)).sum(0)
        mean = np.nansum(gaps, axis=0) / np.maximum(many, 1)
        changes[row] = np.tile(np.where(mean > 0, mean, np.nan), changes.shape[1] // len(channels))
    return changes


def _middle(model: SequenceModel, data: Sequences) -> NDArray[np.float64]:
    """Returns forecasts `(N, K)` in the units of the model."""
    middle = np.empty((len(data), model.head.out_features))
    for batch, output in outputs(model, data):
        middle[batch.rows] = output.numpy(force=True)
    return middle


def _in_own_units(values: NDArray[np.float64], scaler: Scaler | None) -> NDArray[np.float64]:
    return values if scaler is None else scaler.inverse_target(values)


def _pinballs(true: NDArray[np.float64], ends: Iterable[NDArray[np.float64]], level: float) -> list[float]:
    """Returns the losses of the lower and the upper end of an interval."""
    return [_pinball(true, end, (1 + sign * level) / 2) for end, sign in zip(ends, (-1, 1), strict=True)]


def _pinball(true: NDArray[np.float64], quantile: NDArray[np.float64], level: float) -> float:
    beyond = true - quantile
    return float(np.nanmean(np.maximum(level * beyond, (level - 1) * beyond)))
