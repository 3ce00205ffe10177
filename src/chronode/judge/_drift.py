"""Drift: whether new series look like those of training, by a permutation test over series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Reference, Sequences
from ..settings import number, whole
from ..storage import Result
from ..training import LOWER_IS_BETTER, KnownRows
from ._intervals import weighted_metric

Floats = NDArray[np.float64]
_MOST_UNITS = 1_000
_FEWEST_UNITS = 20  # stretches of a single series
_FEWEST_DRAWN = 5  # units from which an interval can be drawn
_DRAWS = 1_000
_GAP = "time between observations"
# Of a reference for live data.
_MOST_STEPS = 64
_LONG = 4  # stretches of a series that goes on
_REFERENCE_UNITS, _REFERENCE_NUMBERS = 200, 20_000


@dataclass(frozen=True)
class Drift(Result):
    """Comparison of new series with those of training, the most different feature first.

    Attributes:
        names: Names of the features, such as "pulse: level" or "p(ill)".
        distances: Largest difference of the cumulative distributions of training and new series, 0 to 1.
        p_values: Probability of a distance this large of any feature if nothing has changed.
        before: Median of the training series.
        now: Median of the new series.
        level: Probability of a false alarm over all features.
        units: Number of series, groups or stretches of time of training and new.
    """

    names: tuple[str, ...]
    distances: Floats
    p_values: Floats
    before: Floats
    now: Floats
    level: float
    units: tuple[int, int]

    @property
    def found(self) -> tuple[str, ...]:
        """Features that have changed."""
        return tuple(name for name, p in zip(self.names, self.p_values, strict=True) if p <= self.level)


def find_drift(
    before: Mapping[str, Floats], now: Mapping[str, Floats], *, level: float = 0.01, draws: int = 999, seed: int = 0
) -> Drift:
    """Compares features of training and new series, one number per series each.

    The distances are those of Kolmogorov and Smirnov, times the root of the number of series. Their largest value over
    all features is compared with those of random divisions of all series into two parts of the same sizes (Westfall and
    Young, 1993), so that `level` is the probability of a false alarm over all features together.

    Args:
        before: Feature -> `(n,)` numbers of the training series, NaN where unknown.
        now: The same of the new series, `(m,)`.
        level: Probability of a false alarm.
        draws: Number of random divisions.
        seed: Random seed.

    Example:
        >>> draw = np.random.default_rng(0).normal
        >>> before, now = {"a": draw(size=200), "b": draw(size=200)}, {"a": draw(size=50), "b": draw(2, size=50)}
        >>> find_drift(before, now).found
        ('b',)
    """
    number("level", level, above=0, below=1)
    whole("draws", draws, at_least=19)
    names = list(before)
    rng = np.random.default_rng(seed)
    table = [np.stack([np.asarray(side[name], dtype=np.float64) for name in names], axis=1) for side in (before, now)]
    table = [
        side if len(side) <= _MOST_UNITS else side[np.sort(rng.choice(len(side), _MOST_UNITS, False))] for side in table
    ]
    sizes = len(table[0]), len(table[1])
    is_new = np.arange(sum(sizes)) >= sizes[0]
    marks = np.stack([is_new, *(rng.permutation(is_new) for _ in range(draws))])
    every = np.concatenate(table)
    scaled, distances = np.zeros((len(names), draws + 1)), np.zeros(len(names))
    for index in range(len(names)):
        gaps, root = _distances(every[:, index], marks)
        scaled[index], distances[index] = gaps * root, gaps[0]
    largest = scaled[:, 1:].max(0)
    p_values = (1 + (largest >= scaled[:, :1] - 1e-12).sum(1)) / (1 + draws)
    order = np.lexsort((-scaled[:, 0], p_values))
    medians = [
        np.array([np.nanmedian(column) if not np.isnan(column).all() else np.nan for column in side.T])
        for side in table
    ]
    return Drift(
        tuple(names[index] for index in order),
        distances[order],
        p_values[order],
        medians[0][order],
        medians[1][order],
        level,
        sizes,
    )


def _distances(values: Floats, marks: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Returns the distances of the two parts of each division `(draws, rows)`, and the root of their sizes."""
    mask = ~np.isnan(values)
    order = np.argsort(values[mask], kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[mask][order])), mask.sum() - 1)
    if not mask.any():
        return np.zeros(len(marks)), np.zeros(len(marks))
    new = np.cumsum(marks[:, mask][:, order], axis=1)
    steps = np.arange(1, mask.sum() + 1)
    there = new[:, -1:].astype(np.float64)
    old = steps[-1] - there
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.abs(new / there - (steps - new) / old)[:, ends].max(1)
        return np.nan_to_num(gaps), np.sqrt(there * old / steps[-1])[:, 0]


def features_of(s: Sequences, *, changes: bool = False, steps: int = 0) -> dict[str, Floats]:
    """Returns numbers that describe each group of series: level, spread and missing share of every channel, and times.

    Args:
        s: Whole series, not scaled.
        changes: Whether changes from step to step count instead of levels, as for forecasts, which follow any level.
        steps: Length of the stretches that series are cut into; 0 for whole series.

    Example:
        >>> from chronode.data import from_list
        >>> features_of(from_list([[1.0, 3.0], [5.0, 5.0]], channels=["x"]))["x: level"].tolist()
        [2.0, 5.0]
    """
    rng = np.random.default_rng(0)
    picked = np.sort(rng.choice(len(s), min(len(s), 4 * _MOST_UNITS), replace=False))
    names = feature_names(s.channels, changes=changes)
    rows, units = [], []
    for row in picked.tolist():
        series = s[row]
        size = steps or len(series.values)
        for first in range(0, max(1, len(series.values) - size // 2), size):
            part = slice(first, first + size)
            numbers = stretch_numbers(series.values[part].astype(np.float64), series.dt[part][1:], changes=changes)
            numbers += [] if series.static is None else series.static.astype(np.float64).tolist()
            rows.append([*numbers, float(len(series.values))])
            units.append(f"{series.group} {first}" if steps else str(series.group))
    names += [*s.static_names, "steps"]
    index = np.unique(units, return_inverse=True)[1]
    table = np.array(rows).reshape(len(rows), len(names))
    mask = ~np.isnan(table)
    sums = np.stack([np.bincount(index, np.where(mask, table, 0)[:, k]) for k in range(len(names))], axis=1)
    counts = np.stack([np.bincount(index, mask[:, k]) for k in range(len(names))], axis=1)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    skipped = {"steps"} if changes or steps else set()
    skipped |= {_GAP} if s.base_times is None else set()
    return {name: means[:, k] for k, name in enumerate(names) if name not in skipped}


def feature_names(channels: Sequence[str], *, changes: bool) -> list[str]:
    """Returns the names of the numbers of `stretch_numbers`."""
    level = "changes" if changes else "level"
    return [*(f"{name}: {what}" for name in channels for what in (level, "spread", "missing")), _GAP]


def stretch_numbers(values: Floats, gaps: Floats, *, changes: bool) -> list[float]:
    """Returns level, spread and missing share of every channel, and the mean gap.

    Args:
        values: `(T, D)` values of a stretch, not scaled, NaN where missing.
        gaps: Times between them; empty if there are none.
        changes: As for `features_of`.
    """
    found: list[float] = []
    for column in values.T:
        known = column[~np.isnan(column)]
        moved = np.diff(known) if changes else known
        level = float(moved.mean()) if len(moved) else np.nan
        found += [level, float(moved.std()) if len(moved) > 1 else np.nan, 1 - len(known) / max(len(column), 1)]
    # With few digits, what is equal stays equal after scaling and back, and in a file.
    return [float(f"{x:.5g}") for x in (*found, float(gaps.mean()) if len(gaps) else np.nan)]


def reference_of(s: Sequences, *, changes: bool = False) -> Reference | None:
    """Returns features of stretches of series, one of each of many series, or of a few series all; None if nearly all
    series are shorter than two observations.

    Args:
        s: Whole series, not scaled.
        changes: As for `features_of`.
    """
    few = stretch_length(s)
    steps = min(few, _MOST_STEPS) if few else int(min(np.quantile(s.lengths, 0.25), _MOST_STEPS // 2))
    usual = float(np.median(s.lengths))
    first = not few and usual < _LONG * steps
    long = np.flatnonzero(s.lengths >= steps)
    if steps < 2 or len(long) < 2 - bool(few):
        return None
    rng = np.random.default_rng(0)
    most = max(_FEWEST_UNITS, min(_REFERENCE_UNITS, _REFERENCE_NUMBERS // (3 * s.num_channels + 1)))
    s = replace(s.loaded(np.sort(rng.permutation(long)[:most])), static=None, static_names=(), lead=None)
    if not few:
        begin = 0 if first else (rng.random(len(s)) * (s.lengths - steps + 1)).astype(np.int64)
        s = replace(s, starts=s.starts + begin, lengths=np.full(len(s), steps), groups=np.arange(len(s)))
    found = features_of(s, changes=changes, steps=steps)
    rows = np.sort(rng.permutation(len(next(iter(found.values()))))[:most])
    columns = {name: column[rows] for name, column in found.items()}
    plain = {name: tuple(None if x != x else float(x) for x in own) for name, own in columns.items()}
    return Reference(steps, first, bool(few), max(1, int(usual) // steps), plain)


def stretch_length(s: Sequences) -> int:
    """Returns the length of the stretches that a few series are cut into, to have enough to compare; 0 for none."""
    if len(np.unique(s.groups)) >= _FEWEST_UNITS // 2:
        return 0
    return max(2, int(s.lengths.sum()) // _FEWEST_UNITS)


def units_of(groups: NDArray[Any], shortest: int = 1) -> NDArray[np.int64]:
    """Returns the unit of each row of predictions: its group, or a stretch of rows if there are few groups.

    Args:
        groups: Group of each row; the rows of a series are in the order of time.
        shortest: Fewest rows of a stretch: as many as depend on each other, such as the horizon of a forecast.

    Example:
        >>> units_of(np.array(["a"] * 6), shortest=3).tolist()
        [0, 0, 0, 1, 1, 1]
    """
    _, place, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if len(counts) >= _FEWEST_UNITS // 2:
        return place.astype(np.int64)
    size = max(shortest, -(-len(groups) // _FEWEST_UNITS))
    order = np.argsort(place, kind="stable")
    within = np.empty(len(groups), np.int64)
    within[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    # What is left at the end of a group belongs to its last whole stretch.
    stretch = np.minimum(within // size, np.maximum(counts[place] // size, 1) - 1)
    return np.unique(place * len(groups) + stretch, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class MetricChange(Result):
    """A metric of new series beside that of the test part.

    Attributes:
        metric: Name of the metric.
        before: Its value on the test part.
        now: Its value on the new series.
        low: Lower end of the interval of how much worse it is now; NaN if there are fewer than 5 groups.
        high: Upper end of that interval; NaN as well.
        level: Probability of a difference below the interval, and of one above it.
    """

    metric: str
    before: float
    now: float
    low: float
    high: float
    level: float = 0.025

    @property
    def is_worse(self) -> bool:
        """Whether it is worse by more than chance allows."""
        return self.low > 0


def metric_change(
    metric: str,
    before: KnownRows,
    now: KnownRows,
    *,
    positive: int = 1,
    level: float = 0.025,
    seed: int = 0,
) -> MetricChange:
    """Compares a metric of two sets of predictions, each drawn with replacement by group.

    Args:
        metric: Name of the metric.
        before: Predictions for the test part.
        now: Those of the new series.
        positive: Number of the positive class of two.
        level: Probability of a false alarm.
        seed: Random seed of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    values = []
    for predicted, true, groups, each in (before, now):
        names, index = np.unique(groups, return_inverse=True)
        drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_DRAWS).astype(np.float64)
        weights = np.concatenate([np.ones((1, len(names))), drawn])
        metrics = weighted_metric(metric, predicted, true, index, weights, positive, each)
        values.append(np.full(_DRAWS + 1, np.nan) if metrics is None else metrics)
    fewest = min(len(np.unique(groups)) for _, _, groups, _ in (before, now))
    worse = (values[1] - values[0]) * (1 if metric in LOWER_IS_BETTER else -1)
    drawn = worse[1:][np.isfinite(worse[1:])]
    low = high = np.nan
    if len(drawn) and fewest >= _FEWEST_DRAWN:
        low, high = worse[0] + _widening(fewest, level) * (np.quantile(drawn, [level, 1 - level]) - worse[0])
    return MetricChange(metric, float(values[0][0]), float(values[1][0]), float(low), float(high), level)


def _widening(count: int, level: float) -> float:
    """Returns by how much few groups make a bootstrap interval too narrow: as for a mean, by Student's t."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(count - 1, 1 - level) / ndtri(1 - level)) * (count / (count - 1)) ** 0.5
