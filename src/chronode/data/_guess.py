"""Guessed roles of the columns of a table (id, time, static, text, left out), and a summary of every column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import named
from ..storage import Result
from ._cells import absent, is_text, numbers
from ._columns import Column, arrow, as_columns, codes
from ._dates import moments_of
from ._describe import MOSTLY_MISSING, percent
from ._guess_roles import ask_for_id, counts_rows, id_of, is_date, readings_of, times_of, values_of
from ._labels import guess_roles, label_columns
from ._names import known_columns, one_or_more
from ._opening import suffix_of
from ._readers import naming
from ._settings import FILE_OPTIONS
from ._times import median_gap

_ROLES = ("target", "id", "time", "group", "weight", "columns", "static", "ignore")
_LARGEST = 200_000_000  # bytes of a file that is read once more to guess
NO_TABLES = (".npz", ".npy", ".ts")


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
    counters = [name for name, column in free.items() if counts_rows(name, column)]
    free = {name: column for name, column in free.items() if name not in counters}
    options: dict[str, Any] = {}
    dates = {name for name, column in free.items() if is_date(name, column)}
    time, id = given.get("time"), given.get("id")
    if id is None:
        id = id_of(free, columns, time, dates) or None
        options |= {"id": id} if id else {}
    groups = None if id is None or id not in columns else codes(columns[id], id)
    if groups is not None and (groups[0] < 0).any():  # reading refuses rows without an id
        return Guess(options)
    readings = {} if groups is None else readings_of(free, dates, {**given, **options}, groups[0])
    if readings and groups is not None:
        ignored = {"ignore": [*(given.get("ignore") or ()), *counters]} if counters else {}
        return Guess({**options, **readings, **ignored}, len(groups[1]))
    if time is None:
        rest = {name: column for name, column in free.items() if name != id}
        time = next(iter(times_of(rest, dates, None if groups is None else groups[0])), "")
        options |= {"time": time} if time else {}
    if id is None and time:
        ask_for_id(columns, free, time, dates)
    others = {name: column for name, column in free.items() if name not in (id, time)}
    if not given.get("columns"):
        series = None if groups is None else groups[0]
        left_out = {**given, "ignore": [*one_or_more(given.get("ignore") or ()), *counters]}
        options |= values_of(others, dates, left_out, series, forecast=forecast, numbers_too="id" in options)
        if counters:
            options.setdefault("ignore", left_out["ignore"])
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
    for role in (*_ROLES, "known", "channels", "channel", "value"):
        taken.update(one_or_more(given.get(role) or ()))
    return taken


_SENTINELS = (-9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0, -1.0)
_FAR = 5.0  # interquartile ranges from the other values
_MOSTLY_NUMBERS = 0.5
_EXAMPLES = 4


@dataclass(frozen=True)
class ColumnFacts(Result):
    """Summary of a column.

    Attributes:
        name: Name of the column.
        role: Role in training: "id", "time", "target", "static", "ignored" or "channel".
        kind: "number", "date", "text" or "empty".
        missing: Share of empty cells.
        distinct: Number of different values.
        low: Lowest value, or the first text in order.
        middle: Median of numbers and dates, or the most frequent text.
        high: Highest value, or the last text in order.
        remarks: Suspicious things, as clauses.
    """

    name: str
    role: str
    kind: str
    missing: float
    distinct: int
    low: str
    middle: str
    high: str
    remarks: tuple[str, ...] = ()


def describe_columns(path: Path, given: Mapping[str, Any]) -> tuple[list[ColumnFacts], Guess, int]:
    """Returns a summary of every column of a file, the guessed roles, and the number of rows.

    Args:
        path: A file that is a table.
        given: Options of `read` that the user gave.

    Raises:
        ValueError: The file is not a table.
    """
    table = None if suffix_of(path) in NO_TABLES else table_of(path, given)
    if table is None:
        raise ValueError(f"{path} is not a table of columns; `chronode train` reads it as it is.")
    with naming(path):
        guessed = guess(table, given)
    roles = _roles({**guessed.options, **given})
    rows = len(next(iter(table.values()), ()))
    return [_facts(name, column, roles.get(name, "channel")) for name, column in table.items()], guessed, rows


def _roles(options: Mapping[str, Any]) -> dict[str, str]:
    words = {"id": "id", "time": "time", "target": "target", "static": "static", "ignore": "ignored", "group": "group"}
    return {name: word for option, word in words.items() for name in one_or_more(options.get(option) or ())}


def _facts(name: str, column: Column, role: str) -> ColumnFacts:
    missing = column.null_count / max(len(column), 1)
    values = numbers(column)
    if values is not None and not np.isnan(values).all():
        return _of_numbers(name, values[~np.isnan(values)], role, float(np.isnan(values).mean()))
    texts = [str(text) for text in column.drop_null().to_pylist()]
    if not texts:
        return ColumnFacts(name, role, "empty", missing, 0, "", "", "", ("no value",))
    different, counts = np.unique(texts, return_counts=True)
    kind = "text" if is_text(column) and role != "time" else "date"
    middle = sorted(texts)[len(texts) // 2] if kind == "date" else str(different[counts.argmax()])
    ends = str(different[0]), middle, str(different[-1])
    remarks = [*_share_remarks(missing, len(different)), *(_mixed(different, counts) if kind == "text" else [])]
    return ColumnFacts(name, role, kind, missing, len(different), *ends, tuple(remarks))


def _of_numbers(name: str, values: NDArray[np.float64], role: str, missing: float) -> ColumnFacts:
    different, counts = np.unique(values, return_counts=True)
    ends = tuple(f"{value:.6g}" for value in (different[0], np.median(values), different[-1]))
    remarks = _share_remarks(missing, len(different))
    if role == "channel" or role == "static":
        remarks += _sentinels(different, counts)
    return ColumnFacts(name, role, "number", missing, len(different), ends[0], ends[1], ends[2], tuple(remarks))


def _share_remarks(missing: float, distinct: int) -> list[str]:
    remarks = [f"{percent(missing)} missing"] if missing > MOSTLY_MISSING else []
    return remarks + (["one value only"] if distinct == 1 else [])


def _sentinels(different: NDArray[np.float64], counts: NDArray[np.int64]) -> list[str]:
    """Names a repeated extreme value, such as -999, that is far from all others."""
    sentinels = []
    for end, rest in ((0, slice(1, None)), (-1, slice(None, -1))):
        value, others = float(different[end]), np.repeat(different[rest], counts[rest])
        if len(others) < 4 or value not in _SENTINELS or counts[end] < 2:
            continue
        low, high = np.quantile(others, [0.25, 0.75])
        if min(abs(value - low), abs(value - high)) > _FAR * max(high - low, 1e-12):
            sentinels.append(
                f"{value:g} ({counts[end]:,} times) may mean missing: {named('missing_values', f'{value:g}')}"
            )
    return sentinels


def _mixed(different: NDArray[Any], counts: NDArray[np.int64]) -> list[str]:
    """Names texts among numbers, such as "<0.5" or "n/a"."""
    pa = arrow()
    is_number = np.array([numbers(pa.array([text])) is not None for text in different[:2_000].tolist()])
    share = counts[: len(is_number)][is_number].sum() / counts[: len(is_number)].sum()
    if share < _MOSTLY_NUMBERS:
        return []
    others = [repr(str(text)) for text in different[: len(is_number)][~is_number][:_EXAMPLES]]
    return [f"texts among numbers: {', '.join(others)}; {named('missing_values', ...)} makes them missing"]
