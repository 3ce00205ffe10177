"""Error messages with advice for value columns that are not numeric."""

from __future__ import annotations

import numpy as np

from ._columns import Column, arrow, first_text, is_text, numbers
from ._moments import moments_of

_FEW_MARKERS = 5


def numeric_column(name: str, column: Column) -> np.ndarray:
    """Returns `(rows,)` float64 of a column that must be numeric."""
    found = numbers(column)
    if found is None:
        raise ValueError(not_numeric(name, column))
    return found


def not_numeric(name: str, column: Column) -> str:
    """Returns the error message: the first text that is not a number, and its likely meaning."""
    row, text = first_text(column)
    cure = "Correct it, or"
    markers = _markers(column)
    if markers:
        cure = f"If it means a missing value, pass missing_values={markers!r}. Or"
    elif _is_time(name, column.slice(row - 1, 1)):
        cure = f"It looks like a time: pass time={name!r}. Or"
    return (
        f"column {name!r} is not numeric: row {row:,} has {text[:60]!r}. {cure} leave it out with ignore={name!r}, or "
        "use categorical='codes' or categorical='onehot'."
    )


def _markers(column: Column) -> list[str]:
    """Returns the few texts of a column that otherwise holds numbers."""
    if not is_text(column):
        return []
    distinct = column.unique().drop_null()
    texts = [text for text in distinct.to_pylist() if numbers(arrow().array([text])) is None]
    return texts if len(texts) <= min(_FEW_MARKERS, len(distinct) // 3) else []


def _is_time(name: str, column: Column) -> bool:
    try:
        return moments_of(name, column).instants
    except ValueError:
        return False
