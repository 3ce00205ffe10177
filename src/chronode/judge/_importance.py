"""Permutation importance: how much worse a metric is if a column comes from other series."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..data import UNKNOWN, Sequences, source_columns
from ..settings import whole
from ..storage import Result
from ..training import LOWER_IS_BETTER, OWN_METRICS, Trained
from ._intervals import weighted_metric

Floats = NDArray[np.float64]
_DRAWS = 400
_MOST_ROWS = 20_000


@dataclass(frozen=True)
class Importance(Result):
    """Importance of the columns of a model, the largest first.

    Attributes:
        metric: Metric that is measured.
        value: Its value with all columns.
        names: Names of the columns.
        kinds: "channel" or "static" for each.
        losses: `(columns,)` how much worse the metric is without the information of a column; below 0 if it is better.
        low: `(columns,)` lower ends of 95% intervals over groups of series and permutations.
        high: `(columns,)` upper ends.
        series: Number of series measured.
    """

    metric: str
    value: float
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    losses: Floats
    low: Floats
    high: Floats
    series: int

    def __len__(self) -> int:
        return len(self.names)


def permutation_importance(
    trained: Trained, data: Sequences, *, repeats: int = 5, seed: int = 0, most_steps: int | None = None
) -> Importance:
    """Returns the importance of every channel and static column.

    A column of a series is replaced by that of another series, stretched to its number of steps, so that the course of
    its values and the pattern of missing ones stay plausible; columns of text move as a whole. The interval is that of
    the difference of the metric with and without, over a bootstrap of the groups of series and over permutations.

    Args:
        trained: The model.
        data: Series with targets, scaled like the training series.
        repeats: Number of permutations of each column.
        seed: Random seed.
        most_steps: Most steps to predict in all; some series are measured if there are more. None: no limit.

    Example:
        >>> from chronode.data import from_list
        >>> from chronode.training import Settings, fit
        >>> s = from_list([[[1.0, 0.0]] * 3, [[-1.0, 0.0]] * 3] * 8, target=["a", "b"] * 8, channels=["x", "y"])
        >>> permutation_importance(fit(s, "gru", Settings(epochs=20)), s).names
        ('x', 'y')
    """
    whole("repeats", repeats, at_least=1)
    names = [(name, "channel") for name in source_columns(data.channels, data.categories)]
    names += [(name, "static") for name in source_columns(data.static_names, data.categories)]
    whole_data = data.with_classes(trained.objective.class_names).labeled()
    whole_data = _part(whole_data, trained.objective.per_step, most_steps, len(names) * repeats + 1, seed)
    metric = _metric(trained)
    draws = _Draws(trained, whole_data, metric, seed)
    base, rng = draws.values(whole_data), np.random.default_rng(seed)
    sign = 1.0 if metric in LOWER_IS_BETTER else -1.0
    losses, ends = [], []
    for name, kind in names:
        moved = [
            draws.values(_with_column(whole_data, name, kind, rng.permutation(len(whole_data)))) for _ in range(repeats)
        ]
        gaps = sign * (np.array(moved) - base)
        losses.append(float(gaps[:, 0].mean()))
        drawn = gaps[np.arange(_DRAWS) % repeats, 1 + np.arange(_DRAWS)]
        ends.append(
            np.quantile(drawn[np.isfinite(drawn)], [0.025, 0.975]) if np.isfinite(drawn).any() else [np.nan] * 2
        )
    order = np.argsort(-np.nan_to_num(losses), kind="stable")
    low, high = np.array(ends).reshape(-1, 2)[order].T
    chosen = [names[index] for index in order]
    return Importance(
        metric,
        float(base[0]),
        tuple(name for name, _ in chosen),
        tuple(kind for _, kind in chosen),
        np.array(losses)[order],
        low,
        high,
        len(whole_data),
    )


class _Draws:
    """A metric of predictions: of all series, and of draws of their groups."""

    def __init__(self, trained: Trained, data: Sequences, metric: str, seed: int):
        self.trained, self.metric = trained, metric
        groups, index = np.unique(data.groups, return_inverse=True)
        chances = np.full(len(groups), 1 / len(groups))
        drawn = np.random.default_rng(seed).multinomial(len(groups), chances, size=_DRAWS)
        self.weights = np.concatenate([np.ones((1, len(groups))), drawn.astype(np.float64)])
        target = data.target
        assert target is not None
        self.true = np.asarray(target.values if target.classes is not None else target.given)
        self.known = self.true != UNKNOWN if target.classes is not None else ~np.isnan(self.true).all(-1)
        self.place = (np.repeat(index, data.lengths) if target.per_step else index)[self.known]
        weights = data.target_weights()
        self.each = None if weights is None else weights[self.known]

    def values(self, data: Sequences) -> Floats:
        """Returns the metric of all series, and of each draw."""
        objective, predictions = self.trained.objective, self.trained.predict(data).values
        predicted = np.concatenate(predictions) if objective.per_step else np.stack(predictions)
        predicted, true = (objective.in_metric_units(values) for values in (predicted, self.true))
        rows = predicted[self.known], true[self.known], self.place
        metrics = weighted_metric(self.metric, *rows, self.weights, objective.positive_number, self.each)
        assert metrics is not None  # `_part` leaves few enough rows
        return metrics


def _metric(trained: Trained) -> str:
    """Returns the selection metric, or one that single rows can be weighted for."""
    objective = trained.objective
    if objective.metric != "loss" and objective.metric not in OWN_METRICS:
        return objective.metric
    return "cross_entropy" if objective.kind == "class" else "rmse"


def _part(data: Sequences, per_step: bool, most_steps: int | None, times: int, seed: int) -> Sequences:
    """Returns as many series, drawn at random, as can be predicted `times` times and ranked."""
    order = np.random.default_rng(seed).permutation(len(data))
    steps = np.cumsum(data.lengths[order])
    rows = steps if per_step else np.arange(1, len(data) + 1)
    allowed = rows <= _MOST_ROWS
    if most_steps is not None:
        allowed &= steps * times <= most_steps
    return _flat(data[np.sort(order[: max(2, int(allowed.sum()))])])


def _flat(data: Sequences) -> Sequences:
    """Returns the series with base arrays of their own, one after the other; overlapping windows are repeated."""
    starts = np.cumsum(data.lengths) - data.lengths
    target = data.target
    if target is not None and target.per_step:
        target = target.take(data.steps)
    times = None if data.base_times is None else data.times
    return replace(data, base_values=data.values, base_times=times, starts=starts, target=target)


def _with_column(data: Sequences, name: str, kind: str, donors: NDArray[np.int64]) -> Sequences:
    """Returns flat series with a column of other series, stretched to the same number of steps."""
    names = data.static_names if kind == "static" else data.channels
    columns = [index for index, column in enumerate(names) if source_columns([column], data.categories)[0] == name]
    if kind == "static":
        assert data.static is not None
        static = data.static.copy()
        static[:, columns] = data.static[donors][:, columns]
        return replace(data, static=static)
    position = np.arange(int(data.lengths.sum())) - np.repeat(data.starts, data.lengths)
    share = (position + 0.5) / np.repeat(data.lengths, data.lengths)
    rows = np.repeat(data.starts[donors], data.lengths)
    rows = rows + (share * np.repeat(data.lengths[donors], data.lengths)).astype(np.int64)
    values = data.base_values.copy()
    values[:, columns] = data.base_values[rows][:, columns]
    return replace(data, base_values=values)
