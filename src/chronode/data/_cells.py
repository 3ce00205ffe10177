"""Cells of columns: texts that are numbers, texts that mean a missing value, and errors about the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._columns import Column, arrow, first_text, is_text, numbers
from ._dates import moments_of

# Groups of three digits; the first has one to three digits and does not begin with 0.
_GROUPS = r"[1-9][0-9]{{0,2}}([{group}][0-9]{{3}})+"
_SPACES = " \u00a0\u202f'\u2019"
_NUMBER = r"^[+-]?({groups}|[0-9]*)({point}[0-9]*)?([eE][+-]?[0-9]+)?$"
_SIGNS = "%$€£¥"
_HAS_DIGIT = r"[0-9]"
_CODE = r"^0[0-9]+$"


def number_style(column: Column) -> str:
    """Returns how the numbers of a text column with commas are written.

    "comma" (1,5), "point" (1,234.5: the comma groups thousands), "either" (1,234 alone may be both), or "" if they
    are not numbers or need no choice.

    Example:
        >>> [number_style(arrow().array(texts)) for texts in (["1,5", "2"], ["1,234,567"], ["1,234"], ["a"])]
        ['comma', 'point', 'either', '']
    """
    comma, point = (_matches(column, decimal) for decimal in (",", "."))
    if comma and point:
        return "either" if _any(column, ",") else ""  # whole numbers
    return "comma" if comma else "point" if point else ""


def to_numbers(column: Column, decimal: str, thousands: str | None = None) -> Column | None:
    """Converts a text column to float64; None if it does not hold numbers in this format.

    Args:
        column: The text column.
        decimal: The decimal point.
        thousands: Thousands separator; None: the other one of point and comma, a space or an apostrophe.
    """
    pa = arrow()
    if not _matches(column, decimal, thousands):
        return None
    column = pa.compute.replace_substring_regex(column, f"[{_groupers(decimal, thousands)}]", "")
    if decimal != ".":
        column = pa.compute.replace_substring(column, decimal, ".")
    return column.cast(pa.float64())


def without_symbol(column: Column) -> tuple[Column, str]:
    """Removes a percent or currency sign that every number of a text column has; returns the column and the sign (""
    if there is none). The minus sign of typesetting becomes that of computers.

    Example:
        >>> found, sign = without_symbol(arrow().array(["-$1,200", "$5"]))
        >>> found.to_pylist(), sign
        (['-1,200', '5'], '$')
    """
    compute: Any = arrow().compute
    if column.null_count == len(column):
        return column, ""
    if _any(column, "^\u2212"):
        column = compute.replace_substring_regex(column, "^\u2212", "-")
    for sign in _SIGNS:
        pattern = rf"^([+-]?)\s*[{sign}]?\s*([^{_SIGNS}]*?)\s*[{sign}]?$"
        if _all(column, f"[{sign}]") and _all(column, pattern):
            found = compute.replace_substring_regex(column, pattern, r"\1\2")
            if _matches(found, ".") or _matches(found, ","):
                return found, sign
    return column, ""


def has_leading_zeros(column: Column) -> bool:
    """Returns whether some texts are codes such as "007", whose zeros a number would lose."""
    return _any(column, _CODE)


def _matches(column: Column, decimal: str, thousands: str | None = None) -> bool:
    groups = _GROUPS.format(group=_groupers(decimal, thousands))
    pattern = _NUMBER.format(groups=groups, point=f"[{decimal}]")
    return _all(column, pattern) and _all(column, _HAS_DIGIT)


def _groupers(decimal: str, thousands: str | None) -> str:
    return thousands or f"{'.' if decimal == ',' else ','}{_SPACES}"


def _all(column: Column, pattern: str) -> bool:
    compute: Any = arrow().compute
    return bool(compute.all(compute.match_substring_regex(column, pattern)).as_py())


def _any(column: Column, pattern: str) -> bool:
    compute: Any = arrow().compute
    return bool(compute.any(compute.match_substring_regex(column, pattern)).as_py())


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
