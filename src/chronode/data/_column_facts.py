"""Summary of every column of a table: kind, role, range, missing cells, and what looks suspicious."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import named
from ..storage import Result
from ._cells import is_text, numbers
from ._columns import Column, arrow
from ._describe import MOSTLY_MISSING, percent
from ._guess import NO_TABLES, Guess, guess, table_of
from ._names import one_or_more
from ._opening import suffix_of
from ._readers import naming

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
