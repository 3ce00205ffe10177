"""Roles that the names and values of columns suggest: ids, times, readings, static columns, row numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named
from ._cells import is_text, missing_markers, numbers
from ._columns import Column, codes
from ._dates import moments_of
from ._table import UNNAMED

FEW_TEXTS = 20
"""Most different texts of a column that becomes one channel per text."""
_SAMPLE = 200
_UNIQUE = 0.9  # share of rows with a time of their own within their series
_SHARED = 0.6  # share of different times in a table of several series of which nothing says so
_ONE_ROW = 0.8  # share of different ids in a table with a row per series
_LEAST_STEPS = 3
_LEAST_ROWS = 10  # of a table in which a column may be taken for the numbers of its rows
_MOST_CHANNELS = 200
_OF_READINGS = ("value", "values", "reading", "result", "measurement")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_PEOPLE = (
    "id",
    "ids",
    "uid",
    "uuid",
    "patient",
    "subject",
    "person",
    "participant",
    "customer",
    "user",
    "symbol",
    "ticker",
)
"""Words that name series, whatever the times."""
_OF_IDS = (
    *(*_PEOPLE, "key", "code", "stock", "series", "name", "station", "sensor", "device", "machine", "store", "shop"),
    *("item", "sku", "product", "city", "country", "county", "region", "state", "site", "location", "origin", "plant"),
    *(
        "plot",
        "animal",
        "rat",
        "chick",
        "tree",
        "child",
        "school",
        "hospital",
        "case",
        "stay",
        "player",
        "team",
        "ship",
    ),
)
_OF_DATES = ("timestamp", "datetime", "date", "time")
_OF_TIMES = (*_OF_DATES, "day", "days", "hour", "hours", "minute", "minutes", "second", "seconds", "week", "month")
_OF_TIMES += (
    "year",
    "years",
    "age",
    "visit",
    "period",
    "wave",
    "occasion",
    "session",
    "start",
    "ts",
    "t",
    "when",
    "ds",
)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def is_date(name: str, column: Column) -> bool:
    """Returns whether a column holds dates; numbers do only if they are called so."""
    head = column.slice(0, _SAMPLE).drop_null()
    if not len(head) or (not is_text(head) and not {*_words(name)} & {*_OF_DATES}):
        return not len(head) < 1 and str(column.type).startswith(("timestamp", "date"))
    try:
        return moments_of(name, head).instants
    except (ValueError, OverflowError):
        return False


def counts_rows(name: str, column: Column) -> bool:
    """Returns whether a column numbers the rows of the table: it says nothing, or gives away the order of the file.

    Reading leaves out an unnamed index by itself.
    """
    if (
        UNNAMED.fullmatch(name)
        or {*_words(name)} & {*_OF_IDS, *_OF_TIMES}
        or len(column) < _LEAST_ROWS
        or column.null_count
        or is_text(column)
    ):
        return False
    values = numbers(column)
    if values is None or np.ptp(values) != len(values) - 1 or (values % 1).any():
        return False
    return len(np.unique(values)) == len(values)


def readings_of(
    free: Mapping[str, Column], dates: Collection[str], given: Mapping[str, Any], series: NDArray[Any]
) -> dict[str, Any]:
    """Returns the options of a table with one reading per row: {} unless times repeat within the series, but not
    those of each name of a channel, and one column is left that can hold the readings.
    """
    if any(given.get(role) for role in ("columns", "static", "categorical", "channel")):
        return {}
    free = {name: column for name, column in free.items() if name != given["id"]}
    texts = [name for name, column in free.items() if name not in dates and is_text(column)]
    times = [given["time"]] if given.get("time") else times_of(free, dates, None)
    values = [name for name, column in free.items() if name not in (*times, *texts) and numbers(column) is not None]
    values = [name for name in values if {*_words(name)} & {*_OF_READINGS}] or values
    if len(texts) != 1 or len(times) != 1 or len(values) != 1 or times[0] not in free:
        return {}
    clock, (channel, names) = codes(free[times[0]], times[0])[0], codes(free[texts[0]], texts[0])
    if (channel < 0).any() or len(names) > _MOST_CHANNELS or _own_times(series, clock) > _UNIQUE:
        return {}
    of_channel = series.astype(np.int64) * len(names) + channel
    if _own_times(np.unique(of_channel, return_inverse=True)[1], clock) <= _UNIQUE:
        return {}
    return {"time": times[0], "channel": texts[0], "value": values[0]}


# ---- id and time -----------------------------------------------------------------------------------------


def id_of(free: Mapping[str, Column], columns: Mapping[str, Column], time: str | None, dates: Collection[str]) -> str:
    """Returns the column that identifies the series; "" if the rows are those of one series, or of one row each."""
    by_name = [name for name in free if {*_words(name)} & {*_OF_IDS} and name not in dates]
    by_name.sort(key=lambda name: ("id" not in _words(name), not {*_words(name)} & {*_PEOPLE}))
    times = [time] if time else [name for name in times_of(free, dates, None) if name not in by_name[:1]]
    clocks = [codes(columns[name], name)[0] for name in times]
    texts = [name for name in free if name not in (*by_name, *dates, *times) and is_text(free[name])]
    sure = ""
    for name in (*by_name, *texts):
        series, ids = codes(free[name], name)
        if (series < 0).any() or len(ids) < 2:
            continue
        is_sure = bool({*_words(name)} & {*_PEOPLE})
        if is_sure and len(ids) > _ONE_ROW * len(series):
            return ""
        sure = sure or (name if is_sure else "")
        shared = (clock for clock in clocks if _own_times(np.zeros_like(series), clock) < _SHARED)
        if any(_own_times(series, clock) > _UNIQUE for clock in (clocks if is_sure else shared)):
            return name
        if name in by_name and not clocks and len(ids) <= len(series) / 2:
            return name
    numbered = (name for name in free if name not in (*by_name, *texts, *dates, *times))
    return sure or next((name for name in numbered if times and _numbers_series(free[name], columns[times[0]])), "")


def _numbers_series(column: Column, time: Column) -> bool:
    """Returns whether whole numbers tell series apart, whatever their name: the rows of each number follow each other,
    and within each of them, but not in the whole table, times increase.
    """
    values, clock = numbers(column), numbers(time)
    if values is None or clock is None or np.isnan(values).any() or (values % 1).any():
        return False
    starts = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    if not 2 <= len(starts) <= len(values) / _LEAST_STEPS or len(np.unique(values)) < len(starts):
        return False
    steps = np.diff(clock, prepend=-np.inf)
    inside = np.ones(len(values), bool)
    inside[starts] = False
    return bool((steps[inside] > 0).all() and (steps[starts[1:]] <= 0).all())


def ask_for_id(columns: Mapping[str, Column], free: Mapping[str, Column], time: str, dates: Collection[str]) -> None:
    """Refuses a table in which most times occur several times: nothing says whose rows they are."""
    clock = codes(columns[time], time)[0]
    share = _own_times(np.zeros_like(clock), clock)
    if len(clock) < _LEAST_STEPS or share >= 1 / 2:
        return
    apart = [name for name in free if name not in (*dates, time) and _tells_apart(free[name], name, clock)]
    which = " or ".join(named("id", name) for name in apart[:3])
    cure = (
        f"name the column that tells them apart: {which}" if apart else f"add one and name it with {named('id', ...)}"
    )
    raise SettingError(
        f"the times of {time!r} occur {1 / share:.0f} times each, so the file seems to hold several series"
        + ("" if apart else ", and no column alone tells them apart"),
        argument="id",
        cure=f"{cure}, or pass {named('guess', False)} for one series",
    )


def _tells_apart(column: Column, name: str, clock: NDArray[Any]) -> bool:
    """Returns whether texts or whole numbers identify series in which times hardly repeat."""
    values = None if is_text(column) else numbers(column)
    if column.null_count or (not is_text(column) and (values is None or (values % 1 != 0).any())):
        return False
    series, ids = codes(column, name)
    return 2 <= len(ids) <= len(series) / 2 and _own_times(series, clock) > _UNIQUE


def _own_times(series: NDArray[Any], clock: NDArray[Any]) -> float:
    """Returns the share of different pairs of series and time."""
    return len(np.unique(series.astype(np.int64) * (int(clock.max(initial=0)) + 1) + clock)) / len(series)


def times_of(free: Mapping[str, Column], dates: Collection[str], series: NDArray[Any] | None) -> list[str]:
    """Returns the columns that may hold times, the most likely first."""

    def rank(name: str) -> tuple[bool, int]:
        words = _words(name)
        return name not in dates, min((_OF_TIMES.index(word) for word in words if word in _OF_TIMES), default=99)

    likely = []
    words = {*_OF_TIMES} - ({"age"} if series is None else set())  # of one series, an age is rather a value
    for name in sorted((one for one in free if one in dates or {*_words(one)} & words), key=rank):
        values = np.zeros(0) if name in dates else numbers(free[name])
        if values is None or np.isnan(values).any() or free[name].null_count:
            continue
        if name in dates or series is None or _goes_on(values, series):
            likely.append(name)
    return likely


def _goes_on(values: NDArray[np.float64], series: NDArray[Any]) -> bool:
    """Returns whether numbers mostly differ within series, as times do: a month that repeats every year does not."""
    return _own_times(series, np.unique(values, return_inverse=True)[1]) > _UNIQUE


# ---- values ----------------------------------------------------------------------------------------------


def values_of(
    columns: Mapping[str, Column],
    dates: Collection[str],
    given: Mapping[str, Any],
    series: NDArray[Any] | None,
    *,
    forecast: bool,
    numbers_too: bool,
) -> dict[str, Any]:
    """Returns the options for static columns, text, and columns that cannot be values.

    Constant numbers are static only if the id was guessed too: who names the id decides about the other columns.
    """
    static, ignored, onehot = [], [], []
    for name, column in columns.items():
        numeric = name not in dates and numbers(column) is not None
        if name in dates or (not numeric and str(column.type).startswith(("list", "struct", "map", "binary"))):
            ignored.append(name)
        elif numeric:
            if numbers_too and series is not None and _is_constant(column, name, series):
                static.append(name)
        # Numbers with another sign for missing ones are not text: `read` explains them.
        elif given.get("categorical") is None and not missing_markers(column):
            few = len(column.unique().drop_null()) <= FEW_TEXTS
            if few and series is not None and _is_constant(column, name, series):
                static.append(name)
            else:
                (onehot if few and not forecast else ignored).append(name)
    found: dict[str, Any] = {"static": static} if static and not given.get("static") else {}
    if onehot:
        found["categorical"] = "onehot"
    if ignored:
        found["ignore"] = [*(given.get("ignore") or ()), *ignored]
    return found


def _is_constant(column: Column, name: str, series: NDArray[Any]) -> bool:
    """Returns whether each series has one value, and some of them have different ones."""
    values, distinct = codes(column, name)
    if len(distinct) < 2 or np.bincount(series).max() < _LEAST_STEPS:
        return False
    low = np.full(series.max() + 1, len(distinct))
    high = np.full(series.max() + 1, -1)
    has_value = values >= 0
    np.minimum.at(low, series[has_value], values[has_value])
    np.maximum.at(high, series[has_value], values[has_value])
    return bool((high <= low).all())
