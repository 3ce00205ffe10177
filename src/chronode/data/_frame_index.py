"""The index of a pandas frame, in memory or written to a file: dates are times, row numbers are ignored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._columns import Column, arrow, numbers, to_arrow

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
