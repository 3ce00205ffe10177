"""Detection of the format of a text table: encoding, separator, comment lines and header line."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..settings import SettingError, named
from ._names import counted
from ._times import is_number

_HEAD_LINES = 200
_DELIMITERS = ",;\t|"
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_FALLBACK = "cp1252"
_MOST_LINES_BEFORE = 30
# A number with a decimal point or comma, a date, a time or nothing: most cells of a table.
_TYPED = re.compile(r"\s*([+-]?[\d.,']*\d([eE][+-]?\d+)?|\d+[-/.:]\d+\S*( \d+:\S+)?|nan|NaN|NA|\?)?\s*")


@dataclass(frozen=True)
class Dialect:
    """Format of a text table.

    Attributes:
        encoding: Text encoding.
        delimiter: Separator between cells.
        comment: Prefix of comment lines; "" if there are none.
        skip: Lines before the header: comments and blank lines.
        header: Cells of the first line of the table; an unnamed first column, as written by R, is "".
        named: Whether the header holds column names, not numbers.
        given_names: Whether the names differ from the header line: it is a comment, or has no name for the first
            column.
        aligned: Whether cells are separated by any number of spaces.
        notes: Choices that were made.
    """

    encoding: str
    delimiter: str
    comment: str
    skip: int
    header: tuple[str, ...]
    named: bool
    given_names: bool = False
    aligned: bool = False
    notes: tuple[str, ...] = ()


def find_dialect(
    head: bytes, *, encoding: str | None = None, delimiter: str | None = None, comment: str | None = None
) -> Dialect:
    r"""Detects the dialect of a file that begins with `head`, except for the parts that are given.

    Example:
        >>> dialect = find_dialect(b'# station 7\n"Temp, C";x\n1,5;2\n')
        >>> dialect.delimiter, dialect.comment, dialect.header
        (';', '#', ('Temp, C', 'x'))
    """
    used, notes = find_encoding(head) if encoding is None else (encoding, ())
    text = _decoded(head, used)
    lines = text.lstrip("\ufeff").splitlines(keepends=True)[:_HEAD_LINES]
    first = next((line for line in lines if line.strip()), "")
    if comment is None:
        comment = "#" if first.lstrip().startswith("#") else ""
    body = [line for line in lines if line.strip() and not (comment and line.lstrip().startswith(comment))]
    if delimiter is None and not comment and (above := _lines_above_the_table(body)):
        shown = body[0].strip()[:40]
        notes = (*notes, f"skipped {counted(above, 'line')} above the table ({shown!r}).")
        body = body[above:]
    skip = lines.index(body[0]) if body else 0
    delimiter = delimiter or _delimiter(body)
    spaces = delimiter == " " and _is_aligned(body)
    body = aligned(body) if spaces else body
    header = _cells(body[:1], delimiter)
    named = not all(cell and _TYPED.fullmatch(cell) for cell in header)
    before = lines[skip - 1] if skip else ""
    # numpy.savetxt and others write the column names as the last comment line.
    names = _cells([before.lstrip().removeprefix(comment).strip(" ")], delimiter) if before and comment else ()
    if not named and len(names) == len(header) > 0 and not all(is_number(name) for name in names):
        header, named, skip = names, True, skip - 1
    rows = _rows(body[1:], delimiter)
    # R does not name its row names: every row has one cell more than there are names.
    short = named and len(rows) > 0 and all(len(row) == len(header) + 1 for row in rows)
    header = ("", *header) if short else header
    return Dialect(used, delimiter, comment, skip, header, named, short or bool(comment), spaces, notes)


def aligned(lines: Sequence[str]) -> list[str]:
    r"""Returns lines whose cells are separated by any number of spaces with one space between cells.

    Example:
        >>> aligned(["  1.0   2\n"])
        ['1.0 2\n']
    """
    return [" ".join(line.split()) + "\n" for line in lines]


def _is_aligned(lines: Sequence[str]) -> bool:
    """Returns whether the lines have equally many cells only if spaces in a row count as one."""
    if any('"' in line for line in lines) or not any(re.search(r"^\s+\S|\S {2,}\S", line) for line in lines):
        return False
    first_has_runs = re.search(r"^\s+\S|\S {2,}\S", lines[0]) is not None
    return (first_has_runs or _score(lines, " ")[0] < 1) and _score(aligned(lines), " ")[0] == 1


def _lines_above_the_table(lines: Sequence[str]) -> int:
    """Returns the number of lines of text before column names and rows that have equally many cells."""
    if max(_score(lines, delimiter)[0] for delimiter in _DELIMITERS) == 1:
        return 0
    for before in range(1, min(_MOST_LINES_BEFORE, len(lines) - 1)):
        rest = lines[before:]
        for delimiter in _DELIMITERS:
            alike, typed, width = _score(rest, delimiter)
            named = not all(_TYPED.fullmatch(cell) for cell in _cells(rest[:1], delimiter))
            if alike == 1 and typed > 0.5 and width > 1 and named:
                return before
    return 0


def find_encoding(head: bytes) -> tuple[str, tuple[str, ...]]:
    """Returns (encoding, notes): from the byte order mark, otherwise UTF-8 if valid, otherwise Windows-1252."""
    for mark, name in _BOMS.items():
        if head.startswith(mark):
            return name, ()
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return fallback_encoding(head)
    return "utf-8", ()


def fallback_encoding(content: bytes) -> tuple[str, tuple[str, ...]]:
    """Returns (encoding, notes) of text that is not UTF-8."""
    try:
        content.decode(_FALLBACK)
    except UnicodeDecodeError as error:
        raise SettingError(
            f"this is not UTF-8 text, nor {_FALLBACK} (byte {content[error.start]:#04x}): pass its encoding, "
            f"e.g. {named('encoding', 'latin-1')} or 'shift_jis'.",
            argument="encoding",
        ) from None
    return _FALLBACK, (
        f"the text is not UTF-8: read as {_FALLBACK} (Western European); use {named('encoding', ...)} for another "
        "encoding.",
    )


def _decoded(head: bytes, encoding: str) -> str:
    try:
        return codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    except LookupError:
        raise SettingError(
            f"{named('encoding', encoding)} is not supported; e.g. 'utf-8', 'latin-1'.", argument="encoding"
        ) from None


def _delimiter(lines: Sequence[str]) -> str:
    """Returns the separator that splits all lines alike, into cells that look like numbers, dates or nothing."""
    scores = {delimiter: _score(lines, delimiter) for delimiter in _DELIMITERS}
    best = max(scores, key=lambda delimiter: scores[delimiter])
    if scores[best][0] == 0 and (_score(lines, " ")[0] == 1 or _is_aligned(lines)):
        return " "
    return best


def _score(lines: Sequence[str], delimiter: str) -> tuple[float, float, int]:
    """Returns (share of lines with as many cells as the first, share of typed cells, cells of the first line)."""
    rows = list(_rows(lines, delimiter))
    width = len(rows[0]) if rows else 0
    if width < 2:
        return 0.0, 0.0, 0
    data = [cell for row in rows[1:] for cell in row]
    alike = max(sum(len(row) == size for row in rows[1:]) for size in (width, width + 1)) / max(len(rows) - 1, 1)
    typed = sum(_TYPED.fullmatch(cell) is not None for cell in data) / max(len(data), 1)
    return alike, typed, width


def _cells(lines: Sequence[str], delimiter: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in next(iter(_rows(lines, delimiter)), []))


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:  # a cell exceeds the limit of the csv module
        return [line.rstrip("\r\n").split(delimiter) for line in lines]
