"""Readers of files: their contract, their registry by suffix, and `read`, which any file goes through."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ..settings import SettingError, error_at, named
from ..system import load_installed
from ._channel_rows import from_channel_rows
from ._columns import OwnColumns, arrow, frame_names, is_frame
from ._labels import with_labels
from ._many_files import columns_of_many, is_many, read_many
from ._names import listed, related
from ._opening import PACKED, as_file, check_content, check_unpacked_size, is_pipe, opened, suffix_of
from ._sequences import Sequences
from ._settings import FILE_OPTIONS
from ._store import is_store, open_store, store_columns
from ._table import from_long, from_series_rows
from ._table_columns import source_columns
from ._times import NUMBER

_CURES = {".xls": " Save it as .xlsx."}
_CURES |= dict.fromkeys((".pkl", ".pickle"), " A pickle can run any program: save the frame with to_parquet.")

Kind = TypeVar("Kind", bound="type[Reader]")


class Reader:
    """Base class for readers of a kind of file; `register_reader` adds one.

    A reader turns a file into a table or into Sequences, and nothing else. If it returns a table, `chronode.data.read`
    applies the options of `from_long` (or of the other layouts) to it, so that ids, times, targets and missing values
    work as for any other file. `chronode.testing.check_reader` checks the contract:

    - `read` returns the same for the same content, wherever the file is, and changes neither file nor options.
    - Content that it cannot read is a ValueError that says what is wrong, with the row or line if there is one; `read`
      puts the name of the file in front. No content may run code: pickles are not read.
    - What it decides for the user is a note: return `(table, notes)`.

    Attributes:
        suffixes: Endings of the files in lower case, such as ".wav"; a compression such as .gz is not part of it.
        options: Names of the options that the reader uses itself. All others are those of the layout of a table.
        magic: First bytes that every such file has; b"" if they vary.

    Example:
        >>> import tempfile
        >>> @register_reader
        ... class Words(Reader):
        ...     suffixes = (".words",)
        ...
        ...     def read(self, path, options):
        ...         with self.open(path) as file:
        ...             return {"length": [len(word) for word in file.read().split()]}
        >>> path = Path(tempfile.mkdtemp()) / "a.words"
        >>> _ = path.write_text("to be or not")
        >>> read(path)[0].values[:, 0].tolist()
        [2.0, 2.0, 2.0, 3.0]
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[bytes] = b""

    def read(self, path: Path, options: Mapping[str, Any]) -> Any:
        """Returns what the file contains.

        Args:
            path: An existing file whose name ends with one of the suffixes.
            options: The options that the user gave; none of them is None.

        Returns:
            A table (anything that `from_long` takes), a table and notes about it, or Sequences. A reader that returns
            Sequences rejects options that it does not have.
        """
        raise NotImplementedError

    def columns(self, path: Path, options: Mapping[str, Any]) -> list[str] | None:
        """Returns the names of the columns; None for a file that is not a table, or that `read` rejects. By default,
        the file is read for it.
        """
        try:
            table, _ = _table_and_notes(self.read(path, {name: options[name] for name in options if name != "columns"}))
        except ValueError:
            return None
        return frame_names(table) if is_frame(table) else None

    def open(self, path: Path) -> Any:
        """Opens a file for reading its bytes, decompressed."""
        return opened(path)


_registry: dict[str, Reader] = {}


def register_reader(kind: Kind) -> Kind:
    """Makes `read`, and with it every command, use a reader for files with its suffixes; a decorator for classes."""
    if not kind.suffixes or any(suffix and not suffix.startswith(".") for suffix in kind.suffixes):
        raise ValueError(f"{kind.__name__}.suffixes must be endings of files such as '.wav', got {kind.suffixes!r}.")
    for suffix in kind.suffixes:
        taken = _registry.get(suffix)
        if taken is not None and type(taken).__qualname__ != kind.__qualname__:
            raise ValueError(f"files with the suffix {suffix} are read by {type(taken).__name__} already.")
    _registry.update(dict.fromkeys(kind.suffixes, kind()))
    return kind


def readers() -> dict[str, Reader]:
    """Returns suffix -> reader."""
    from . import _formats  # noqa: F401  # it registers the readers of this package

    return _registry


def reader_of(path: Path) -> Reader:
    """Returns the reader of a file; a suffix without one is an error."""
    suffix = suffix_of(path)
    if suffix not in readers():
        load_installed()
    reader = readers().get(suffix)
    if reader is None:
        endings = listed(filter(None, readers()), most=len(readers()))
        raise ValueError(
            f"{path}: files with the suffix {suffix} are not supported; use one of {endings}.{_CURES.get(suffix, '')}"
        )
    return reader


def column_names(path: Path, options: Mapping[str, Any]) -> list[str] | None:
    """Returns the columns of a table; None for other files, and for those that `read` will reject."""
    try:
        if is_store(path):
            return store_columns(path)
        return columns_of_many(path, options) if is_many(path) else reader_of(path).columns(path, options)
    except (ValueError, FileNotFoundError):
        return None


def read(path: str | Path, **options: Any) -> Sequences:
    r"""Reads a file as Sequences; its suffix selects the reader. docs/files.md shows all supported layouts.

    Args:
        path: The file, a folder or pattern of files with equal columns (`readings/*.parquet`), or "-" for the standard
            input:
            .csv, .tsv, .txt, .data, .dat, .psv, .tab, .log or no suffix (also .gz, .xz, .bz2, .zst, .zip): a text
            table with a header line;
            .parquet, .pq, .feather, .arrow, .xlsx: a table;
            .jsonl, .ndjson, .json: one object per row;
            .duckdb, .sqlite, .sqlite3, .db: a table of a database, `table` or the only one, or the rows of a query,
            `query_sql`;
            a store written by `pack`, whose values stay in its files;
            .ts: a file of the UEA, UCR or TSER archives;
            .npz: a file written by `Sequences.save`, or arrays; .npy: an array;
            the suffixes of your own readers (`register_reader`).
        options: None is the same as omitting an option. For tables, the options of `from_long`; with `channel` and
            `value` those of `from_channel_rows`; with `row_per_series=True` those of `from_series_rows`. The format of
            text is detected unless delimiter, decimal, thousands, encoding, comment or names (of the columns) are
            given; `sheet` selects the sheet of an Excel file; `labels` is a file or frame with the target (and weight)
            of each `id`, or of each id and `time`. For .ts, the options of `read_ts`. For arrays, those of
            `from_numpy`; in .npz, values, target, times, dt, lengths, ids and groups (or time, id and group) name
            arrays in the file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.csv"
        >>> _ = path.write_text("who,day,x\nann,2024-01-01,1.5\nann,2024-01-03,2\nbob,2024-01-01,3\n")
        >>> print(read(path, id="who", time="day").describe())
        3 rows → 2 series, 1-2 observations each, median gap: 2 days, 1 channel (x)
    """
    options = {name: value for name, value in options.items() if value is not None}
    if is_store(path):
        return open_store(path, **options)
    if is_many(path):
        return _from_table(*read_many(path, options), options)
    if not is_pipe(path):
        path = Path(path)
        if not path.is_file():
            others = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
            raise FileNotFoundError(f"{path}: no such file.{related(path.name, others)}")
    with as_file(path) as file:
        reader = reader_of(file)
        check_content(file, suffix_of(file), reader.suffixes, reader.magic)
        if file.suffix.lower() in PACKED:
            check_unpacked_size(file)
        with naming(file):
            table, notes = _table_and_notes(reader.read(file, dict(options)))
            if isinstance(table, Sequences):
                return table
            taken = [name for name in reader.options if name not in FILE_OPTIONS]
            return _from_table(table, notes, {name: value for name, value in options.items() if name not in taken})


def _from_table(table: Any, notes: Sequence[str], options: Mapping[str, Any]) -> Sequences:
    """Returns the series of a table that a reader returned."""
    names = list(getattr(table, "column_names", ()))
    if names and len(set(names)) == len(names):
        table = OwnColumns(zip(names, table.columns, strict=True))
    arrow().default_memory_pool().release_unused()  # what reading the text took, before the series take theirs
    s = read_frame(table, **options)
    return replace(s, notes=(*notes, *s.notes))


def read_frame(table: Any, /, **options: Any) -> Sequences:
    """Reads a frame as `read` reads a file that holds it; options for the format of a file are ignored."""
    notes: Sequence[str] = ()
    if options.get("labels") is not None:
        table, options, notes = with_labels(table, options)
    by_series = options.get("row_per_series")
    left_out = (*FILE_OPTIONS, "row_per_series")
    # Entries of `options_like` about the channel, which is not a column if every row is a series.
    left_out = (*left_out, "columns", "empty", "per_step") if by_series else left_out
    options = {name: value for name, value in options.items() if value is not None and name not in left_out}
    layout = from_series_rows if by_series else from_channel_rows if "channel" in options else from_long
    check_options(options, layout)
    return layout(table, **options).with_notes(*notes)


def _table_and_notes(content: Any) -> tuple[Any, Sequence[str]]:
    return content if isinstance(content, tuple) else (content, ())


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the file in front of the message of an error that does not name it yet."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        raise error_at(path, error) from error


def check_options(options: Mapping[str, Any], *constructors: Callable[..., Sequences]) -> None:
    """Rejects options that the constructors of these data do not have."""
    names = {name for constructor in constructors for name in _option_names(constructor)}
    wrong = [name for name in options if name not in names]
    if wrong:
        hint = related(wrong[0], sorted(names))
        raise SettingError(f"{named(wrong[0], ...)} is not an option for this kind of data.{hint}", argument=wrong[0])


@functools.cache
def _option_names(constructor: Callable[..., Sequences]) -> tuple[str, ...]:
    return tuple(inspect.signature(constructor).parameters)


def options_like(train: Sequences) -> dict[str, Any]:
    """Returns the options with which `read` or `from_long` gives another table the channels, units and classes of
    `train`.

    They can be stored as JSON. Usage: `read(new, id=..., time=..., **options_like(train))`.

    Example:
        >>> from chronode.data import from_long
        >>> train = from_long({"t": [0, 1], "x": [1, 2], "y": ["a", "b"]}, time="t", target="y")
        >>> options_like(train)["columns"], options_like(train)["classes"]
        (['x'], ['a', 'b'])
    """
    columns = source_columns(train.channels, train.categories)
    options: dict[str, Any] = {"columns": columns, "empty": "keep", "dtype": train.base_values.dtype.name}
    if train.static_names:
        options["static"] = source_columns(train.static_names, train.categories)
    if train.categories:
        if set(columns) & train.categories.keys():
            options["categorical"] = "codes" if any(name in train.channels for name in train.categories) else "onehot"
        options["categories"] = {name: list(texts) for name, texts in train.categories.items()}
    if train.base_times is not None:
        plain = (
            not train.clock.dates and train.clock.unit.replace(".", "").replace("e+", "").replace("e-", "").isdigit()
        )
        options["unit"] = train.clock.scale if plain else train.clock.unit
        if train.clock.format or not train.clock.dates:
            options["time_format"] = train.clock.format or NUMBER
    if train.target is not None:
        kind = "auto" if train.target.levels else train.target.kind  # the classes tell which target has some
        options |= {"kind": kind, "per_step": train.target.per_step}
        classes = train.target.levels or train.target.classes
        options["classes"] = (
            None if classes is None else [list(each) if isinstance(each, tuple) else each for each in classes]
        )
    return options
