"""Cells of columns: texts that are numbers, texts that mean a missing value, and errors about the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import named
from ._columns import Column, arrow
from ._times import is_number

# All that `utf8_trim_whitespace` strips; RE2's \s has ASCII only.
_SPACE = r"[\s\p{Z}\x0b\x1c-\x1f\x{85}]"
# Groups of three digits; the first has one to three digits and does not begin with 0.
_GROUPS = r"[1-9][0-9]{{0,2}}([{group}][0-9]{{3}})+"
_SPACES = " \u00a0\u202f'\u2019"
_NUMBER = r"^[+-]?({groups}|[0-9]*)({point}[0-9]*)?([eE][+-]?[0-9]+)?$"
_SIGNS = "%$€£¥"
_FEW_MARKERS = 5
_POWERS = 10 ** np.arange(1, 20, dtype=np.uint64)


def is_text(column: Column) -> bool:
    """Returns whether a column holds text."""
    types = arrow().types
    return types.is_string(column.type) or types.is_large_string(column.type)


# ---- numbers ---------------------------------------------------------------------------------------------


def numbers(column: Column) -> NDArray[np.float64] | None:
    """Returns `(rows,)` float64, NaN where missing; None if the column is not numeric."""
    pa = arrow()
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if is_text(column):
        column = converted(trimmed(column), pa.float64())
        if column is None:
            return None
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)


def is_numeric(column: Column) -> bool:
    """Returns whether `numbers` can read the column; only text has to be read for this."""
    return numbers(column if is_text(column) else column.slice(0, 0)) is not None


def converted(column: Column, kind: Any) -> Column | None:
    """Casts a column to an Arrow type; None if one of its values cannot be."""
    try:
        return column.cast(kind)
    except arrow().ArrowInvalid:
        return None


def whole_numbers(column: Column) -> Column:
    """Converts text to int64 if every text is the plain form of its number ("7", not "007" or "7.0")."""
    whole = None if column.null_count else converted(column, arrow().int64())
    if whole is None:
        return column
    values = whole.to_numpy()
    # Any other text of a number is longer than its plain form.
    digits = np.searchsorted(_POWERS, np.abs(values).view(np.uint64), side="right").sum() + len(values)
    length = arrow().compute.sum(arrow().compute.binary_length(column)).as_py() or 0
    return whole if length == digits + (values < 0).sum() else column


def first_text(column: Column, parse: Callable[[Column], Any] | None = None) -> tuple[int, str]:
    """Returns (row counted from 1, text) of the first value that `parse` (by default: as a number) rejects."""
    pa = arrow()
    parse = parse or (lambda part: (trimmed(part) if is_text(part) else part).cast(pa.float64()))
    low, high = 0, len(column)
    while high - low > 1:  # bisection: the first part that fails contains the first value that fails
        middle = (low + high) // 2
        try:
            parse(column.slice(low, middle - low))
            low = middle
        except (pa.ArrowException, ValueError):
            high = middle
    return low + 1, str(column[low].as_py())


def not_numeric(name: str, column: Column) -> str:
    """Returns the error message about a value column: the first text that is not a number, and its likely meaning."""
    from ._dates import moments_of

    row, text = first_text(column)
    cure = "Correct it, or"
    if all(map(str.isprintable, markers := missing_markers(column))) and markers:
        cure = f"If it means a missing value, pass {named('missing_values', markers)}. Or"
    else:
        try:
            if moments_of(name, column.slice(row - 1, 1)).instants:
                cure = f"It looks like a time: pass {named('time', name)}. Or"
        except ValueError:
            pass
    return (
        f"column {name!r} is not numeric: row {row:,} has {text[:60]!r}. {cure} leave it out with "
        f"{named('ignore', name)}, or use {named('categorical', 'codes')} or {named('categorical', 'onehot')}."
    )


def missing_markers(column: Column) -> list[str]:
    """Returns the few texts of a column that otherwise holds numbers."""
    if not is_text(column):
        return []
    distinct = column.unique().drop_null()
    texts = [text for text in distinct.to_pylist() if numbers(arrow().array([text])) is None]
    return texts if len(texts) <= min(_FEW_MARKERS, len(distinct) // 3) else []


# ---- missing values --------------------------------------------------------------------------------------


def trimmed(column: Column, nulls: bool = True) -> Column:
    """Strips whitespace around texts; empty text is missing. A column without either is returned as it is."""
    if _any(column, f"^{_SPACE}|{_SPACE}$"):
        column = arrow().compute.utf8_trim_whitespace(column)
    return without(column, [""]) if nulls else column


def without(column: Column, texts: Sequence[str]) -> Column:
    """Marks these texts of a text column as missing."""
    pa = arrow()
    gone = pa.compute.is_in(column, value_set=pa.array(texts, column.type))
    # A copy of a column of text takes more memory than most of what is done with it.
    return pa.compute.if_else(gone, pa.scalar(None, column.type), column) if pa.compute.any(gone).as_py() else column


def absent(column: Column, markers: Sequence[Any]) -> Column:
    """Marks these values as missing: texts as they are, numbers however they are written."""
    if not len(markers):
        return column
    if is_text(column):
        return without(trimmed(column), [str(marker) for marker in markers])
    sizes = [float(marker) for marker in markers if is_number(str(marker))]
    values = numbers(column)
    if values is None or not sizes:
        return column
    return arrow().array(np.where(np.isin(values, sizes), np.nan, values), from_pandas=True)


# ---- numbers with decimal commas, thousands separators or symbols -------------------------------------------


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
    """Converts a text column to float64; None if it does not hold numbers in this format. Without `thousands`, the
    other one of point and comma, a space or an apostrophe may group digits.
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
        >>> column, sign = without_symbol(arrow().array(["-$1,200", "$5"]))
        >>> column.to_pylist(), sign
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
            plain = compute.replace_substring_regex(column, pattern, r"\1\2")
            if _matches(plain, ".") or _matches(plain, ","):
                return plain, sign
    return column, ""


def has_leading_zeros(column: Column) -> bool:
    """Returns whether some texts are codes such as "007", whose zeros a number would lose."""
    return _any(column, r"^0[0-9]+$")


def _matches(column: Column, decimal: str, thousands: str | None = None) -> bool:
    groups = _GROUPS.format(group=_groupers(decimal, thousands))
    return _all(column, _NUMBER.format(groups=groups, point=f"[{decimal}]")) and _all(column, "[0-9]")


def _groupers(decimal: str, thousands: str | None) -> str:
    return thousands or f"{'.' if decimal == ',' else ','}{_SPACES}"


def _all(column: Column, pattern: str) -> bool:
    compute: Any = arrow().compute
    return bool(compute.all(compute.match_substring_regex(column, pattern)).as_py())


def _any(column: Column, pattern: str) -> bool:
    compute: Any = arrow().compute
    return bool(compute.any(compute.match_substring_regex(column, pattern)).as_py())
