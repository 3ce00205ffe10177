"""Packing: tables of any size become a store of series, sorted out of core by DuckDB."""

from __future__ import annotations

import shutil
import threading
import time as clock
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..settings import SettingError, error_at, named
from ..storage import replacing_folder
from ._columns import arrow
from ._opening import first_line
from ._readers import options_like, read_frame
from ._sequences import Sequences
from ._settings import FILE_OPTIONS
from ._store import StoreWriter, plain_options, question, state_of
from ._survey import Survey
from ._table_source import quoted, table_in

CHUNK = 1 << 20
"""Rows that are converted to series at a time; a longer series is converted as a whole."""
_ROW = "chronode row"
_BATCH = 1 << 17
_OTHER_LAYOUTS = ("row_per_series", "channel", "value", "order", "lengths")
_SECONDS = 0.2

Progress = Callable[[str, float, int], None]
"""Called with what is being done, the share that is done from 0 to 1, and the number of rows of which it is a share."""


def pack(
    source: str | Path,
    path: str | Path,
    *,
    table: str | None = None,
    query: str | None = None,
    memory: str = "1GB",
    on_progress: Progress | None = None,
    **options: Any,
) -> Path:
    r"""Sorts the rows of tables into series, out of core, and writes them to a store that `read` opens.

    Nothing is written to `path` until all of it is on the disk. It needs DuckDB: pip install 'chronode[scale]'.

    Args:
        source: A table in a file, a folder or pattern of files, a partitioned Parquet set, or a DuckDB or SQLite file.
        path: Folder to write, by convention with the suffix .series; a store that is there is replaced.
        table: Table of a database.
        query: SQL query of a database, in place of a table.
        memory: Memory that the sort may use before it writes to the disk.
        on_progress: Called a few times per second.
        options: Options of `read` for tables with a row per id and time.

    Example:
        >>> import tempfile
        >>> from chronode.data import read
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name, rows in (("1.csv", "b,0,1"), ("2.csv", "a,3,2\na,1,4")):
        ...     _ = (folder / name).write_text(f"who,t,x\n{rows}\n")
        >>> s = read(pack(folder, folder / "all.series", id="who", time="t"))
        >>> s.ids.tolist(), s[0].values[:, 0].tolist()
        (['a', 'b'], [4.0, 2.0])
    """
    asked = plain_options(options)
    if wrong := [name for name in _OTHER_LAYOUTS if name in asked]:
        raise SettingError(
            f"{named(wrong[0], asked[wrong[0]])}: only tables with a row per id and time can be packed.",
            argument=wrong[0],
        )
    if "labels" in asked:
        raise SettingError(
            f"{named('labels', asked['labels'])} cannot be packed",
            argument="labels",
            cure="join the labels first, for example in a query of DuckDB",
        )
    path, notes = Path(path), []
    facts = {"path": str(Path(source).absolute()), "state": state_of(source)}
    facts["asked"] = question(asked, table, query)
    with replacing_folder(path) as draft:
        with _database(draft / "sort", memory) as connection, naming_source(source):
            rows = table_in(connection, source, draft / "sort", asked, notes, table=table, query=query)
            meant = {name: asked[name] for name in asked if name not in FILE_OPTIONS}
            survey = Survey.of(connection, rows, meant, at_once=CHUNK)
            show = _Shown(on_progress, survey.rows)
            writer = _written(_sorted(connection, rows, survey, show), survey, draft, show, notes)
        writer.finish({name: asked[name] for name in asked if name != "target"}, facts)
    return path


class _Shown:
    """Progress in two halves: sorting, whose share another thread asks for, and writing."""

    def __init__(self, on_progress: Progress | None, rows: int):
        self.on_progress, self.rows, self.shown = on_progress, rows, -_SECONDS

    def __call__(self, what: str, share: float) -> None:
        now = clock.monotonic()
        if self.on_progress is not None and now - self.shown >= _SECONDS:
            self.shown = now
            self.on_progress(what, share, self.rows)

    @contextmanager
    def watching(self, connection: Any) -> Iterator[None]:
        """Shows how far the sort is, while it runs."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_SECONDS):
                self("sorting", 0.5 * max(0.0, min(connection.query_progress(), 100.0)) / 100)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def _database(folder: Path, memory: str) -> Iterator[Any]:
    """Yields a DuckDB connection that writes what does not fit into memory to a folder, which is removed."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise ImportError("packing needs duckdb: pip install 'chronode[scale]'") from None
    folder.mkdir()
    settings: dict[str, Any] = {"memory_limit": memory, "temp_directory": str(folder), "preserve_insertion_order": True}
    connection = duckdb.connect(config=settings)
    # It reports its progress, and prints none of its own.
    connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
    try:
        yield connection
    except duckdb.Error as error:
        raise ValueError(first_line(error)) from error
    finally:
        connection.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def naming_source(source: str | Path) -> Iterator[None]:
    """Puts the source in front of the message of an error that does not name it."""
    try:
        yield
    except ValueError as error:
        if str(source) in str(error):
            raise
        raise error_at(source, error) from error


def _sorted(connection: Any, rows: str, survey: Survey, show: _Shown) -> Iterator[Any]:
    """Yields tables of whole series, ordered by id and then by the order of the rows in the source."""
    pa, id = arrow(), survey.options.get("id")
    columns = ", ".join(map(quoted, survey.columns))
    order = f"{quoted(id)}, {quoted(_ROW)}" if id else quoted(_ROW)
    numbered = f"(SELECT {columns}, row_number() OVER () AS {quoted(_ROW)} FROM {rows})"
    with show.watching(connection):
        reader = connection.sql(f"SELECT {columns} FROM {numbered} ORDER BY {order}").to_arrow_reader(_BATCH)
        first = next(reader, None)
    waiting, count = [] if first is None else [first], 0 if first is None else first.num_rows
    for batch in reader:
        if id and count >= CHUNK:
            table = pa.Table.from_batches([*waiting, batch])
            cut = last_change(table[id])
            if cut:
                yield table.slice(0, cut)
                table = table.slice(cut)
            waiting, count = table.to_batches(), table.num_rows
        else:
            waiting.append(batch)
            count += batch.num_rows
    yield pa.Table.from_batches(waiting, reader.schema)


def last_change(column: Any) -> int:
    """Returns the row at which the last id of a sorted column begins.

    Example:
        >>> last_change(arrow().chunked_array([["a", "a"], ["b"]])), last_change(arrow().chunked_array([["a", "a"]]))
        (2, 0)
    """
    low, high, last = 0, len(column) - 1, column[len(column) - 1]
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if column[middle].equals(last) else (middle + 1, high)
    return low


def _written(tables: Iterator[Any], survey: Survey, folder: Path, show: _Shown, notes: list[str]) -> StoreWriter:
    """Converts tables to series and writes them; the first decides about the unit of time."""
    writer, done, options = None, 0, dict(survey.options)
    for table in tables:
        s = _series(table, options, survey)
        if writer is None:
            like = {"origin": s.clock.origin, **options_like(s)}
            options |= {
                name: like[name]
                for name in ("unit", "time_format", "origin")
                if name in like and s.base_times is not None
            }
            writer = StoreWriter(folder, replace(s, notes=(*notes, *survey.notes, *s.notes)))
        writer.add(s)
        done += table.num_rows
        show("writing", 0.5 + 0.5 * done / max(survey.rows, 1))
    assert writer is not None
    return writer


def _series(table: Any, options: Mapping[str, Any], survey: Survey) -> Sequences:
    """Converts one table of whole series; an error names the series of the rows that it counts."""
    try:
        s = read_frame(dict(zip(table.column_names, table.columns, strict=True)), **options)
    except ValueError as error:
        id = options.get("id")
        if id is None or table.num_rows == survey.rows:
            raise
        where = f"{id} {table[id][0]} to {table[id][table.num_rows - 1]}, rows counted within these"
        raise error_at(where, error) from error
    # Notes on a part count within it; those on all rows are in the survey.
    return s if survey.whole else replace(s, notes=())
