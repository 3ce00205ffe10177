"""Columns of tables as Arrow data: from frames of pandas and polars, DuckDB, Arrow tables and mappings."""

from __future__ import annotations

import datetime
import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..system import process
from ._names import listed
from ._target import plain
from ._times import is_number

if TYPE_CHECKING:
    import pyarrow as pa

Column = Any  # pa.Array or pa.ChunkedArray
RATES = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


@functools.cache
def arrow() -> Any:
    """Imports pyarrow, which is needed for tables but not for arrays."""
    try:
        import pyarrow
        import pyarrow.compute
    except ModuleNotFoundError:
        raise ImportError("tables and times given as text need pyarrow: pip install 'chronode[predict]'") from None
    if not process.has_frames and "pandas" not in sys.modules:
        process.import_without("pandas", lambda: pyarrow.scalar(None))
    return pyarrow


def is_frame(data: Any) -> bool:
    """Returns whether `data` is a pandas or polars frame, a DuckDB relation, an Arrow table or a mapping of columns."""
    # A SciPy sparse matrix may be a mapping too.
    return hasattr(data, "columns") or (isinstance(data, Mapping) and not hasattr(data, "shape"))


def frame_names(frame: Any) -> list[str]:
    """Returns the names of the columns of a frame, and of the levels of its index."""
    names = frame if isinstance(frame, Mapping) else getattr(frame, "column_names", None) or frame.columns
    levels = getattr(getattr(frame, "index", None), "names", ())
    return [*map(str, names), *(str(name) for name in levels if name is not None)]


class OwnColumns(dict[str, Column]):
    """Columns that nobody else uses: `as_columns` takes them out, so that each can be freed once it is read."""


def forget(cells: dict[str, Column], names: Iterable[str | None], kept: Collection[str | None]) -> None:
    """Frees columns that were read: text takes more memory than all numbers of a row."""
    for name in names:
        if name is not None and name not in kept:
            cells.pop(name, None)
    arrow().default_memory_pool().release_unused()


def as_columns(table: Any) -> dict[str, Column]:
    """Returns name -> Arrow column of a frame (pandas, polars, DuckDB), an Arrow table or a mapping of columns."""
    pa = arrow()
    if hasattr(table, "collect") and hasattr(table, "lazy"):  # a lazy frame of polars
        table = table.collect()
    if hasattr(table, "iloc") and hasattr(table, "columns"):  # pandas
        names, raw = [str(name) for name in table.columns], [table.iloc[:, i] for i in range(table.shape[1])]
    elif isinstance(table, Mapping):
        names, raw = [str(name) for name in table], list(table.values())
        if isinstance(table, OwnColumns):
            table.clear()
    elif hasattr(table, "column_names") or hasattr(table, "__arrow_c_stream__"):
        table = table if hasattr(table, "column_names") else pa.table(table)
        names, raw = [str(name) for name in table.column_names], table.columns
    else:
        raise TypeError(
            "a table must be a frame of pandas or polars, a DuckDB relation, an Arrow table or a mapping of columns, "
            f"got {type(table).__name__}."
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"two columns have the same name: {listed(twice)}; rename one of them.")
    columns = {name: to_arrow(name, column) for name, column in zip(names, raw, strict=True)}
    sizes = {len(column) for column in columns.values()}
    if len(sizes) > 1:
        shown = ", ".join(f"{name!r} {len(column)}" for name, column in list(columns.items())[:5])
        raise ValueError(f"the columns have unequal lengths: {shown}.")
    if not columns or sizes == {0}:
        raise ValueError("the table has no rows.")
    return columns


def to_arrow(name: str, raw: Any) -> Column:
    """Converts one column to Arrow data; anything that Arrow cannot convert is read as text."""
    pa = arrow()
    if isinstance(raw, (pa.Array, pa.ChunkedArray)):
        raw = raw.cast(raw.type.value_type) if pa.types.is_dictionary(raw.type) else raw
        # polars exports views, which few Arrow functions accept.
        return raw.cast(pa.large_string()) if raw.type == pa.string_view() else raw
    if np.ndim(raw) != 1:
        raise ValueError(f"column {name!r} must have one axis, got shape {np.shape(raw)}.")
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "Mm" and raw.dtype != object:
        unit = np.datetime_data(raw.dtype)[0]
        raw = raw if unit in RATES else raw.astype(f"{raw.dtype.kind}8[s]")
    if isinstance(raw, (list, tuple)) or str(getattr(raw, "dtype", "")) == "object":
        raw = _without_mixed_zones(raw.tolist() if hasattr(raw, "tolist") else list(raw))
    try:
        column = pa.array(raw, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
        column = pa.array([None if value is None or value != value else str(value) for value in raw], pa.large_string())
    return to_arrow(name, column)


def _without_mixed_zones(values: list[Any]) -> list[Any]:
    """Converts dates with zones to UTC, and mixed ones to ISO text: Arrow would use the first zone for all."""
    dates = [value for value in values if isinstance(value, datetime.datetime) and value == value]
    zoned = [date.tzinfo is not None for date in dates]
    if not any(zoned):
        return values
    utc = datetime.timezone.utc
    return [
        (value.astimezone(utc) if all(zoned) else value.isoformat()) if isinstance(value, datetime.datetime) else value
        for value in values
    ]


def is_text(column: Column) -> bool:
    """Returns whether a column holds text."""
    types = arrow().types
    return types.is_string(column.type) or types.is_large_string(column.type)


def numbers(column: Column) -> NDArray[np.float64] | None:
    """Returns `(rows,)` float64, NaN where missing; None if the column is not numeric."""
    pa = arrow()
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if is_text(column):
        column = as_floats(trimmed(column))
        if column is None:
            return None
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    out = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return out if out.dtype == np.float64 else out.astype(np.float64)


def is_numeric(column: Column) -> bool:
    """Returns whether `numbers` can read the column."""
    types = arrow().types
    if is_text(column):
        return as_floats(trimmed(column)) is not None
    kinds = (types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    return any(is_kind(column.type) for is_kind in kinds)


def as_floats(column: Column) -> Column | None:
    """Converts a text column to float64; None if a text is not a number."""
    try:
        return column.cast(arrow().float64())
    except arrow().ArrowInvalid:
        return None


def first_text(column: Column, parse: Callable[[Column], Any] | None = None) -> tuple[int, str]:
    """Returns (row counted from 1, text) of the first value that `parse` (by default: as a number) rejects."""
    pa = arrow()
    parse = parse or (lambda part: trimmed(part).cast(pa.float64()) if is_text(part) else part.cast(pa.float64()))
    low, high = 0, len(column)
    while high - low > 1:  # bisection: the first part that fails contains the first value that fails
        middle = (low + high) // 2
        try:
            parse(column.slice(low, middle - low))
            low = middle
        except (pa.ArrowException, ValueError):
            high = middle
    return low + 1, str(column[low].as_py())


def codes(column: Column, name: str) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Returns (`(rows,)` indices into the distinct values, -1 where missing; the sorted distinct values, int64 or
    text).
    """
    pa = arrow()
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, dtype=np.int32), np.array([], dtype=str)
    if pa.types.is_nested(column.type):
        raise ValueError(f"column {name!r} must hold numbers or text here, not {str(column.type)[:60]}.")
    if pa.types.is_floating(column.type):
        column = pa.compute.if_else(pa.compute.is_nan(column), None, column)
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    encoded = pa.compute.dictionary_encode(chunked).unify_dictionaries()
    parts = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    found = np.concatenate(parts) if len(parts) != 1 else parts[0]
    values = _values(encoded.chunk(0).dictionary)
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(order) + 1, dtype=np.int32)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return rank[found], values[order]


_SPACE = r"[\s\p{Z}\x0b\x1c-\x1f\x{85}]"  # all that `utf8_trim_whitespace` strips; RE2's \s has ASCII only


def trimmed(column: Column, nulls: bool = True) -> Column:
    """Strips whitespace around texts; empty text is missing. A column without either is returned as it is."""
    pa = arrow()
    if pa.compute.any(pa.compute.match_substring_regex(column, f"^{_SPACE}|{_SPACE}$")).as_py():
        column = pa.compute.utf8_trim_whitespace(column)
    return without(column, [""]) if nulls else column


def without(column: Column, texts: Sequence[str]) -> Column:
    """Marks these texts of a text column as missing."""
    pa = arrow()
    gone = pa.compute.is_in(column, value_set=pa.array(texts, column.type))
    # A copy of a column of text takes more memory than most of what is done with it.
    return pa.compute.if_else(gone, pa.scalar(None, column.type), column) if pa.compute.any(gone).as_py() else column


def absent(column: Column, markers: Sequence[Any]) -> Column:
    """Marks these values as missing: texts as they are, numbers however they are written."""
    pa = arrow()
    if not len(markers):
        return column
    if is_text(column):
        return without(trimmed(column), [str(marker) for marker in markers])
    sizes = [float(marker) for marker in markers if is_number(str(marker))]
    found = numbers(column)
    if found is None or not sizes:
        return column
    return pa.array(np.where(np.isin(found, sizes), np.nan, found), from_pandas=True)


def whole_numbers(column: Column) -> Column:
    """Converts text to int64 if every text is the plain form of its number ("7", not "007" or "7.0")."""
    pa = arrow()
    try:
        found = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
    return found if found.cast(column.type).equals(column) else column


def _values(dictionary: pa.Array) -> NDArray[Any]:
    """Converts distinct values to int64 or text; whole floats (a pandas column with gaps) count as whole numbers."""
    types = arrow().types
    if types.is_integer(dictionary.type):
        return plain(dictionary.to_numpy(zero_copy_only=False))
    if types.is_floating(dictionary.type):
        values = dictionary.to_numpy(zero_copy_only=False)
        if np.isfinite(values).all() and (values == np.floor(values)).all() and np.abs(values).max(initial=0) < 2**53:
            return values.astype(np.int64)
    return np.array([str(value) for value in dictionary.to_pylist()], dtype=str)


# Names that pandas gives to an unnamed index in CSV and Parquet files.
_UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?|__index_level_\d+__")
_TIME = "time"


def with_index(
    table: Any, cells: dict[str, Column], time: str | None, others: Sequence[str | None]
) -> tuple[dict[str, Column], str | None]:
    """Returns (the columns with the index levels that are used, the column of times).

    A level is used if `time` or one of `others` names it. Without `time`, an index of dates holds the times.
    """
    index = getattr(table, "index", None)
    if index is None or not hasattr(index, "names"):
        return cells, time
    levels = [index.get_level_values(i) for i in range(index.nlevels)]
    found = {str(level.name): level for level in levels if level.name in (time, *others) and level.name is not None}
    if time is None:
        dated = next((level for level in levels if _is_dated(level)), None)
        if dated is not None:
            time = _TIME if dated.name is None else str(dated.name)
            while time in cells:
                time = f"{time} (index)"
            found[time] = dated
    return {
        **cells,
        **{name: to_arrow(name, _plain(level)) for name, level in found.items() if name not in cells},
    }, time


def is_row_numbers(name: str, column: Column) -> bool:
    """Returns whether a column is an unnamed index: distinct whole numbers."""
    if not _UNNAMED.fullmatch(name):
        return False
    found = numbers(column) if not arrow().types.is_boolean(column.type) else None
    if found is None or np.isnan(found).any() or (found != np.floor(found)).any():
        return False
    return len(np.unique(found)) == len(found)


def series_times(part: Any) -> Any:
    """Returns the times of a pandas frame or Series whose index holds dates; None otherwise."""
    index = getattr(part, "index", None)
    return _plain(index).to_numpy() if index is not None and hasattr(index, "names") and _is_dated(index) else None


def _is_dated(level: Any) -> bool:
    return type(level).__name__ in ("DatetimeIndex", "TimedeltaIndex", "PeriodIndex")


def _plain(level: Any) -> Any:
    return level.to_timestamp() if type(level).__name__ == "PeriodIndex" else level
