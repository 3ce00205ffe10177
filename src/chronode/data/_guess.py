"""Guesses the roles of the columns of a table: id, time, static columns, text and columns to leave out."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named
from ._cells import absent, is_text, missing_markers, numbers
from ._columns import Column, as_columns, codes
from ._dates import moments_of
from ._labels import guess_roles, label_columns
from ._names import known_columns, one_or_more
from ._opening import suffix_of
from ._settings import FILE_OPTIONS
from ._times import median_gap

FEW_TEXTS = 20
"""Most different texts of a column that becomes one channel per text."""
_ROLES = ("target", "id", "time", "group", "columns", "static", "ignore")
_LARGEST = 200_000_000  # bytes of a file that is read once more to guess
NO_TABLES = (".npz", ".npy", ".ts")
_SAMPLE = 200
_UNIQUE = 0.9  # share of rows with a time of their own within their series
_SHARED = 0.6  # share of different times in a table of several series of which nothing says so
_ONE_ROW = 0.8  # share of different ids in a table with a row per series
_LEAST_STEPS = 3
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


@dataclass(frozen=True)
class Guess:
    """Roles of columns that nobody gave.

    Attributes:
        options: Options of `read` that would say the same, by name.
        series: Number of series if an id was guessed; otherwise 1.
    """

    options: dict[str, Any] = field(default_factory=dict)
    series: int = 1


def guess(table: Any, given: Mapping[str, Any], *, forecast: bool = False) -> Guess:
    """Guesses the roles of the columns of a table from their names and values.

    Args:
        table: A frame, an Arrow table or a mapping of columns.
        given: Options of `read` that the user gave: they are kept, and their columns have no other role.
        forecast: Whether values are forecast: text that changes with time is then left out.

    Example:
        >>> table = {"Patient ID": [1, 1, 2, 2], "day": [0, 3, 0, 5], "hr": [80, 81, 60, 62], "outcome": [1, 1, 0, 0]}
        >>> guess(table, {"target": ["outcome"]}).options
        {'id': 'Patient ID', 'time': 'day'}
    """
    columns = as_columns(table)
    taken = _taken(given)
    free = {name: column for name, column in columns.items() if name not in taken}
    options: dict[str, Any] = {}
    dates = {name for name, column in free.items() if _is_date(name, column)}
    time, id = given.get("time"), given.get("id")
    if id is None:
        id = _id(free, columns, time, dates) or None
        options |= {"id": id} if id else {}
    groups = None if id is None or id not in columns else codes(columns[id], id)
    if groups is not None and (groups[0] < 0).any():  # reading refuses rows without an id
        return Guess(options)
    if time is None:
        rest = {name: column for name, column in free.items() if name != id}
        time = next(iter(_times(rest, dates, None if groups is None else groups[0])), "")
        options |= {"time": time} if time else {}
    if id is None and time:
        _ask_for_id(columns, free, time, dates)
    others = {name: column for name, column in free.items() if name not in (id, time)}
    if not given.get("columns"):
        series = None if groups is None else groups[0]
        options |= _values(others, dates, given, series, forecast=forecast, numbers_too="id" in options)
    return Guess(options, 1 if groups is None else len(groups[1]))


def guess_file(path: Path, given: Mapping[str, Any], *, forecast: bool = False, wanted: bool = True) -> Guess:
    """Guesses the roles of the columns of a file; nothing for a file that is not a table, or larger than 200 MB.

    Args:
        path: The file.
        given: As for `guess`; a column that the file does not have is an error.
        forecast: As for `guess`.
        wanted: Whether to guess; if not, the given columns are only checked.
    """
    from ._readers import naming

    is_table = suffix_of(path) not in NO_TABLES and path.stat().st_size <= _LARGEST
    table = table_of(path, given) if is_table else None
    if table is None:
        return Guess()
    with naming(path):
        names, more = [*table], {}
        if given.get("labels"):
            labels = label_columns(given["labels"], given.get("missing_values") or ())
            more = guess_roles(labels, names, given) if wanted else {}
            names += labels
        for role in _ROLES:
            known_columns(one_or_more(given.get(role) or ()), names, role)
        guessed = guess(table, {**given, **more}, forecast=forecast) if wanted else Guess()
        return replace(guessed, options={**more, **guessed.options})


def file_gap(path: Path, given: Mapping[str, Any]) -> float | None:
    """Returns the median time between the rows of the series of a file, in seconds; None if they have no dates."""
    table = table_of(path, given)
    if table is None:
        return None
    roles = {**guess(table, given).options, **given}
    if not roles.get("time"):
        return None
    moments = moments_of(roles["time"], table[roles["time"]], roles.get("time_format"))
    series = np.zeros(len(moments.ticks), int) if not roles.get("id") else codes(table[roles["id"]], roles["id"])[0]
    order = np.lexsort((moments.ticks, series))
    gap = median_gap(moments.ticks[order], np.bincount(series[order]))
    return None if gap is None or moments.rate is None else gap / moments.rate


def table_of(path: Path, given: Mapping[str, Any]) -> dict[str, Column] | None:
    """Returns the columns of a file; None if it is not a table."""
    from ._readers import naming, reader_of
    from ._sequences import Sequences

    with naming(path):
        reader = reader_of(path)
        asked = (*FILE_OPTIONS, *_ROLES, "missing_values", *reader.options)
        content = reader.read(path, {name: value for name, value in given.items() if name in asked})
        table = content[0] if isinstance(content, tuple) else content
        if isinstance(table, Sequences):
            return None
        markers = given.get("missing_values") or ()
        return {name: absent(column, markers) for name, column in as_columns(table).items()}


def _taken(given: Mapping[str, Any]) -> set[str]:
    """Returns the columns that have a role."""
    taken: set[str] = set()
    for role in (*_ROLES, "known", "channel", "value"):
        taken.update(one_or_more(given.get(role) or ()))
    return taken


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _is_date(name: str, column: Column) -> bool:
    """Returns whether a column holds dates; numbers do only if they are called so."""
    head = column.slice(0, _SAMPLE).drop_null()
    if not len(head) or (not is_text(head) and not {*_words(name)} & {*_OF_DATES}):
        return not len(head) < 1 and str(column.type).startswith(("timestamp", "date"))
    try:
        return moments_of(name, head).instants
    except (ValueError, OverflowError):
        return False


# ---- id and time -----------------------------------------------------------------------------------------


def _id(free: Mapping[str, Column], columns: Mapping[str, Column], time: str | None, dates: Collection[str]) -> str:
    """Returns the column that identifies the series; "" if the rows are those of one series, or of one row each."""
    by_name = [name for name in free if {*_words(name)} & {*_OF_IDS} and name not in dates]
    by_name.sort(key=lambda name: ("id" not in _words(name), not {*_words(name)} & {*_PEOPLE}))
    times = [time] if time else [name for name in _times(free, dates, None) if name not in by_name[:1]]
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
    return sure


def _ask_for_id(columns: Mapping[str, Column], free: Mapping[str, Column], time: str, dates: Collection[str]) -> None:
    """Refuses a table in which most times occur several times: nothing says whose rows they are."""
    clock = codes(columns[time], time)[0]
    share = _own_times(np.zeros_like(clock), clock)
    if len(clock) < _LEAST_STEPS or share >= 1 / 2:
        return
    texts = [name for name in free if name not in dates and is_text(free[name])]
    which = " or ".join(named("id", name) for name in texts[:3]) or named("id", ...)
    raise SettingError(
        f"the times of {time!r} occur {1 / share:.0f} times each, so the file seems to hold several series",
        argument="id",
        cure=f"name the column that tells them apart, such as {which}, or pass {named('guess', False)} for one series",
    )


def _own_times(series: NDArray[Any], clock: NDArray[Any]) -> float:
    """Returns the share of different pairs of series and time."""
    return len(np.unique(series.astype(np.int64) * (int(clock.max(initial=0)) + 1) + clock)) / len(series)


def _times(free: Mapping[str, Column], dates: Collection[str], series: NDArray[Any] | None) -> list[str]:
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


def _values(
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
