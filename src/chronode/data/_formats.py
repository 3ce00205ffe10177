"""Readers of the supported files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..settings import SettingError, named
from ..storage import check_columns, check_unpacked, parse_json
from ._arrays import from_list, from_numpy
from ._columns import arrow
from ._csv import MISSING, dialect_of, filled_names, read_csv
from ._names import known_column, listed, one_or_more
from ._npz import read_arrays, restored
from ._opening import check_unpacked_size, first_line, suffix_of
from ._readers import Reader, check_options, register_reader
from ._sequences import Sequences
from ._settings import FILE_OPTIONS, TEXT_OPTIONS
from ._ts_format import read_ts

_BYTES_OF_A_CELL = 8
_ROLES = ("target", "times", "dt", "lengths", "ids", "groups")
_TABLE_ROLES = {"id": "ids", "time": "times", "group": "groups"}  # options of tables -> names of arrays
_STATED = ("kind", "per_step", "time_format")
_CHARACTERS = {"delimiter": ";", "decimal": ",", "thousands": "."}

Options = Mapping[str, Any]


def roles_of(options: Options) -> dict[str, str]:
    """Returns column -> role, for the columns that the options name."""
    target = options.get("target")
    targets = [target] if isinstance(target, str) else target if isinstance(target, Sequence) else []
    roles = {str(name): "target" for name in targets}
    roles |= {options[role]: role for role in ("group", "time", "channel", "id") if options.get(role)}
    return roles | dict.fromkeys(options.get("texts", ()), "text")


@register_reader
class Text(Reader):
    """Text tables, possibly compressed."""

    suffixes = (".csv", ".tsv", ".txt", ".data", ".dat", ".psv", ".tab", ".log", "")
    options = TEXT_OPTIONS

    def read(self, path: Path, options: Options) -> Any:
        """Returns (an Arrow table, notes)."""
        given = {name: options[name] for name in (*TEXT_OPTIONS, "missing_values") if name in options}
        if suffix_of(path) in (".tsv", ".tab"):
            given.setdefault("delimiter", "\t")
        _check_characters(options)
        return read_csv(path, roles=roles_of(options), numbered=bool(options.get("row_per_series")), **given)

    def columns(self, path: Path, options: Options) -> list[str]:
        """Returns the names in the header line."""
        _check_characters(options)
        dialect = dialect_of(path, *(options.get(name) for name in ("encoding", "delimiter", "comment")))
        names = options.get("names")
        header = names if names is not None else dialect.header if dialect.named else range(len(dialect.header))
        return filled_names(header)


def _check_characters(options: Options) -> None:
    for name, example in _CHARACTERS.items():
        if options.get(name) is not None and len(options[name]) != 1:
            raise SettingError(
                f"{named(name, options[name])} must be a single character, such as {example!r}.", argument=name
            )


@register_reader
class Database(Reader):
    """Tables of DuckDB and SQLite files."""

    suffixes = (".duckdb", ".sqlite", ".sqlite3", ".db")
    options = ("table", "query_sql")

    def read(self, path: Path, options: Options) -> Any:
        """Returns an Arrow table."""
        from ._table_source import rows_of_database

        return rows_of_database(path, options.get("table"), options.get("query_sql"))


@register_reader
class Parquet(Reader):
    """Parquet files; only the columns that are used are read."""

    suffixes = (".parquet", ".pq")
    magic = b"PAR1"

    def read(self, path: Path, options: Options) -> Any:
        """Returns an Arrow table."""
        with self._file(path) as file:
            names, chosen = file.schema_arrow.names, options.get("columns")
            if chosen is not None and "channel" not in options:
                wanted = {*one_or_more(chosen), *roles_of(options)}
                wanted |= {*options.get("ignore", ()), *options.get("static", ())}
                names = [name for name in names if name in wanted]
            check_columns(path, len(names))
            # A column of equal values needs almost no space in the file, whatever its length.
            check_unpacked(path, _BYTES_OF_A_CELL * file.metadata.num_rows * len(names))
            try:
                return file.read(columns=names)
            except Exception as error:  # untrusted bytes
                raise _invalid("Parquet", error) from error

    def columns(self, path: Path, options: Options) -> list[str] | None:
        """Returns the names in the schema."""
        try:
            with self._file(path) as file:
                return list(file.schema_arrow.names)
        except ValueError:
            return None

    def _file(self, path: Path) -> Any:
        arrow()
        import pyarrow.parquet

        try:
            return pyarrow.parquet.ParquetFile(path)
        except Exception as error:  # untrusted bytes
            raise _invalid("Parquet", error) from error


@register_reader
class Feather(Reader):
    """Arrow files and streams."""

    suffixes = (".feather", ".arrow", ".ipc")

    def read(self, path: Path, options: Options) -> Any:
        """Returns an Arrow table."""
        pa = arrow()
        import pyarrow.feather

        try:
            with path.open("rb") as file:
                is_stream = file.read(6) != b"ARROW1"
            if is_stream:
                with pa.ipc.open_stream(str(path)) as batches:
                    return batches.read_all()
            return pyarrow.feather.read_table(path)
        except Exception as error:  # untrusted bytes
            raise _invalid("Arrow (Feather)", error) from error


def _invalid(kind: str, error: Exception) -> ValueError:
    return ValueError(f"this is not a valid {kind} file: {first_line(error)}.")


@register_reader
class Excel(Reader):
    """Excel sheets."""

    suffixes = (".xlsx", ".xlsm")
    options = ("sheet", "names")
    magic = b"PK"

    def read(self, path: Path, options: Options) -> Any:
        """Returns (columns, notes)."""
        try:
            from openpyxl import load_workbook
        except ModuleNotFoundError:
            raise ImportError(f"{path}: Excel files need openpyxl: pip install openpyxl") from None
        check_unpacked_size(path)
        try:
            book = load_workbook(path, read_only=True, data_only=True)
        except Exception as error:  # untrusted bytes
            raise _invalid(".xlsx", error) from error
        try:
            sheet = known_column(options.get("sheet") or book.sheetnames[0], book.sheetnames, "sheet", "sheets")
            rows = [row for row in book[sheet].iter_rows(values_only=True) if any(cell is not None for cell in row)]
        finally:
            book.close()
        if not rows:
            raise ValueError(f"the sheet {sheet!r} is empty.")
        notes = (f"read sheet {sheet!r}, one of {len(book.sheetnames)}.",) if len(book.sheetnames) > 1 else ()
        return _columns_of_sheet(rows, options), notes


def _columns_of_sheet(rows: list[tuple[Any, ...]], options: Options) -> dict[str, list[Any]]:
    roles, width, names = roles_of(options), max(len(row) for row in rows), options.get("names")
    rows = [(*row, *[None] * (width - len(row))) for row in rows]
    used = [i for i in range(width) if any(row[i] is not None for row in rows)]
    header, body = (names, rows) if names is not None else ([rows[0][i] for i in used], rows[1:])
    markers = {*MISSING, *map(str, options.get("missing_values", ()))}
    table: dict[str, list[Any]] = {}
    for name, i in zip(filled_names(header), used, strict=True):
        if name in table:
            raise ValueError(f"two columns have the same name: {name!r}; rename one of them.")
        gone = {""} if roles.get(name) in ("id", "group", "channel") else markers
        cells = [row[i].strip() if isinstance(row[i], str) else row[i] for row in body]
        table[name] = [None if isinstance(cell, str) and cell in gone else cell for cell in cells]
    return table


@register_reader
class Json(Reader):
    """JSON: one object per line, a list of objects, or the columns of a table as pandas writes them."""

    suffixes = (".jsonl", ".ndjson", ".json")
    options = ("encoding",)

    def read(self, path: Path, options: Options) -> Any:
        """Returns name -> cells."""
        with self.open(path) as file:
            content = file.read()
        try:
            text = content.decode(options.get("encoding") or "utf-8-sig")
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
        for i, record in enumerate(records, 1):
            if not isinstance(record, dict):
                raise ValueError(f"{path}: row {i:,} is not an object {{...}}: {str(record)[:60]!r}.")
        return _transposed(records)


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
        return _transposed(tables[0])
    if cells and all(isinstance(column, list) for column in cells):
        return {name: list(column) for name, column in document.items()}
    return None


def _transposed(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


# ---- files that are not tables -----------------------------------------------------------------------------


class _SeriesReader(Reader):
    """Base of the readers of files without columns."""

    def columns(self, path: Path, options: Options) -> None:
        """Returns None: there are no columns."""
        return


@register_reader
class Ts(_SeriesReader):
    """Files of the UEA, UCR and TSER archives."""

    suffixes = (".ts",)

    def read(self, path: Path, options: Options) -> Sequences:
        """Returns the series."""
        # `options_like` also contains what the file itself states.
        given = {name: options[name] for name in options if name not in (*_STATED, *FILE_OPTIONS)}
        if "columns" in given:
            given["channels"] = given.pop("columns")
        wrong = [name for name in given if name not in ("channels", "classes", "unit", "dtype", "duplicates", "empty")]
        if wrong:
            raise ValueError(f"a .ts file has no columns to select; omit {listed(wrong)}.")
        return read_ts(path, **given)


class _Arrays(_SeriesReader):
    """Files of arrays."""

    def _series(self, arrays: dict[str, Any], options: Options, content: str) -> Sequences:
        """Returns the series of arrays by their role; options for the format of tables are ignored."""
        given = {name: value for name, value in options.items() if name not in (*FILE_OPTIONS, "time_format")}
        if "columns" in given:
            given["channels"] = given.pop("columns")
        orders = {
            2: f"{named('order', 'NT')} (a row per series), {named('order', 'TD')} (a row per step) or "
            f"{named('order', 'DT')}",
            3: f"{named('order', 'NTD')} or {named('order', 'NDT')}",
        }
        axes = arrays["values"].ndim
        if "order" not in given and axes in orders:
            raise SettingError(f"the order of its axes is required: {orders[axes]}{content}.", argument="order")
        check_options(given, from_numpy, from_list)
        return from_numpy(**arrays, **given)


@register_reader
class Npz(_Arrays):
    """Files written by `Sequences.save`, or by `numpy.savez`."""

    suffixes = (".npz",)
    magic = b"PK"

    def read(self, path: Path, options: Options) -> Sequences:
        """Returns the series."""
        arrays = read_arrays(path)
        if "json" in arrays:
            if options:
                raise ValueError(f"{path} was written by Sequences.save and accepts no options, got {listed(options)}.")
            return restored(path, arrays)
        given = {_TABLE_ROLES.get(name, name): value for name, value in options.items()}
        usual = [name for name in ("values", "x", "X") if name in arrays]
        names = {"values": given.pop("values", (usual or list(arrays))[0])}
        names |= {role: given.pop(role) for role in _ROLES if role in given}
        named = {role: arrays[known_column(name, list(arrays), role, "arrays")] for role, name in names.items()}
        return self._series(named, given, f"; it holds {listed(arrays)}")


@register_reader
class Npy(_Arrays):
    """Single arrays."""

    suffixes = (".npy",)
    magic = b"\x93NUMPY"

    def read(self, path: Path, options: Options) -> Sequences:
        """Returns the series."""
        try:
            values = np.load(path, allow_pickle=False)
        except Exception as error:  # untrusted bytes
            raise ValueError(f"this is not a valid .npy file: {error}.") from error
        roles = [name for name in ("target", "id", "time", "group", "lengths") if name in options]
        if roles:
            raise ValueError(
                f"a .npy file is a single array, so {roles[0]}={options[roles[0]]!r} is not in it; save the arrays "
                "together with numpy.savez as an .npz file."
            )
        return self._series({"values": values}, options, "")
