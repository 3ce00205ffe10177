"""Text tables: the separator found, the types found and corrected, errors with line numbers."""

from __future__ import annotations

import lzma
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from .columns import arrow, is_text, trimmed

_MISSING = ["", "?", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "-NaN", "-nan", "NULL", "null", "None", "none", "<NA>"]


def read_csv(
    path: Path,
    *,
    exact: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    names: Sequence[str] | None = None,
) -> Any:
    """An Arrow table from a text file with a line of column names.

    Args:
        path: the file; also compressed, as its suffix says.
        exact: columns that keep whole numbers (ids, times, labels); the others become floats.
        delimiter: between cells; found from the first line if None.
        decimal: the decimal point.
        encoding: of the text.
        names: of the columns, where the file has no line of names.
    """
    pa = arrow()
    import pyarrow.csv

    first = first_line(path, encoding)
    delimiter = delimiter or max(",;\t|", key=first.count)
    if names is None and all(_is_number(cell) for cell in first.split(delimiter)):
        raise ValueError(f"{path}: the first line holds numbers, not column names: add them, or give names=[...].")
    read = pyarrow.csv.ReadOptions(encoding=encoding, column_names=None if names is None else list(names))
    options: dict[str, Any] = {"read_options": read}
    convert: dict[str, Any] = {"null_values": _MISSING, "strings_can_be_null": True, "decimal_point": decimal}
    parse = {"delimiter": delimiter, "newlines_in_values": False}
    types: dict[str, Any] | None = None
    columns: list[str] = []
    while True:
        options["parse_options"] = pyarrow.csv.ParseOptions(**parse)
        options["convert_options"] = pyarrow.csv.ConvertOptions(column_types=types, **convert)
        try:
            if types is None:  # the types of the first block; a later one may not fit them
                with _open(path) as file, pyarrow.csv.open_csv(file, **options) as begun:
                    columns = begun.schema.names
                    types = {field.name: _wider(field, exact) for field in begun.schema}
                continue
            with _open(path) as file:
                table = pyarrow.csv.read_csv(file, **options)
            return _stripped(table)
        except (pa.ArrowException, UnicodeError, EOFError, OSError, lzma.LZMAError) as error:
            column = re.search(r"In CSV column #(\d+)", str(error))
            name = columns[int(column[1])] if column and int(column[1]) < len(columns) else None
            if types is not None and name is not None and types.get(name) != pa.large_string():
                types[name] = pa.large_string()  # what it holds is found out, and told by row, later
            elif not parse["newlines_in_values"] and isinstance(error, pa.ArrowInvalid):
                parse["newlines_in_values"] = True
            else:
                raise ValueError(_told(path, error, options)) from error


def _stripped(table: Any) -> Any:
    """Names and texts without the space that some files have after commas."""
    for i, name in enumerate(table.column_names):
        if is_text(table.column(i)):
            table = table.set_column(i, name, trimmed(table.column(i)))
    return table.rename_columns([str(name).strip() for name in table.column_names])


def _wider(field: Any, exact: Collection[str]) -> Any:
    """The first block's type, made wide enough for what may follow."""
    pa = arrow()
    if pa.types.is_null(field.type):
        return pa.large_string()
    if pa.types.is_integer(field.type) and field.name.strip() not in exact:
        return pa.float64()
    return pa.large_string() if pa.types.is_string(field.type) else field.type


def _open(path: Path) -> Any:
    return lzma.open(path) if path.suffix == ".xz" else arrow().input_stream(str(path), compression="detect")


def first_line(path: Path, encoding: str) -> str:
    """The first line that is not empty."""
    try:
        with _open(path) as file:
            head = file.read(1 << 16)
    except Exception as error:  # whatever the decompressors raise
        raise ValueError(f"{path}: this file cannot be opened as {path.suffix}: {error}.") from error
    if not head.strip():
        raise ValueError(f"{path}: the file is empty.")
    if b"\0" in head and not encoding.lower().startswith("utf-16"):
        raise ValueError(f"{path}: this is not a text file (it has zero bytes).")
    try:
        text = head.decode(encoding, errors="replace")
    except LookupError:
        raise ValueError(f"encoding={encoding!r} is not known; e.g. 'utf-8', 'latin-1'.") from None
    return next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")


def _told(path: Path, error: Exception, options: dict[str, Any]) -> str:
    """What is wrong, with the row if a slow second look finds it."""
    import pyarrow.csv

    told = (str(error).splitlines() or [type(error).__name__])[0][:200]
    if "Expected" in told:
        options["read_options"].use_threads = False  # only one thread knows where it is
        try:
            with _open(path) as file:
                pyarrow.csv.read_csv(file, **options)
        except Exception as again:
            found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+): ?(.*)", str(again))
            if found:
                row = int(found[1]) - (options["read_options"].column_names == [])
                return f"{path}: row {row:,} has {found[3]} cells instead of {found[2]}: {found[4][:60]!r}."
    return f"{path}: this is not a table of text: {told}."


def _is_number(text: str) -> bool:
    try:
        float(text.strip().strip('"'))
    except ValueError:
        return False
    return True
