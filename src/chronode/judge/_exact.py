"""Intervals of scores between 0 and 1 that do not collapse on small parts, where the bootstrap does.

A score of 1 on a few series has no variance: a bootstrap interval is (1, 1), although the next series may be wrong. The
intervals here are inverted tests instead: their ends are the true values at which the score would be surprising.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
