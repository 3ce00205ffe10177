"""Time axes of plots: dates where the times are dates, otherwise the numbers of the file."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ..data import Sequences
from .pages import number, ticks

_MOST = 5
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
_DAYS = (1, 2, 5, 7, 10, 14)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12_000)
_WINDOW = re.compile(r"(.*)\[(\d+):(\d+)\]")


class TimeAxis(NamedTuple):
    """Label of a time axis, and the places and texts of its ticks; None for plain numbers."""

    label: str
    marks: list[tuple[float, str]] | None


def time_axis(s: Sequences, low: float, high: float) -> TimeAxis:
    """Returns the axis of the times of series from `low` to `high`, in their units.

    Example:
        >>> from chronode.data import from_wide
        >>> s = from_wide({"day": ["2024-01-30", "2024-02-02"], "x": [1.0, 2.0]}, time="day")
        >>> label, marks = time_axis(s, *s[0].times[[0, -1]])
        >>> label, [text for _, text in marks]
        ('date', ['2024-01-30', '2024-01-31', '2024-02-01', '2024-02-02'])
    """
    clock = s.clock
    if s.base_times is None:
        return TimeAxis("step", None)
    if clock.dates:
        return _dates(str(clock.origin), clock.scale, low, high)
    if clock.unit_text().endswith("given numbers") and isinstance(clock.origin, int | float):
        places = ticks(clock.origin + low * clock.scale, clock.origin + high * clock.scale, _MOST + 2)
        return TimeAxis("time", [((place - clock.origin) / clock.scale, number(place)) for place in places])
    return TimeAxis(f"time ({clock.unit_text()})", None)


def _dates(origin: str, scale: float, low: float, high: float) -> TimeAxis:
    """Returns ticks at round dates: whole years, months, days, hours, minutes or seconds."""
    start = np.datetime64(origin.rstrip("Z"), "us")
    first, last = (start + np.timedelta64(round(end * scale * 1e6), "us") for end in (low, high))
    places, label = _round_dates(first, last)
    zone = " (UTC)" if origin.endswith("Z") and label != "date" else ""
    unit = np.timedelta64(1, "us")
    # A first tick that rounding puts before the axis is left out.
    marks = [((place.astype("M8[us]") - start) / unit * 1e-6 / scale, text) for place, text in places]
    room = 1e-9 * max(high - low, 1e-300)
    return TimeAxis(f"{label}{zone}", [mark for mark in marks if low - room <= mark[0] <= high + room])


def _round_dates(first: np.datetime64, last: np.datetime64) -> tuple[list[tuple[np.datetime64, str]], str]:
    seconds = max((last - first) / np.timedelta64(1, "s"), 1e-6)
    if seconds <= _MOST * _SECONDS[-1]:
        step = next((size for size in _SECONDS if seconds / size <= _MOST), _SECONDS[-1])
        day, unit = first.astype("M8[D]"), "s" if step < 60 else "m"
        count = int((last - day) / np.timedelta64(step, "s")) + 1
        places = [day.astype("M8[s]") + np.timedelta64(step * i, "s") for i in range(count + 1)]
        several = last.astype("M8[D]") > day
        texts = [str(np.datetime_as_string(place, unit)) for place in places]
        texts = [f"{text[5:10]} {text[11:]}" if several else text[11:] for text in texts]
        return list(
            zip(places, texts, strict=True)
        ), f"date and time in {str(day)[:4]}" if several else f"time on {day}"
    days = seconds / 86_400
    if days <= _MOST * _DAYS[-1]:
        step = next(size for size in _DAYS if days / size <= _MOST)
        first_day, last_day = (int(end.astype("M8[D]").astype(int)) for end in (first, last))
        return [
            (np.datetime64(day, "D"), str(np.datetime64(day, "D"))) for day in range(first_day, last_day + 1, step)
        ], "date"
    months = days / 30.44
    step = next((size for size in _MONTHS if months / size <= _MOST), _MONTHS[-1])
    begin, end = (int(end.astype("M8[M]").astype(int)) for end in (first, last))
    places = [np.datetime64(month, "M") for month in range(begin // step * step, end + 1, step)]
    return [(place, str(place)[:4] if step >= 12 else str(place)) for place in places], "date"


def series_name(id: object) -> str:
    """Returns the name of a series, or of a window with the number of its first step and that after it.

    Example:
        >>> series_name("p17"), series_name("GOOG[0:31]")
        ('series p17', 'GOOG, window 0:31')
    """
    parts = _WINDOW.fullmatch(str(id))
    return f"series {id}" if parts is None else f"{parts[1]}, window {parts[2]}:{parts[3]}"


def origin_of(id: object) -> str:
    """Returns the id of the series that a window belongs to.

    Example:
        >>> origin_of("GOOG[0:31]"), origin_of("GOOG")
        ('GOOG', 'GOOG')
    """
    parts = _WINDOW.fullmatch(str(id))
    return str(id) if parts is None else parts[1]


def noun(s: Sequences) -> str:
    """Returns what the rows of a part are: "window" or "series"."""
    return "window" if len(s) and _WINDOW.fullmatch(str(s.ids[0])) else "series"
