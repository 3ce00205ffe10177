"""Confidence intervals of test metrics: exact for shares and areas, otherwise bootstrap over series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Sequences
from ..training import OWN_METRICS, KnownRows, Objective, Predictions, rows_by_target

Floats = NDArray[np.float64]

# Numbers that one table of draws may hold: 64 MB.
_MOST_NUMBERS = 2**23
_PROPORTIONS = ("accuracy", "sensitivity", "specificity")


def intervals_by_target(
    objective: Objective, data: Sequences, predictions: Predictions
) -> dict[str, tuple[float, float]]:
    """95% intervals of the metrics of an objective, of several targets with their names; see `metric_intervals`.

    Args:
        objective: The objective.
        data: Series with targets.
        predictions: Their predictions.
    """
    return intervals_of_rows(objective, rows_by_target(objective, data, predictions))


def intervals_of_rows(objective: Objective, rows: Sequence[KnownRows]) -> dict[str, tuple[float, float]]:
    """Returns the same for the rows of each target, as `rows_by_target` returns them."""
    ends = {}
    for part, name, (predicted, true, groups, weights) in zip(
        objective.parts, objective.targets if objective.heads else ("",), rows, strict=True
    ):
        metrics = (part.metric,) if objective.heads else part.metrics
        own = metric_intervals(metrics, predicted, true, groups, weights, positive=part.positive_number)
        ends |= {f"{name} {metric}".strip(): pair for metric, pair in own.items()}
    return ends


def metric_intervals(
    metrics: tuple[str, ...],
    predicted: NDArray[Any],
    true: NDArray[Any],
    groups: NDArray[Any],
    weights: NDArray[np.float64] | None = None,
    *,
    positive: int = 1,
    draws: int = 400,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """95% intervals of metrics: how they would vary with other groups of series in the test part.

    Rows of one group (the steps of a series, the series of a patient) are counted and drawn together, because they are
    alike. The intervals of accuracy, sensitivity and specificity are exact ones of proportions; those of other scores
    between 0 and 1 contain an inverted test and a bootstrap over the groups, because a score of 1 on a few series has
    no variance to draw from; those of losses and errors are bootstrap intervals.

    Args:
        metrics: Names as in `chronode.training._metrics`.
        predicted: `(rows, classes)` probabilities, or `(rows, targets)` values.
        true: `(rows,)` class numbers, or `(rows, targets)` values; rows that are all known, or NaN where not.
        groups: `(rows,)` what is drawn together.
        weights: `(rows,)` weights of the rows, with mean 1; None for equal weights.
        positive: Number of the positive class of two.
        draws: Number of draws.
        seed: Random seed of the bootstrap.

    Returns:
        Metric -> (low, high); {} of fewer than two groups. No interval has a width of 0: errors that are all equal
        have none.

    Example:
        >>> right = np.arange(100) % 4 > 0
        >>> found = metric_intervals(("accuracy",), np.stack([right, ~right], 1), np.zeros(100, int), np.arange(100))
        >>> low, high = found["accuracy"]
        >>> 0.6 < low < 0.75 < high < 0.9
        True
    """
    names, index = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        return {}
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws).astype(np.float64)
    intervals = {}
    for metric in metrics:
        values = None
        if metric not in OWN_METRICS:
            values = weighted_metric(metric, predicted, true, index, drawn, positive, weights)
        if values is None:
            continue
        each = np.ones(len(true)) if weights is None else weights
        exact = _Rows(predicted, true, index, drawn, positive, each).score(metric) if true.ndim == 1 else None
        ends = [] if exact is None else [exact.low, exact.high]
        if metric not in _PROPORTIONS and np.isfinite(values).mean() > 0.9:
            tail = (1 - LEVEL) / 2
            ends += np.quantile(values[np.isfinite(values)], [tail, 1 - tail]).tolist()
        if ends and max(ends) > min(ends):
            intervals[metric] = (float(min(ends)), float(max(ends)))
    return intervals


@dataclass(frozen=True)
class _Rows:
    """Predicted and true classes of rows in groups, how often each draw takes each group, and weights of the rows."""

    chances: NDArray[Any]
    true: NDArray[Any]
    place: NDArray[np.int64]
    weights: Floats
    positive: int
    each: Floats

    def score(self, metric: str) -> Score | None:
        """Returns a score between 0 and 1 with its interval; None for other metrics."""
        if metric == "accuracy":
            return self._share(self._predicted == self.true, np.ones(len(self.true), dtype=bool))
        if metric in ("sensitivity", "specificity"):
            return self._recall(self.positive if metric == "sensitivity" else 1 - self.positive)
        by_class = {"balanced_accuracy": self._recall, "f1": self._f1, "auroc": self._auroc}
        by_class |= dict.fromkeys(("auprc", "min_se_ppv"), lambda one: self._precision(metric, one))
        if metric not in by_class:
            return None
        classes = range(self.chances.shape[1])
        if metric != "balanced_accuracy":
            classes = sides(self.chances.shape[1], self.positive)
        scores = [score for one in classes if (score := by_class[metric](one)) is not None]
        return mean_of(scores) if scores else None

    @property
    def _predicted(self) -> NDArray[np.int64]:
        return self.chances.argmax(-1)

    def _recall(self, one: int) -> Score | None:
        return self._share(self._predicted == one, self.true == one)

    def _f1(self, one: int) -> Score | None:
        called, actual = self._predicted == one, self.true == one
        jaccard = self._share(called & actual, called | actual)
        return None if jaccard is None else f1_of(jaccard)

    def _auroc(self, one: int) -> Score | None:
        (drawn,), value = self._ranked("auroc", one)
        if not np.isfinite(value):
            return None
        sides = [self._sizes(self.true == one), self._sizes(self.true != one)]
        counts = [float(side.sum()) for side in sides]
        least = min(effective_number(side) / count for side, count in zip(sides, counts, strict=True))
        share = _share_of_rows(area_variance(value, *counts), drawn, least)
        return area(value, *(share * count for count in counts))

    def _precision(self, metric: str, one: int) -> Score | None:
        """Returns a score of the precision as a proportion of the positive rows (Boyd and others, 2013)."""
        (drawn,), value = self._ranked(metric, one)
        return None if not np.isfinite(value) else self._of_rows(value, drawn, self._sizes(self.true == one))

    def _ranked(self, metric: str, one: int) -> tuple[Floats, float]:
        weights, every = self.each * self.weights[:, self.place], self.each[None]
        drawn = np.array(list(_areas(_RANKING[metric], self.chances, self.true, weights, [one])))
        return drawn, float(next(_areas(_RANKING[metric], self.chances, self.true, every, [one]))[0])

    def _share(self, right: NDArray[np.bool_], counted: NDArray[np.bool_]) -> Score | None:
        """Returns how many of the counted rows are right."""
        sizes, hits = self._sizes(counted), self._sizes(counted & right)
        if not sizes.sum():
            return None
        with np.errstate(invalid="ignore"):
            drawn = (self.weights @ hits) / (self.weights @ sizes)
        return self._of_rows(float(hits.sum() / sizes.sum()), drawn, sizes)

    def _of_rows(self, value: float, drawn: Floats, sizes: Floats) -> Score:
        """Returns a score as a proportion of as many independent rows as have the variance of the draws."""
        count = float(sizes.sum())
        count *= _share_of_rows(value * (1 - value) / count, drawn, effective_number(sizes) / count)
        return proportion(min(value, 1.0) * count, count)

    def _sizes(self, counted: NDArray[np.bool_]) -> Floats:
        """Returns the number, or weight, of counted rows of each group."""
        return np.bincount(self.place[counted], self.each[counted], self.weights.shape[1]).astype(np.float64)


def _share_of_rows(alone: float, drawn: Floats, least: float) -> float:
    """Returns the share of rows that count as independent: the variance of independent rows over that of the draws.

    Args:
        alone: Variance of the score if all rows were independent.
        drawn: The score in the draws of whole groups.
        least: Share if the rows of a group are all alike; 1 if every group has one row.
    """
    variance = float(np.nanvar(drawn)) if np.isfinite(drawn).any() else 0.0
    return least if not alone or not variance else min(max(alone / variance, least), 1.0)


def sides(classes: int, positive: int) -> list[int]:
    """Returns the classes that a metric is a mean of: each against the rest, or the positive one of two."""
    return [positive] if classes == 2 else list(range(classes))


def weighted_metric(
    metric: str,
    predicted: NDArray[Any],
    true: NDArray[Any],
    place: NDArray[np.int64],
    weights: Floats,
    positive: int = 1,
    each: Floats | None = None,
) -> Floats | None:
    """`(draws,)` a metric where group g counts `weights[draw, g]` times, and its rows `each (rows,)`; None if it would
    take too much memory.
    """
    predicted = np.asarray(predicted, dtype=np.float64)
    groups, each = weights.shape[1], np.ones(len(predicted)) if each is None else each

    def total(*columns: Floats) -> list[Floats]:
        """`(draws,)` weighted sums of per-row numbers."""
        return [weights @ np.bincount(place, each * column, minlength=groups) for column in columns]

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if metric in _RANKING:
            if len(predicted) * len(weights) > _MOST_NUMBERS:
                return None
            numbers = sides(predicted.shape[1], positive)
            areas = list(_areas(_RANKING[metric], predicted, true, each * weights[:, place], numbers))
            count = np.isfinite(areas).sum(0)
            return np.where(count > 0, np.nansum(areas, axis=0) / np.maximum(count, 1), np.nan)
        if true.ndim == 1:
            return _class_metric(metric, predicted, true, total, positive)
        return _value_metric(metric, predicted, np.asarray(true, dtype=np.float64), total)


def _class_metric(
    metric: str, chances: Floats, true: NDArray[Any], total: Callable[..., list[Floats]], positive: int
) -> Floats:
    predicted, classes = chances.argmax(-1), sides(chances.shape[1], positive)
    if metric == "accuracy":
        right, count = total(predicted == true, np.ones(len(true)))
        return right / count
    if metric in ("cross_entropy", "perplexity"):
        surprise, count = total(-np.log(np.maximum(chances[np.arange(len(true)), true], 1e-38)), np.ones(len(true)))
        return surprise / count if metric == "cross_entropy" else np.exp(np.minimum(surprise / count, 700.0))
    if metric != "f1":
        wanted = {"sensitivity": [positive], "specificity": [1 - positive]}.get(metric, range(chances.shape[1]))
        pairs = [total((predicted == one) & (true == one), true == one) for one in wanted]
        recalls = np.array([np.where(there > 0, right / there, np.nan) for right, there in pairs])
        count = np.isfinite(recalls).sum(0)
        return np.where(count > 0, np.nansum(recalls, axis=0) / np.maximum(count, 1), np.nan)
    scores = []
    for one in classes:
        both, ours, theirs = total((predicted == one) & (true == one), predicted == one, true == one)
        there = ours + theirs
        # Of more than two classes, one that neither occurs nor is predicted does not count.
        nothing = 0.0 if len(classes) == 1 else np.nan
        scores.append(np.where(there > 0, 2 * both / np.where(there > 0, there, 1), nothing))
    return np.nanmean(scores, axis=0)


def _value_metric(metric: str, predicted: Floats, true: Floats, total: Callable[..., list[Floats]]) -> Floats:
    if metric == "r2":
        rows = ~np.isnan(true).any(-1)
        ratios = []
        for ours, theirs in zip(predicted.T, true.T, strict=True):
            theirs, gap = np.where(rows, theirs - theirs[rows].mean(), 0), np.where(rows, theirs - ours, 0)
            square, gaps, sums, count = total(theirs**2, gap**2, theirs, rows)
            ratios.append(1 - gaps / (square - sums**2 / count))
        return np.mean(ratios, axis=0)
    mask = ~np.isnan(true)
    gap = np.where(mask, predicted - true, 0)
    if metric == "mae":
        size, count = total(np.abs(gap).sum(-1), mask.sum(-1))
        return size / count
    squares, count, scale = total((gap**2).sum(-1), mask.sum(-1), np.where(mask, true**2, 0).sum(-1))
    if metric == "nrmse":
        return np.sqrt(squares / scale)
    return squares / count if metric == "mse" else np.sqrt(squares / count)


def _areas(
    area: Callable[[Floats, Floats], Floats], chances: NDArray[Any], true: NDArray[Any], weights: Floats, numbers: Any
) -> Iterator[Floats]:
    """Yields the area of each class against the rest, `(draws,)`; NaN where the class or the rest was not drawn."""
    for one in numbers:
        order = np.argsort(-chances[:, one], kind="stable")
        score, drawn = chances[order, one], weights[:, order]
        # Rows with equal scores are one threshold: sums count at the last of them.
        ends = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)
        positive = true[order] == one
        inside = np.cumsum(drawn * positive, axis=1)[:, ends]
        outside = np.cumsum(drawn * ~positive, axis=1)[:, ends]
        occurs = (inside[:, -1] > 0) & (outside[:, -1] > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            yield np.where(occurs, area(inside, outside), np.nan)


def _auroc(inside: Floats, outside: Floats) -> Floats:
    """Returns the share of pairs in the right order; `inside` and `outside` count up to each threshold, the highest
    first.
    """
    before = np.concatenate([np.zeros((len(inside), 1)), inside[:, :-1]], axis=1)
    each = np.diff(outside, axis=1, prepend=0.0)
    return (each * (inside + before) / 2).sum(1) / (inside[:, -1] * outside[:, -1])


def _auprc(inside: Floats, outside: Floats) -> Floats:
    precision = inside / np.maximum(inside + outside, 1e-300)
    return (np.diff(inside, axis=1, prepend=0.0) * precision).sum(1) / inside[:, -1]


def _min_se_ppv(inside: Floats, outside: Floats) -> Floats:
    precision = inside / np.maximum(inside + outside, 1e-300)
    return np.minimum(precision, inside / inside[:, -1:]).max(1)


_RANKING: dict[str, Callable[[Floats, Floats], Floats]] = {
    "auroc": _auroc,
    "auprc": _auprc,
    "min_se_ppv": _min_se_ppv,
}


LEVEL = 0.95
_QUANTILE = 1.959963984540054  # of the normal distribution, for LEVEL
_HALVINGS = 50


class Score(NamedTuple):
    """A score and its interval."""

    value: float
    low: float
    high: float


def proportion(right: float, count: float) -> Score:
    """Returns the interval of Clopper and Pearson for a proportion; `count` may be an effective number.

    Example:
        >>> low, high = proportion(13, 13)[1:]
        >>> round(low, 3), high
        (0.753, 1.0)
    """
    from scipy.special import betaincinv

    tail = (1 - LEVEL) / 2
    low = float(betaincinv(right, count - right + 1, tail)) if right > 0 else 0.0
    high = float(betaincinv(right + 1, count - right, 1 - tail)) if right < count else 1.0
    return Score(right / count, low, high)


def f1_of(jaccard: Score) -> Score:
    """Returns F1 from TP / (TP + FP + FN), a proportion of the rows that either are or are called positive."""
    return Score(*(2 * end / (1 + end) for end in jaccard))


def area(value: float, positives: float, negatives: float) -> Score:
    """Returns the interval of Newcombe (2006, method 5) for an area under the ROC curve.

    Its ends are the areas from which `value` is 1.96 standard errors away, with the variance of Hanley and McNeil.

    Example:
        >>> low, high = area(1.0, 10, 20)[1:]
        >>> round(low, 2), high
        (0.85, 1.0)
    """

    def reached(true: float) -> bool:
        return abs(true - value) <= _QUANTILE * area_variance(true, positives, negatives) ** 0.5

    ends = []
    for outside in (0.0, 1.0):
        inside = value
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if reached(middle) else (inside, middle)
        ends.append(inside)
    return Score(value, ends[0], ends[1])


def area_variance(true: float, positives: float, negatives: float) -> float:
    """Returns the variance of an area under the ROC curve, with equal roles of positives and negatives."""
    half = max((positives + negatives) / 2 - 1, 0.0)
    pairs = 1 + half * (1 - true) / (2 - true) + half * true / (1 + true)
    return true * (1 - true) * pairs / (positives * negatives)


def mean_of(scores: Sequence[Score]) -> Score:
    """Returns the interval of a mean of scores of different classes (method of variance estimates recovery).

    Example:
        >>> low, high = mean_of([proportion(5, 5), proportion(20, 20)])[1:]
        >>> round(low, 2), high
        (0.73, 1.0)
    """
    value, low, high = np.array(scores).T
    mean = float(value.mean())
    below, above = (float(np.sqrt(np.sum((value - end) ** 2)) / len(value)) for end in (low, high))
    return Score(mean, max(mean - below, 0.0), min(mean + above, 1.0))


def effective_number(sizes: NDArray[np.float64]) -> float:
    """Returns how many independent rows there are at least, if the rows of a group are all alike (Kish).

    Example:
        >>> effective_number(np.array([1.0, 1.0, 1.0])), effective_number(np.array([4.0, 4.0]))
        (3.0, 2.0)
    """
    return float(sizes.sum() ** 2 / np.square(sizes).sum())
