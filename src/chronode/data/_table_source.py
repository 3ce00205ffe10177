"""Sources of tables for DuckDB: Parquet files as they are, databases, and other files by way of Parquet, in pieces."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from ..settings import SettingError, named
from ._cells import is_text
from ._columns import arrow
from ._csv import dialect_of
from ._many_files import check_same_columns, files_of, folders_of, tables_of
from ._names import counted, known_column, listed
from ._opening import first_line, opened, suffix_of
from ._readers import column_names

_PARQUET = (".parquet", ".pq")
_DATABASES = {"SQLite": (0, b"SQLite format"), "DuckDB": (8, b"DUCK")}
_ROWS = 1 << 17


def quoted(name: str) -> str:
    """Returns a name as SQL writes it.

    Example:
        >>> quoted("charted at")
        '"charted at"'
    """
    return '"' + name.replace('"', '""') + '"'


def database_of(source: str | Path) -> str:
    """Returns "DuckDB" or "SQLite" if the source is such a file; otherwise ""."""
    if not Path(source).is_file():
        return ""
    with Path(source).open("rb") as file:
        head = file.read(32)
    return next((name for name, (at, magic) in _DATABASES.items() if head[at:].startswith(magic)), "")


def table_in(
    connection: Any,
    source: str | Path,
    folder: Path,
    options: Mapping[str, Any],
    notes: list[str],
    *,
    table: str | None = None,
    query: str | None = None,
) -> str:
    """Returns what follows FROM in a query of DuckDB to read all rows of a source."""
    kind = database_of(source)
    if (table or query) and not kind:
        raise SettingError("a table or a query can be given only for a DuckDB or SQLite file.", argument="table")
    if kind == "DuckDB":
        return _attached(connection, source, table, query)
    if kind == "SQLite":
        return _parquet(_as_parquet(_sqlite(Path(source), table, query), folder))
    files = files_of(source)
    if all(suffix_of(file) in _PARQUET for file in files):
        return _partitioned(files, Path(source), options, notes)
    divided = partial(pieces, options=options, folder=folder)
    written = _as_parquet(tables_of(source, options, notes, divided), folder)
    if mixed := _mixed(written):  # numbers in one part and texts in another: the texts as they are written
        again = {**options, "texts": mixed}
        written = _as_parquet(tables_of(source, again, [], divided), folder)
    return _parquet(written)


def _attached(connection: Any, source: str | Path, table: str | None, query: str | None) -> str:
    """Returns what follows FROM in a query of DuckDB to read the rows of one of its files."""
    connection.execute(f"ATTACH {_text(source)} AS tables (READ_ONLY)")
    connection.execute("USE tables")
    names = [row[0] for row in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()]
    names += [row[0] for row in connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()]
    return f"({query.rstrip().rstrip(';')})" if query else f"tables.{quoted(_only(names, table))}"


def rows_of_database(source: Path, table: str | None, query: str | None) -> Any:
    """Returns the rows of a table, or of a query, as an Arrow table."""
    kind = database_of(source)
    if kind == "SQLite":
        parts = list(_sqlite(source, table, query))
        if not parts:
            raise ValueError("the table has no rows.")
        return arrow().concat_tables(parts, promote_options="permissive")
    if kind != "DuckDB":
        raise ValueError("this is neither a DuckDB nor an SQLite file.")
    try:
        import duckdb
    except ImportError:
        raise ImportError("DuckDB files need DuckDB: pip install 'chronode[scale]'") from None
    with duckdb.connect() as connection:
        try:
            return connection.sql(f"SELECT * FROM {_attached(connection, source, table, query)}").to_arrow_table()
        except duckdb.Error as error:
            raise ValueError(f"{first_line(error)}.") from error


def _text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _only(names: list[str], table: str | None) -> str:
    """Returns the table that was asked for, or the only one."""
    if table is not None:
        return known_column(table, names, "table", "tables")
    if len(names) != 1:
        raise SettingError(
            f"the database has {counted(len(names), 'table')} ({listed(names)}): name one of them, or give a query.",
            argument="table",
        )
    return names[0]


def _sqlite(path: Path, table: str | None, query: str | None) -> Iterator[Any]:
    """Yields the rows of a query of SQLite as Arrow tables."""
    pa = arrow()
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        try:
            rows = database.execute(query or f"SELECT * FROM {quoted(_only([row[0] for row in tables], table))}")
        except sqlite3.Error as error:
            raise ValueError(f"{path}: {first_line(error)}.") from error
        names = [column[0] for column in rows.description]
        while part := rows.fetchmany(_ROWS):
            try:
                yield pa.table([pa.array(column) for column in zip(*part, strict=True)], names=names)
            except pa.ArrowException as error:
                raise ValueError(f"{path}: a column has values of different types: {first_line(error)}.") from error


def _as_parquet(tables: Iterable[Any], folder: Path) -> list[Path]:
    """Writes tables to Parquet files, one at a time."""
    arrow()
    import pyarrow.parquet

    files = []
    for number, table in enumerate(tables):
        files.append(folder / f"part-{number:06}.parquet")
        pyarrow.parquet.write_table(_without_empty(table), files[-1], compression="lz4")
    if not files:
        raise ValueError("the table has no rows.")
    return files


def _without_empty(table: Any) -> Any:
    """Returns a table whose columns of text without any text are missing numbers, which suit any other part."""
    pa = arrow()
    for index, column in enumerate(table.columns):
        if is_text(column) and column.null_count == len(column):
            table = table.set_column(index, table.column_names[index], pa.nulls(len(column), pa.float64()))
    return table


def _mixed(files: Iterable[Path]) -> list[str]:
    """Returns the columns that are text in some files and numbers in others."""
    import pyarrow.parquet

    kinds: dict[str, set[bool]] = {}
    for file in files:
        table = pyarrow.parquet.ParquetFile(file)
        counts = [table.metadata.row_group(0).column(i).statistics for i in range(table.metadata.num_columns)]
        for field, facts in zip(table.schema_arrow, counts, strict=True):
            if facts is None or facts.null_count < table.metadata.row_group(0).num_rows:
                kinds.setdefault(field.name, set()).add(is_text(field))
    return [name for name, found in kinds.items() if len(found) > 1]


def _parquet(files: Iterable[Path], more: str = "") -> str:
    return f"read_parquet([{', '.join(map(_text, files))}], union_by_name = true{more})"


def _partitioned(files: list[Path], source: Path, options: Mapping[str, Any], notes: list[str]) -> str:
    """Returns the rows of Parquet files, with the columns of folders such as year=2024."""
    good, bad = [], []
    first: list[str] | None = None
    for file in files:
        names = column_names(file, options)
        if names is None:
            if not options.get("skip_bad"):
                raise ValueError(f"{file}: this is not a valid Parquet file; {named('skip_bad', True)} leaves it out.")
            bad.append(file.name)
            continue
        names += [name for name in folders_of(file, source) if name not in names]
        first = first or names
        check_same_columns(file, first, names)
        good.append(file)
    if first is None:
        raise ValueError(f"{source}: no file could be read: {listed(bad, most=3)}.")
    if bad:
        notes.append(f"left out because they cannot be read: {listed(bad, most=5)}.")
    folders = [folders_of(file, source) for file in good]
    types = {name: "BIGINT" if all(_is_whole(each[name]) for each in folders) else "VARCHAR" for name in folders[0]}
    hive = ", ".join(f"{quoted(name)}: {kind}" for name, kind in types.items())
    more = f", hive_partitioning = true, hive_types = {{{hive}}}" if types else ", hive_partitioning = false"
    return f"(SELECT {', '.join(map(quoted, first))} FROM {_parquet(good, more)})"


def _is_whole(text: str) -> bool:
    digits = text.lstrip("-")
    return text == "__HIVE_DEFAULT_PARTITION__" or (digits.isdecimal() and (digits == "0" or digits[0] != "0"))


SIZE = 1 << 26
"""Bytes of a piece."""
_TEXT = (".csv", ".tsv", ".txt", ".data", ".dat", ".psv", ".tab", ".log")


def pieces(path: Path, options: Mapping[str, Any], folder: Path, size: int = SIZE) -> Iterator[Path]:
    r"""Yields the file, or, if it is a large text table, files with its header and a part of its lines each.

    A piece is valid until the next one. Lines are cut where no quoted cell is open. Tables without a line of names,
    with comments or with aligned columns are not divided.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.csv").write_text("x,y\n1,2\n3,4\n")
        >>> [piece.read_text() for piece in pieces(folder / "a.csv", {}, folder, size=4)]
        ['x,y\n1,2\n', 'x,y\n3,4\n']
    """
    if suffix_of(path) not in _TEXT or options.get("names") or not _is_larger(path, 2 * size):
        yield path
        return
    dialect = dialect_of(path, *(options.get(name) for name in ("encoding", "delimiter", "comment")))
    special = dialect.comment or dialect.aligned or dialect.given_names or not dialect.named
    if special or dialect.encoding.lower().startswith("utf-16"):
        yield path
        return
    piece = folder / f"piece{suffix_of(path)}"
    with opened(path) as file:
        header, rest = _header(file, dialect.skip + 1)
        for lines in _cut(file, rest, size):
            piece.write_bytes(header + lines)
            yield piece
    piece.unlink()


def _is_larger(path: Path, size: int) -> bool:
    """Returns whether a file, unpacked, has more bytes."""
    with opened(path) as file:
        while size >= 0 and (block := file.read(min(size + 1, 1 << 20))):
            size -= len(block)
    return size < 0


def _header(file: Any, count: int) -> tuple[bytes, bytes]:
    """Returns the first lines of a file, and what else was read."""
    head = b""
    while head.count(b"\n") <= count and (block := file.read(1 << 16)):
        head += block
    end = 0
    for _ in range(count):
        end = head.find(b"\n", end) + 1
    return head[:end], head[end:]


def _cut(file: Any, rest: bytes, size: int) -> Iterator[bytes]:
    """Yields the rest of a file in parts of whole lines, of about `size` bytes."""
    most, more = size, True
    while True:
        while more and len(rest) <= most:
            block = file.read(most + 1 - len(rest))
            rest, more = rest + block, bool(block)
        if not more and len(rest) <= most:
            if rest.strip():
                yield rest
            return
        end = rest.rfind(b"\n", 0, most) + 1
        while end and rest.count(b'"', 0, end) % 2:  # within a quoted cell
            end = rest.rfind(b"\n", 0, end - 1) + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
        most = size if end else 2 * most
