"""How sure a test metric is: bootstrap intervals over series, all draws at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEVEL = 0.95
# Numbers that one table of draws may hold: 64 MB.
_MOST_NUMBERS = 2**23


def bootstrap_intervals(
    metrics: tuple[str, ...],
    predicted: NDArray[Any],
    true: NDArray[Any],
    groups: NDArray[Any],
    *,
    draws: int = 400,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """95% intervals of metrics: how they vary if the groups of the test part are resampled with replacement.

    Rows of one group (the steps of a series, the series of a patient) are drawn together, because they are alike.

    Args:
        metrics: Names as in `chronode.training._metrics`.
        predicted: `(rows, classes)` probabilities, or `(rows, targets)` values.
        true: `(rows,)` class numbers, or `(rows, targets)` values; rows that are all known, or NaN where not.
        groups: `(rows,)` what is drawn together.
        draws: Number of draws.
        seed: Of the draws.

    Returns:
        Metric -> (low, high), for metrics that are finite in most draws; {} of fewer than two groups.

    Example:
        >>> right = np.arange(100) % 4 > 0
        >>> found = bootstrap_intervals(("accuracy",), np.stack([right, ~right], 1), np.zeros(100, int), np.arange(100))
        >>> low, high = found["accuracy"]
        >>> 0.6 < low < 0.75 < high < 0.9
        True
    """
    names, place = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        return {}
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws).astype(np.float64)
    found = {}
    for metric in metrics:
        values = weighted_metric(metric, predicted, true, place, weights)
        if values is not None and np.isfinite(values).mean() > 0.9:
            ends = np.nanquantile(values[np.isfinite(values)], [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
            found[metric] = (float(ends[0]), float(ends[1]))
    return found


def weighted_metric(
    metric: str, predicted: NDArray[Any], true: NDArray[Any], place: NDArray[np.int64], weights: Floats
) -> Floats | None:
    """`(draws,)` a metric where group g counts `weights[draw, g]` times; None if it would take too much memory."""
    predicted = np.asarray(predicted, dtype=np.float64)
    groups = weights.shape[1]

    def total(*columns: Floats) -> list[Floats]:
        """`(draws,)` weighted sums of per-row numbers."""
        return [weights @ np.bincount(place, column.astype(np.float64), minlength=groups) for column in columns]

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if metric in _RANKING:
            if len(predicted) * len(weights) > _MOST_NUMBERS:
                return None
            return _by_class(_RANKING[metric], predicted, true, weights[:, place])
        if true.ndim == 1:
            return _class_metric(metric, predicted, true, total)
        return _value_metric(metric, predicted, np.asarray(true, dtype=np.float64), total)


def _class_metric(metric: str, chances: Floats, true: NDArray[Any], total: Callable[..., list[Floats]]) -> Floats:
    predicted = chances.argmax(-1)
    if metric == "accuracy":
        right, count = total(predicted == true, np.ones(len(true)))
        return right / count
    if metric in ("cross_entropy", "perplexity"):
        surprise, count = total(-np.log(np.maximum(chances[np.arange(len(true)), true], 1e-38)), np.ones(len(true)))
        return surprise / count if metric == "cross_entropy" else np.exp(np.minimum(surprise / count, 700.0))
    assert metric == "f1", metric
    classes = [1] if chances.shape[1] == 2 else range(chances.shape[1])
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
            theirs, gap = np.where(rows, theirs, 0), np.where(rows, theirs - ours, 0)
            square, gaps, sums, count = total(theirs**2, gap**2, theirs, rows)
            ratios.append(1 - gaps / (square - sums**2 / count))
        return np.mean(ratios, axis=0)
    known = ~np.isnan(true)
    gap = np.where(known, predicted - true, 0)
    if metric == "mae":
        size, count = total(np.abs(gap).sum(-1), known.sum(-1))
        return size / count
    squares, count, scale = total((gap**2).sum(-1), known.sum(-1), np.where(known, true**2, 0).sum(-1))
    if metric == "nrmse":
        return np.sqrt(squares / scale)
    return squares / count if metric == "mse" else np.sqrt(squares / count)


def _by_class(area: Callable[[Floats, Floats], Floats], chances: Floats, true: NDArray[Any], weights: Floats) -> Floats:
    """Returns the mean over the classes that occur, each against the rest; of two classes, that of the second."""
    classes = [1] if chances.shape[1] == 2 else range(chances.shape[1])
    areas = []
    for one in classes:
        order = np.argsort(-chances[:, one], kind="stable")
        score, drawn = chances[order, one], weights[:, order]
        # Rows with equal scores are one threshold: sums count at the last of them.
        ends = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)
        positive = true[order] == one
        inside = np.cumsum(drawn * positive, axis=1)[:, ends]
        outside = np.cumsum(drawn * ~positive, axis=1)[:, ends]
        occurs = (inside[:, -1] > 0) & (outside[:, -1] > 0)
        areas.append(np.where(occurs, area(inside, outside), np.nan))
    count = np.isfinite(areas).sum(0)
    return np.where(count > 0, np.nansum(areas, axis=0) / np.maximum(count, 1), np.nan)


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
