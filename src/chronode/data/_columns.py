"""Columns of tables as Arrow data: from frames of pandas and polars, DuckDB, Arrow tables and mappings."""

from __future__ import annotations

import datetime
import functools
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..system import process
from ._names import listed
from ._target import plain

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


# ---- frames ----------------------------------------------------------------------------------------------


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
    for name in {*names} - {None, *kept}:
        cells.pop(str(name), None)
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
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "Mm" and np.datetime_data(raw.dtype)[0] not in RATES:
        raw = raw.astype(f"{raw.dtype.kind}8[s]")
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


# ---- the index of a pandas frame --------------------------------------------------------------------------


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
    used = {str(level.name): level for level in levels if level.name in (time, *others) and level.name is not None}
    dated = next((level for level in levels if _is_dated(level)), None)
    if time is None and dated is not None:
        time = "time" if dated.name is None else str(dated.name)
        while time in cells:
            time = f"{time} (index)"
        used[time] = dated
    return cells | {name: to_arrow(name, _plain(level)) for name, level in used.items() if name not in cells}, time


def series_times(part: Any) -> Any:
    """Returns the times of a pandas frame or Series whose index holds dates; None otherwise."""
    index = getattr(part, "index", None)
    return _plain(index).to_numpy() if index is not None and hasattr(index, "names") and _is_dated(index) else None


def _is_dated(level: Any) -> bool:
    return type(level).__name__ in ("DatetimeIndex", "TimedeltaIndex", "PeriodIndex")


def _plain(level: Any) -> Any:
    return level.to_timestamp() if type(level).__name__ == "PeriodIndex" else level


# ---- names -----------------------------------------------------------------------------------------------


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
    indices = np.concatenate(parts) if len(parts) != 1 else parts[0]
    values = _distinct(encoded.chunk(0).dictionary)
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(order) + 1, dtype=np.int32)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return rank[indices], values[order]


def _distinct(dictionary: Any) -> NDArray[Any]:
    """Converts distinct values to int64 or text; whole floats (a pandas column with gaps) count as whole numbers."""
    types = arrow().types
    if types.is_integer(dictionary.type):
        return plain(dictionary.to_numpy(zero_copy_only=False))
    if types.is_floating(dictionary.type):
        values = dictionary.to_numpy(zero_copy_only=False)
        if np.isfinite(values).all() and (values == np.floor(values)).all() and np.abs(values).max(initial=0) < 2**53:
            return values.astype(np.int64)
    return np.array([str(value) for value in dictionary.to_pylist()], dtype=str)
