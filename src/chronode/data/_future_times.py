"""Times of the steps that follow a series."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._sequences import Sequences
from ._times import Clock

_ENOUGH = 400  # dates that show whether they are whole months apart


def future_times(s: Sequences, horizon: int) -> NDArray[np.float64]:
    """Returns the times of the next `horizon` steps of each series, `(N, horizon)`.

    They follow at the median gap of the series; dates that are whole months apart continue in whole months.

    Example:
        >>> from chronode.data import from_list
        >>> future_times(from_list([[1.0, 2.0, 3.0]], times=[[0.0, 2.0, 4.0]]), 2).tolist()
        [[6.0, 8.0]]
    """
    usual, found = s.median_gap() or 1.0, []
    for series in s:
        months = _months(s.clock, series.times)
        if months is not None:
            found.append(_later_months(s.clock, float(series.times[-1]), months * np.arange(1, horizon + 1)))
            continue
        gaps = np.diff(series.times)
        gap = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else usual
        found.append(series.times[-1] + gap * np.arange(1, horizon + 1))
    return np.array(found)


def instants(clock: Clock, times: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Returns times as dates."""
    origin = np.datetime64(str(clock.origin).rstrip("Z"), "us")
    return origin + np.round(times * clock.scale * 1e6).astype("m8[us]")


def _months(clock: Clock, times: NDArray[np.float64]) -> int | None:
    """Returns the months from one date to the next, if it is always the same number and the same day of the month."""
    if not clock.dates or len(times) < 2:
        return None
    moments = instants(clock, times[-_ENOUGH:])
    months = moments.astype("M8[M]")
    within, steps = moments - months.astype("M8[us]"), np.diff(months).astype(np.int64)
    regular = (within == within[0]).all() and (steps == steps[0]).all() and steps[0] > 0
    return int(steps[0]) if regular else None


def _later_months(clock: Clock, time: float, months: NDArray[np.int64]) -> NDArray[np.float64]:
    (instant,) = instants(clock, np.array([time]))
    month = instant.astype("M8[M]")
    later = (month + months.astype("m8[M]")).astype("M8[us]") + (instant - month.astype("M8[us]"))
    return time + (later - instant) / np.timedelta64(1, "us") * 1e-6 / clock.scale
