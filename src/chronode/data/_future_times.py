"""Times of the steps that follow a series."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._sequences import Sequences
from ._times import Clock

_ENOUGH = 400  # dates that show whether they follow a calendar
_USUAL = 0.8  # share of the steps between weekdays that are one weekday long; the others skip holidays


def future_times(s: Sequences, horizon: int) -> NDArray[np.float64]:
    """Returns the times of the next `horizon` steps of each series, `(N, horizon)`.

    They follow at the median gap of the series. Dates that are whole months apart, ends of months included, continue in
    whole months, and those from Monday to Friday on weekdays.

    Example:
        >>> from chronode.data import from_list
        >>> future_times(from_list([[1.0, 2.0, 3.0]], times=[[0.0, 2.0, 4.0]]), 2).tolist()
        [[6.0, 8.0]]
    """
    usual, found = s.median_gap() or 1.0, []
    for series in s:
        later = _by_calendar(s.clock, series.times, horizon)
        if later is None:
            gaps = np.diff(series.times)
            gap = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else usual
            later = series.times[-1] + gap * np.arange(1, horizon + 1)
        found.append(later)
    return np.array(found)


def instants(clock: Clock, times: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Returns times as dates."""
    origin = np.datetime64(str(clock.origin).rstrip("Z"), "us")
    return origin + np.round(times * clock.scale * 1e6).astype("m8[us]")


def _by_calendar(clock: Clock, times: NDArray[np.float64], horizon: int) -> NDArray[np.float64] | None:
    """Returns the next times of dates that follow a calendar; None for others."""
    if not clock.dates or len(times) < 2:
        return None
    moments = instants(clock, times[-_ENOUGH:])
    days = moments.astype("M8[D]")
    if ((moments - days) != moments[0] - days[0]).any():  # at another time of the day
        return None
    later = _later_days(days, np.arange(1, horizon + 1))
    return None if later is None else times[-1] + (later - days[-1]) / np.timedelta64(1, "s") / clock.scale


def _later_days(days: NDArray[np.datetime64], ahead: NDArray[np.int64]) -> NDArray[np.datetime64] | None:
    """Returns the days this many steps after the last one: same days or ends of months, or weekdays."""
    months = days.astype("M8[M]")
    steps, within = np.diff(months).astype(np.int64), days - months.astype("M8[D]")
    if steps[0] > 0 and (steps == steps[0]).all():
        later = months[-1] + (steps[0] * ahead).astype("m8[M]")
        if (within == within[0]).all():
            return later.astype("M8[D]") + within[0]
        if ((days + 1).astype("M8[M]") > months).all():
            return (later + 1).astype("M8[D]") - 1
    weekends_are_skipped = np.is_busday(days).all() and (np.diff(days) == np.timedelta64(3, "D")).any()
    if weekends_are_skipped and (np.busday_count(days[:-1], days[1:]) == 1).mean() >= _USUAL:
        return np.busday_offset(days[-1], ahead)
    return None
