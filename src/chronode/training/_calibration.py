"""Prediction intervals of forecasts: calibrated on the validation part, and how good they are on other data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._model import SequenceModel
from ..baselines._margins import LEVELS
from ..data import Scaler, Sequences
from ..tasks._task import Parts
from ._predict import outputs

USUAL_INTERVALS = (80.0, 95.0)
# With fewer validation windows than this, residuals of held-out training windows are used as well.
_ENOUGH = 200


def calibrate(model: SequenceModel, parts: Parts, held_out: Tensor | None = None) -> None:
    """Takes the margins of a forecast from the validation windows.

    Args:
        model: The trained model, before it sees the validation part.
        parts: Training and validation windows.
        held_out: If the model is its linear start alone: outputs of linear models that did not see their training
            window, relative to it.
    """
    assert model.margins is not None and model.relative is not None
    residuals = []
    for batch, output in outputs(model, parts.valid):
        assert batch.target is not None
        unit = model.unit(batch.x, **batch.times)
        assert unit is not None
        residuals.append(((output.cpu() - batch.target) / unit).double())
    if held_out is not None and len(parts.valid) < _ENOUGH:
        batch = parts.train.batch()
        assert batch.target is not None
        view = model.relative.view(batch.x, batch.lengths, batch.observed)
        residuals.append(held_out.double() - model.relative.there(batch.target, view).double())
    model.margins.fit(torch.cat(residuals))


def margins_of(
    model: SequenceModel, data: Sequences, levels: Sequence[float], scaler: Scaler | None = None
) -> NDArray[np.float64]:
    """Returns the half widths of intervals, `(levels, N, K)`, in the units of the target.

    Args:
        model: A trained model that forecasts from windows.
        data: Windows, scaled as for the model.
        levels: Confidence levels in percent.
        scaler: Scaler of the windows.
    """
    if model.margins is None or not model.margins.known:
        raise ValueError(
            "this model has no prediction intervals: they belong to forecasts from windows (--forecast without "
            "--per-step) that were trained with a validation part. Train again."
        )
    wide, found = model.margins.at(levels), np.empty((len(levels), len(data), model.head.out_features))
    std = 1.0 if scaler is None or not scaler.targets else np.asarray(scaler.target_std)
    for first in range(0, len(data), 512):
        rows = slice(first, first + 512)
        batch = data.batch(rows)
        unit = model.unit(batch.x, **batch.times)
        assert unit is not None
        found[:, rows] = (wide.cpu()[:, None] * unit.double().cpu()).numpy() * std
    return found


def interval_scores(
    model: SequenceModel, data: Sequences, levels: Sequence[float], scaler: Scaler | None = None
) -> dict[str, float]:
    """Returns the coverage of the intervals, the pinball loss of their ends, and the CRPS of all quantiles.

    The continuous ranked probability score is twice the mean pinball loss over 199 evenly spaced quantiles.
    """
    assert data.target is not None
    predicted = np.empty(data.target.values.shape)
    for batch, output in outputs(model, data):
        predicted[batch.rows] = (output if scaler is None else scaler.inverse_target(output)).numpy(force=True)
    error = np.asarray(data.target.given, dtype=np.float64) - predicted
    asked = margins_of(model, data, levels, scaler)
    found = {
        f"coverage {level:g}%": float(np.nanmean(_inside(error, margin)))
        for level, margin in zip(levels, asked, strict=True)
    }
    shares = [level / 100 for level in levels]
    ends = [
        _pinball(error, sign * m, (1 + sign * p) / 2) for m, p in zip(asked, shares, strict=True) for sign in (-1, 1)
    ]
    every = margins_of(model, data, [100 * level for level in LEVELS], scaler)
    curve = [
        _pinball(error, sign * m, (1 + sign * p) / 2) for m, p in zip(every, LEVELS, strict=True) for sign in (-1, 1)
    ]
    curve.append(_pinball(error, 0.0, 0.5))
    return found | {"pinball": float(np.mean(ends)), "crps": 2 * float(np.mean(curve))}


def _inside(error: NDArray[np.float64], margin: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isnan(error), np.nan, np.abs(error) <= margin)


def _pinball(error: NDArray[np.float64], quantile: NDArray[np.float64] | float, level: float) -> float:
    beyond = error - quantile
    return float(np.nanmean(np.maximum(level * beyond, (level - 1) * beyond)))
