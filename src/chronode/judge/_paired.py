"""Differences between two models over the seeds that both were run with."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

from ._exact import LEVEL


class PairedDifference(NamedTuple):
    """Mean difference of a metric over shared seeds.

    Attributes:
        mean: Mean of the differences, first model minus second.
        low: Lower end of the 95% interval of the mean; None with one seed.
        high: Upper end of that interval.
        n: Number of shared seeds.
    """

    mean: float
    low: float | None
    high: float | None
    n: int


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> PairedDifference | None:
    """Compares two models seed by seed; the interval is that of Student's t for the mean of the differences.

    Args:
        first: Seed -> metric of the first model.
        second: Seed -> metric of the second model.

    Returns:
        The difference; None without a shared seed.

    Example:
        >>> found = paired_difference({0: 0.91, 1: 0.93, 2: 0.92}, {0: 0.90, 1: 0.91, 2: 0.91})
        >>> round(found.mean, 4), round(found.low, 4), round(found.high, 4), found.n
        (0.0133, -0.001, 0.0277, 3)
    """
    gaps = [value - second[seed] for seed, value in first.items() if seed in second]
    if not gaps:
        return None
    mean, n = statistics.fmean(gaps), len(gaps)
    if n == 1:
        return PairedDifference(mean, None, None, 1)
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * statistics.stdev(gaps) / math.sqrt(n)
    return PairedDifference(mean, mean - half, mean + half, n)
