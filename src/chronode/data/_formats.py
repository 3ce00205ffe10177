"""Readers of files that contain a table."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..storage import check_columns, check_unpacked, parse_json, unpacked_limit
from ._columns import arrow
from ._csv import MISSING, dialect_of, filled_names, read_csv
from ._names import known_column
from ._opening import PACKED, opened, suffix_of

_BYTES_OF_A_CELL = 8
TEXT_OPTIONS = ("delimiter", "decimal", "thousands", "encoding", "comment", "names")
FILE_OPTIONS = (*TEXT_OPTIONS, "sheet")
"""Options for the format of a table; other files ignore them."""
_CHARACTERS = {"delimiter": ";", "decimal": ",", "thousands": "."}

Options = Mapping[str, Any]
Loaded = tuple[Any, tuple[str, ...]]


def roles_of(options: Options) -> dict[str, str]:
    """Returns column -> role, for the columns that the options name."""
    target = options.get("target")
    targets = [target] if isinstance(target, str) else target if isinstance(target, Sequence) else []
    roles = {str(name): "target" for name in targets}
    return roles | {options[role]: role for role in ("group", "time", "channel", "id") if options.get(role)}


def column_names(path: Path, options: Options) -> list[str] | None:
    """Returns the columns of a table; None for other files, and for those that `load_table` will reject."""
    if suffix_of(path) not in LOADERS:
        return None
    if LOADERS[suffix_of(path)] is not _text:
        try:
            if LOADERS[suffix_of(path)] is _parquet:
                with _parquet_file(path) as file:
                    return list(file.schema_arrow.names)
            table, _ = load_table(path, {**options, "columns": None})
        except ValueError:
            return None
        return [str(name) for name in getattr(table, "column_names", table)]
    _check_characters(options)
    dialect = dialect_of(path, **{name: options.get(name) for name in ("encoding", "delimiter", "comment")})
    names = options.get("names")
    header = names if names is not None else dialect.header if dialect.named else range(len(dialect.header))
    return filled_names(header)


def load_table(path: Path, options: Options) -> Loaded:
    """Reads a file with one of the `LOADERS` as (a table for `from_long`, notes)."""
    _check_unpacked(path)
    return LOADERS[suffix_of(path)](path, options)


def _check_unpacked(path: Path) -> None:
    """Rejects a compressed file that unpacks to an implausible size."""
    size, limit = 0, unpacked_limit(path)
    try:
        if path.suffix.lower() in PACKED:
            with opened(path) as file:
                while size <= limit and (chunk := file.read(1 << 20)):
                    size += len(chunk)
        elif zipfile.is_zipfile(path):  # Excel
            with zipfile.ZipFile(path) as archive:
                size = sum(member.file_size for member in archive.infolist())
    except Exception as error:  # decompressors raise many types
        raise ValueError(f"{path}: this file cannot be opened as {path.suffix}: {_first_line(error)}.") from error
    check_unpacked(path, size)


def _check_characters(options: Options) -> None:
    for name, example in _CHARACTERS.items():
        if options.get(name) is not None and len(options[name]) != 1:
            raise ValueError(f"{name}={options[name]!r} must be a single character, such as {example!r}.")


def _text(path: Path, options: Options) -> Loaded:
    _check_characters(options)
    own = {name: options[name] for name in (*TEXT_OPTIONS, "missing_values") if options.get(name) is not None}
    if suffix_of(path) in (".tsv", ".tab"):
        own.setdefault("delimiter", "\t")
    return read_csv(path, roles=roles_of(options), numbered=bool(options.get("row_per_series")), **own)


def _parquet_file(path: Path) -> Any:
    arrow()
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except Exception as error:  # untrusted bytes
        raise ValueError(f"{path}: this is not a valid Parquet file: {_first_line(error)}.") from error


def _parquet(path: Path, options: Options) -> Loaded:
    with _parquet_file(path) as file:
        names, chosen = file.schema_arrow.names, options.get("columns")
        if chosen is not None and "channel" not in options:
            wanted = {*([chosen] if isinstance(chosen, str) else chosen), *roles_of(options)}
            wanted |= {*options.get("ignore", ()), *options.get("static", ())}
            names = [name for name in names if name in wanted]
        check_columns(path, len(names))
        # A column of equal values needs almost no space in the file, whatever its length.
        check_unpacked(path, _BYTES_OF_A_CELL * file.metadata.num_rows * len(names))
        try:
            return file.read(columns=names), ()
        except Exception as error:  # untrusted bytes
            raise ValueError(f"{path}: this is not a valid Parquet file: {_first_line(error)}.") from error


def _feather(path: Path, options: Options) -> Loaded:
    pa = arrow()
    import pyarrow.feather

    try:
        with path.open("rb") as file:
            stream = file.read(6) != b"ARROW1"
        if stream:
            with pa.ipc.open_stream(str(path)) as reader:
                return reader.read_all(), ()
        return pyarrow.feather.read_table(path), ()
    except Exception as error:  # untrusted bytes
        raise ValueError(f"{path}: this is not a valid Arrow (Feather) file: {_first_line(error)}.") from error


def _excel(path: Path, options: Options) -> Loaded:
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError:
        raise ImportError(f"{path}: Excel files need openpyxl: pip install openpyxl") from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # untrusted bytes
        raise ValueError(f"{path}: this is not a valid .xlsx file: {_first_line(error)}.") from error
    try:
        sheet = known_column(options.get("sheet") or book.sheetnames[0], book.sheetnames, "sheet", "sheets")
        rows = [row for row in book[sheet].iter_rows(values_only=True) if any(cell is not None for cell in row)]
    finally:
        book.close()
    if not rows:
        raise ValueError(f"{path}: the sheet {sheet!r} is empty.")
    roles, width = roles_of(options), max(len(row) for row in rows)
    used = [i for i in range(width) if any(i < len(row) and row[i] is not None for row in rows)]
    given = options.get("names")
    header = [rows[0][i] if i < len(rows[0]) else None for i in used] if given is None else list(given)
    names = filled_names(header)
    markers = {*MISSING, *map(str, options.get("missing_values", ()))}
    body = rows if given is not None else rows[1:]
    table: dict[str, list[Any]] = {}
    for name, i in zip(names, used, strict=True):
        if name in table:
            raise ValueError(f"{path}: two columns have the same name: {name!r}; rename one of them.")
        gone = {""} if roles.get(name) in ("id", "group", "channel") else markers
        table[name] = [_cell(row[i] if i < len(row) else None, gone) for row in body]
    return table, (f"read sheet {sheet!r}, one of {len(book.sheetnames)}.",) if len(book.sheetnames) > 1 else ()


def _cell(value: Any, missing: set[str]) -> Any:
    if not isinstance(value, str):
        return value
    value = value.strip()
    return None if value in missing else value


def _json(path: Path, options: Options) -> Loaded:
    return read_json(path, options.get("encoding")), ()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")


LOADERS: dict[str, Callable[[Path, Options], Loaded]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".data", ".dat", ".psv", ".tab", ".log", ""), _text),
    **dict.fromkeys((".parquet", ".pq"), _parquet),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _feather),
    **dict.fromkeys((".xlsx", ".xlsm"), _excel),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), _json),
}


def read_json(path: Path, encoding: str | None = None) -> dict[str, list[Any]]:
    """Returns name -> cells of a JSON file."""
    with opened(path) as file:
        content = file.read()
    try:
        text = content.decode(encoding or "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: JSON must be UTF-8 text: {error}.") from None
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    whole = _document(text, path, lines)
    if isinstance(whole, dict) and (table := _columns(whole)) is not None:
        return table
    records = whole if whole is not None else [parse_json(line, Any, f"{path}, line {i:,}") for i, line in lines]
    records = [records] if isinstance(records, dict) else records
    if not isinstance(records, list) or not records:
        raise ValueError(f"{path}: the file has no objects.")
    names: dict[str, None] = {}
    for i, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise ValueError(f"{path}: row {i:,} is not an object {{...}}: {str(record)[:60]!r}.")
        names |= dict.fromkeys(record)
    return {name: [record.get(name) for record in records] for name in names}


def _document(text: str, path: Path, lines: list[tuple[int, str]]) -> Any:
    """Returns the document of a file that is one list or one object; None if every line is an object."""
    first = text.lstrip()[:1]
    if first == "[":
        return parse_json(text, Any, str(path))
    if first != "{" or (len(lines) > 1 and lines[0][1].rstrip().endswith("}")):
        return None
    try:
        return parse_json(text, Any, str(path))
    except ValueError:
        return None  # the line with the error is found by reading line by line


def _columns(document: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """Returns the columns of a document that is a table; None if it is a single row.

    Example:
        >>> _columns({"x": {"0": 1, "1": 2}}), _columns({"x": [1, 2]}), _columns({"columns": ["x"], "data": [[1], [2]]})
        ({'x': [1, 2]}, {'x': [1, 2]}, {'x': [1, 2]})
        >>> _columns({"rows": [{"x": 1}, {"x": 2}]}), _columns({"x": 1})
        ({'x': [1, 2]}, None)
    """
    cells = list(document.values())
    names, rows = document.get("columns"), document.get("data")
    if isinstance(names, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return {str(name): [row[i] if i < len(row) else None for row in rows] for i, name in enumerate(names)}
    if cells and all(isinstance(column, dict) for column in cells):
        keys = dict.fromkeys(key for column in cells for key in column)
        return {name: [column.get(key) for key in keys] for name, column in document.items()}
    tables = [each for each in cells if isinstance(each, list) and each and all(isinstance(row, dict) for row in each)]
    if len(tables) == 1:  # the rows, perhaps beside a description
        keys = dict.fromkeys(key for row in tables[0] for key in row)
        return {name: [row.get(name) for row in tables[0]] for name in keys}
    if cells and all(isinstance(column, list) for column in cells):
        return {name: list(column) for name, column in document.items()}
    return None
