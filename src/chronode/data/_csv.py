"""Text tables: format and column types are detected, and errors name the row."""

from __future__ import annotations

import lzma
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..settings import SettingError, error_at, named
from ..storage import check_columns
from ._cells import (
    converted,
    has_leading_zeros,
    is_text,
    number_style,
    to_numbers,
    trimmed,
    whole_numbers,
    without,
    without_symbol,
)
from ._columns import arrow
from ._csv_dialect import Dialect, aligned, fallback_encoding, find_dialect
from ._opening import first_line, opened

MISSING = ("", "?", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "-NaN", "-nan", "NULL", "null", "None", "none", "<NA>")
_HEAD = 1 << 18
_LONGEST_LINE = 1 << 24
DECIMAL_COMMA = "numbers are written with a decimal comma."
"""Note on a file whose numbers are written so."""
_FEW_CHANGES = 3
_MOST_CHANGES = 100
_NAMES = ("id", "group", "channel")  # roles whose cells are names: only empty cells are missing


def read_csv(
    path: Path,
    *,
    roles: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    comment: str | None = None,
    names: Sequence[str] | None = None,
    missing_values: Collection[Any] = (),
    numbered: bool = False,
) -> tuple[Any, tuple[str, ...]]:
    """Reads a text file with a header line as (Arrow table, notes). Options that are None are detected.

    Args:
        path: The file, possibly compressed, according to its suffix.
        roles: Column -> "id", "group", "channel", "time", "target" or "text". Names and times keep their text, and so
            does "text".
        delimiter: Separator between cells.
        decimal: Decimal point.
        thousands: Thousands separator.
        encoding: Text encoding.
        comment: Prefix of comment lines; "" if no line is a comment.
        names: Column names, if the file has no header line.
        missing_values: Additional texts that mean a missing value.
        numbered: Whether the columns of a file without header are named 0, 1, ...
    """
    dialect = dialect_of(path, encoding, delimiter, comment)
    check_columns(path, len(dialect.header))
    if names is None and numbered and not dialect.named:
        names = [str(i) for i in range(len(dialect.header))]
    if names is None and not dialect.named:
        raise SettingError(
            f"{path}: the first line holds numbers, not column names: add them, or pass {named('names', ...)}; if "
            f"every row is a series (as in the UCR archive), use {named('row_per_series', True)}.",
            argument="names",
        )
    if names is not None and len(names) != len(dialect.header):
        raise SettingError(
            f"{path}: {named('names', ...)} must name the {len(dialect.header)} columns, got {len(names)} names.",
            argument="names",
        )
    markers = [*MISSING, *map(str, missing_values)]
    file = _CsvFile(path, dialect, names, markers, roles or {}, encoding is not None)
    table, notes = _without_symbols(file.read(decimal or "."), roles or {}, markers)
    if decimal is None:
        decimal = _decimal(path, table, roles or {}, markers, thousands)
        if decimal != ".":
            table, notes = _without_symbols(file.read(decimal), roles or {}, markers)
            notes.append(DECIMAL_COMMA)
    header, columns = table.column_names, table.columns
    del table  # so that each text is freed once it is converted
    for index, name in enumerate(header):
        if is_text(columns[index]):
            columns[index] = _typed(columns[index], (roles or {}).get(name, ""), markers, decimal, thousands)
    return arrow().table(columns, names=header), (*file.dialect.notes, *notes)


@dataclass
class _CsvFile:
    """Text table that Arrow reads repeatedly until the column types are known."""

    path: Path
    dialect: Dialect
    names: Sequence[str] | None
    markers: list[str]
    roles: Mapping[str, str]
    encoding_given: bool

    def read(self, decimal: str) -> Any:
        """Returns the table; columns with cells of mixed types are text."""
        import pyarrow.csv

        pa = arrow()
        types: dict[str, Any] | None = None
        columns: list[str] = []
        breaks, changes = False, 0
        while True:
            options = self._options(decimal, types, breaks)
            try:
                if types is None:  # the types of the first block; a later block may not fit them
                    with self._open() as file, pyarrow.csv.open_csv(file, **options) as begun:
                        columns = begun.schema.names
                        types = {field.name: self._wider(field) for field in begun.schema}
                    continue
                with self._open() as file:
                    table = pyarrow.csv.read_csv(file, **options)
                pa.default_memory_pool().release_unused()
                # Some files have whitespace after commas, and columns without a name.
                names = filled_names(table.column_names)
                stripped = [self._stripped(*pair) for pair in zip(names, table.columns, strict=True)]
                return pa.table(stripped, names=names)
            except (pa.ArrowException, UnicodeError, EOFError, OSError, lzma.LZMAError) as error:
                column = re.search(r"In CSV column #(\d+)", str(error))
                name = columns[int(column[1])] if column and int(column[1]) < len(columns) else None
                if isinstance(error, UnicodeError) or "UTF8" in str(error):
                    self._use_other_encoding(error)
                elif types is not None and name is not None and types.get(name) != pa.large_string():
                    changes += 1
                    types |= dict.fromkeys(self._as_text(name, types, changes), pa.large_string())
                elif not breaks and isinstance(error, pa.ArrowInvalid):
                    breaks = True
                else:
                    raise ValueError(self._error(error, options)) from error

    def _stripped(self, name: str, column: Any) -> Any:
        """Returns texts without whitespace around them; whole numbers as such, unless some mean missing values."""
        if is_text(column) and len(self.markers) == len(MISSING) and self.roles.get(name) != "text":
            column = whole_numbers(column)
        return trimmed(column) if is_text(column) else column

    def _options(self, decimal: str, types: dict[str, Any] | None, breaks: bool) -> dict[str, Any]:
        import pyarrow.csv

        dialect = self.dialect
        names = None if self.names is None else list(self.names)
        skip = dialect.skip
        if names is None and dialect.given_names:
            names, skip = list(dialect.header), 1 if dialect.comment or dialect.aligned else skip + 1
        elif dialect.comment or dialect.aligned:
            skip = 0
        return {
            "read_options": pyarrow.csv.ReadOptions(encoding=dialect.encoding, column_names=names, skip_rows=skip),
            "parse_options": pyarrow.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=breaks),
            "convert_options": pyarrow.csv.ConvertOptions(
                column_types=types, null_values=self.markers, strings_can_be_null=False, decimal_point=decimal
            ),
        }

    def _wider(self, field: Any) -> Any:
        """Widens the type of the first block so that it fits later blocks."""
        types = arrow().types
        texts = (types.is_null, types.is_string, types.is_binary)  # bytes: not in this encoding
        if field.name.strip() in self.roles or any(is_kind(field.type) for is_kind in texts):
            return arrow().large_string()
        return arrow().float64() if types.is_integer(field.type) else field.type

    def _as_text(self, name: str, types: dict[str, Any], changes: int) -> list[str]:
        """Returns the columns to read as text now that column `name` has changed its type; its rows are reported later.

        Every change requires reading the file again, so after a few of them all numbers are read as text.
        """
        if changes > _MOST_CHANGES:
            kinds = f"more than {_MOST_CHANGES} columns begin with dates or booleans and continue with other text"
            raise ValueError(f"{self.path}: {kinds}.")
        plain = [other for other, kind in types.items() if kind == arrow().float64()]
        return [name, *(plain if changes > _FEW_CHANGES else [])]

    def _open(self) -> Any:
        comment = self.dialect.comment
        file = opened(self.path)
        if not comment and not self.dialect.aligned:
            return file
        with file:
            text = file.read().decode(self.dialect.encoding)
        header = 1 if self.names is None else 0
        lines = text.lstrip("\ufeff").splitlines(keepends=True)[self.dialect.skip :]
        if comment:
            lines = [line for i, line in enumerate(lines) if i < header or not line.lstrip().startswith(comment)]
        kept = aligned(lines) if self.dialect.aligned else lines
        return arrow().BufferReader("".join(kept).encode(self.dialect.encoding))

    def _use_other_encoding(self, error: Exception) -> None:
        """Switches the encoding after the rest of the file turned out not to be in the encoding of its beginning."""
        if self.encoding_given or self.dialect.encoding != "utf-8":
            raise SettingError(
                f"{self.path}: this text is not in the encoding {self.dialect.encoding}; pass another, e.g. "
                f"{named('encoding', 'latin-1')}.",
                argument="encoding",
            ) from error
        with opened(self.path) as file:
            try:
                encoding, notes = fallback_encoding(file.read())
            except ValueError as other:
                raise ValueError(f"{self.path}: {other}") from error
        self.dialect = replace(self.dialect, encoding=encoding, notes=(*self.dialect.notes, *notes))

    def _error(self, error: Exception, options: dict[str, Any]) -> str:
        """Describes the error, with the row if a slow second read finds it."""
        import pyarrow.csv

        text = first_line(error)
        if "Empty CSV" in text:
            return f"{self.path}: the table has no rows."
        if "Expected" in text:
            options["read_options"].use_threads = False  # row numbers need a single thread
            try:
                with self._open() as file:
                    pyarrow.csv.read_csv(file, **options)
            except Exception as again:
                match = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+): ?(.*)", str(again))
                if match:
                    has_names = options["read_options"].column_names == []
                    row = int(match[1]) - (options["read_options"].skip_rows + has_names)
                    is_comment = match[4].lstrip().startswith("#")
                    cure = f" If it is a comment, pass {named('comment', '#')}." if is_comment else ""
                    cells = f"has {match[3]} cells instead of {match[2]}"
                    return f"{self.path}: row {row:,} {cells}: {match[4][:60]!r}.{cure}"
        return f"{self.path}: this is not a text table: {text}."


def dialect_of(
    path: Path, encoding: str | None = None, delimiter: str | None = None, comment: str | None = None
) -> Dialect:
    """Detects the format of a text file."""
    try:
        with opened(path) as file:
            head = file.read(_HEAD)
            while b"\n" not in head.strip() and len(head) < _LONGEST_LINE and (more := file.read(_HEAD)):
                head += more
    except Exception as error:  # decompressors raise many types
        raise ValueError(f"{path}: this file cannot be opened as {path.suffix}: {error}.") from error
    if not head.strip():
        raise ValueError(f"{path}: the file is empty.")
    utf16 = (encoding or "").lower().startswith("utf-16") or head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in head and not utf16:
        raise ValueError(f"{path}: this is not a text file (it has zero bytes).")
    if len(head) >= _HEAD:
        head = head[: head.rfind(b"\n") + 1] or head  # whole lines
    try:
        return find_dialect(head, encoding=encoding, delimiter=delimiter, comment=comment)
    except ValueError as error:
        raise error_at(path, error) from error


def filled_names(header: Iterable[Any]) -> list[str]:
    """Strips column names and names empty ones "Unnamed: 0" and so on, as pandas does.

    Example:
        >>> filled_names(["", " x", "Unnamed: 0"])
        ['Unnamed: 0.1', 'x', 'Unnamed: 0']
    """
    names = ["" if name is None else str(name).strip() for name in header]
    taken = set(names)
    for i, name in enumerate(names):
        if not name:
            name = f"Unnamed: {i}"
            names[i] = f"{name}.1" if name in taken else name
    return names


def _without_symbols(table: Any, roles: Mapping[str, str], markers: Sequence[str]) -> tuple[Any, list[str]]:
    """Removes percent and currency signs from columns of numbers; returns the table and notes."""
    columns, notes = list(table.columns), []
    for i, name in enumerate(table.column_names):
        if not is_text(columns[i]) or roles.get(name, ""):
            continue
        columns[i], symbol = without_symbol(without(columns[i], markers))
        if symbol:
            notes.append(f"column {name!r} has numbers with {symbol!r}, which was removed.")
    return arrow().table(columns, names=table.column_names), notes


def _decimal(path: Path, table: Any, roles: Mapping[str, str], markers: Sequence[str], thousands: str | None) -> str:
    """Returns the decimal point of the file: a comma if some column cannot be read otherwise."""
    styles = {
        name: number_style(without(column, markers))
        for name, column in zip(table.column_names, table.columns, strict=True)
        if is_text(column) and roles.get(name) not in (*_NAMES, "text")
    }
    if "comma" in styles.values() and thousands != ",":
        return ","
    unclear = [name for name, style in styles.items() if style == "either"]
    decided = thousands or "point" in styles.values() or _has_fractions(table)
    if unclear and not decided:
        example = next(text for text in table[unclear[0]].to_pylist() if text and "," in text)
        raise SettingError(
            f"{path}: {example!r} in column {unclear[0]!r} can be read with a decimal comma or a thousands separator: "
            f"pass {named('decimal', ',')} or {named('thousands', ',')}.",
            argument="decimal",
        )
    return "."


def _has_fractions(table: Any) -> bool:
    """Returns whether any number of the table has a decimal point."""
    compute = arrow().compute
    floats = [column for column in table.columns if arrow().types.is_floating(column.type)]
    return any(compute.any(compute.not_equal(column, compute.floor(column))).as_py() for column in floats)


def _typed(column: Any, role: str, markers: Sequence[str], decimal: str, thousands: str | None) -> Any:
    """Converts a text column according to its role: names to text or plain whole numbers, others to numbers."""
    if role == "text":
        return column
    if role in _NAMES:
        return whole_numbers(column)
    column = without(column, markers)
    if column.null_count == len(column) or (role == "target" and has_leading_zeros(column)):
        return column
    if role == "time" and decimal == "." and thousands is None:
        return column
    numbers = to_numbers(column, decimal, thousands)
    if numbers is not None:
        return numbers
    plain = converted(column, arrow().float64()) if decimal == "." else None  # "inf" too, which is an error later
    return column if plain is None else plain
