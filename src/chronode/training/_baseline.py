"""Predictions that need no model, for comparison."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import Sequences
from ._objective import Objective, class_counts


def simple_baseline(
    objective: Objective, train: Sequences, test: Sequences, *, forecast_channels: tuple[str, ...] = ()
) -> tuple[str, dict[str, float]]:
    """Returns (name, metrics on `test`): the most frequent class, the mean, or for forecasts the last value.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0]] * 4, target=["a", "a", "a", "b"])
        >>> name, metrics = simple_baseline(Objective.for_data(s), s, s)
        >>> name, metrics["accuracy"], metrics["auroc"]
        ('majority', 0.75, 0.5)
    """
    target = test.target
    assert target is not None
    truth = target.values[test.steps] if target.per_step else target.values
    if objective.kind == "class":
        name, predicted = "majority", np.log(np.maximum(class_counts(train), 0.5))
        predicted = np.broadcast_to(predicted, (len(truth), objective.num_outputs))
        truth = truth.astype(np.int64)
    elif forecast_channels:
        name, predicted = "last value", _last_values(test, objective, forecast_channels)
    else:
        name, predicted = "mean", np.broadcast_to(_means(train), truth.shape)
    scores = objective.scores()
    objective.measure(scores, torch.tensor(predicted, dtype=torch.float64), torch.tensor(truth))
    return name, scores.compute()


def _means(train: Sequences) -> NDArray[np.float64]:
    target = train.target
    assert target is not None
    values = target.values[train.steps] if target.per_step else target.values
    return np.asarray(np.nanmean(values, axis=0, dtype=np.float64))


def _last_values(test: Sequences, objective: Objective, channels: tuple[str, ...]) -> NDArray[np.float64]:
    """Returns the last observed value for every horizon; the mean of the channel before the first one."""
    at = [test.channels.index(name) for name in channels]
    seen = _filled(test.values[:, at].astype(np.float64), test.lengths)
    scaler = objective.scaler
    if scaler is not None:
        seen = seen * np.asarray(scaler.std)[at] + np.asarray(scaler.mean)[at]
    predicted = np.tile(seen, (1, objective.num_outputs // len(at)))
    if scaler is not None:
        predicted = (predicted - np.asarray(scaler.target_mean)) / np.asarray(scaler.target_std)
    return predicted


def _filled(values: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Fills gaps with the previous value of the same series; 0 if there is none."""
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)[:, None]
    place = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    place = np.maximum(np.maximum.accumulate(place, axis=0), first)
    return np.nan_to_num(np.take_along_axis(values, place, axis=0))
