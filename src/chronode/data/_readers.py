"""Reading of any supported file; its suffix selects the reader."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ._arrays import from_list, from_numpy
from ._channel_rows import from_channel_rows
from ._columns import OwnColumns, arrow
from ._formats import FILE_OPTIONS, LOADERS, load_table
from ._names import known_column, listed, related
from ._npz import read_arrays, restored
from ._opening import PACKED, as_file, is_pipe, suffix_of
from ._sequences import Sequences
from ._table import from_long, from_series_rows
from ._table_columns import source_columns
from ._times import NUMBER
from ._ts_format import read_ts

# First bytes of common files, to recognize files with a wrong suffix.
_MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive (or an .npz or .xlsx file)",
    b"\x1f\x8b": "gzip data",
    b"\xfd7zXZ": "xz data",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "an .npy array",
    b"SQLite format": "an SQLite database",
    b"\x7fELF": "a program",
    b"<!DOCTYPE": "a web page (a failed download?)",
    b"<!doctype": "a web page (a failed download?)",
    b"<html": "a web page (a failed download?)",
    b"version https://": "a Git LFS pointer (`git lfs pull` downloads the file)",
}
# Required first bytes by suffix.
_EXPECTED = {
    **dict.fromkeys((".parquet", ".pq"), b"PAR1"),
    **dict.fromkeys((".npz", ".xlsx", ".xlsm"), b"PK"),
    ".npy": b"\x93NUMPY",
}
_CURES = {".xls": " Save it as .xlsx."}
_CURES |= dict.fromkeys((".pkl", ".pickle"), " A pickle can run any program: save the frame with to_parquet.")
_PACKED = {b"\x1f\x8b": ".gz", b"\xfd7zXZ": ".xz"}
_ARROW = (".feather", ".arrow", ".ipc")  # an Arrow stream has no magic bytes
_OF_THE_FILE = (*FILE_OPTIONS, "row_per_series")
_ARRAYS = {"id": "ids", "time": "times", "group": "groups"}  # table options -> names of arrays


def read(path: str | Path, **options: Any) -> Sequences:
    r"""Reads a file as Sequences; its suffix selects the reader. docs/files.md shows all supported layouts.

    Args:
        path: The file, or "-" for the standard input:
            .csv, .tsv, .txt, .data, .dat, .psv, .tab, .log or no suffix (also .gz, .xz, .bz2, .zst, .zip): a text
            table with a header line;
            .parquet, .pq, .feather, .arrow, .xlsx: a table;
            .jsonl, .ndjson, .json: one object per row;
            .ts: a file of the UEA, UCR or TSER archives;
            .npz: a file written by `Sequences.save`, or arrays; .npy: an array.
        options: None is the same as omitting an option. For tables, the options of `from_long`; with `channel` and
            `value` those of `from_channel_rows`; with `row_per_series=True` those of `from_series_rows`. The format of
            text is detected unless delimiter, decimal, thousands, encoding, comment or names (of the columns) are
            given; `sheet` selects the sheet of an Excel file. For .ts, the options of `read_ts`. For arrays, those of
            `from_numpy`; in .npz, values, target, times, dt, lengths, ids and groups (or time, id and group) name
            arrays in the file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.csv"
        >>> _ = path.write_text("who,day,x\nann,2024-01-01,1.5\nann,2024-01-03,2\nbob,2024-01-01,3\n")
        >>> print(read(path, id="who", time="day").describe())
        3 rows → 2 series, 1-2 observations each, median gap: 2 days, 1 channel (x)
    """
    given = {name: value for name, value in options.items() if value is not None}
    if is_pipe(path):
        with as_file(path) as file:
            return _read(file, given)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file.")
    if not path.is_file():
        known = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"{path}: no such file.{related(path.name, known)}")
    return _read(path, given)


def _read(path: Path, options: dict[str, Any]) -> Sequences:
    suffix = suffix_of(path)
    reader = _READERS.get(suffix)
    if reader is None:
        hint = _CURES.get(suffix, "")
        known = listed(filter(None, _READERS), most=len(_READERS))
        raise ValueError(f"{path}: files with the suffix {suffix} are not supported; use one of {known}.{hint}")
    if path.suffix.lower() not in PACKED:
        _check_content(path, suffix)
    return reader(path, options)


class LikeOptions(TypedDict, total=False):
    """Result of `options_like`, as stored in JSON."""

    columns: list[str]
    static: list[str]
    empty: str
    dtype: str
    categorical: str
    categories: dict[str, list[str]]
    unit: str | float
    time_format: str
    kind: str
    per_step: bool
    classes: list[str] | None


class ReadOptions(LikeOptions, total=False):
    """Options of `read` that give other data the meaning of the training data, as stored in JSON."""

    id: str
    time: str
    group: str
    ignore: list[str]
    channel: str
    value: str
    duplicates: str
    order: str
    lengths: str
    missing_values: list[str]
    row_per_series: bool
    sheet: str
    delimiter: str
    decimal: str
    thousands: str
    names: list[str]
    encoding: str
    comment: str


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
        options |= {"kind": train.target.kind, "per_step": train.target.per_step}
        options["classes"] = None if train.target.classes is None else list(train.target.classes)
    return options


def _check_content(path: Path, suffix: str) -> None:
    """Rejects a file whose first bytes belong to another format."""
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise ValueError(f"{path}: the file is empty.")
    found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    expected = _EXPECTED.get(suffix)
    if expected is not None and not head.startswith(expected):
        raise ValueError(f"{path}: this is not a {suffix} file but {found or f'begins with {head!r}'}.")
    if expected is None and found is not None and not (suffix in _ARROW and found == "an Arrow file"):
        packed = next((own for magic, own in _PACKED.items() if head.startswith(magic)), "")
        cure = f" Rename it to {path.name}{packed}." if packed else ""
        raise ValueError(f"{path}: this is not a {suffix or 'text'} file but {found}.{cure}")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Puts the file in front of the message of an error."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _check_options(options: dict[str, Any], *readers: Callable[..., Sequences]) -> None:
    """Rejects options that the readers of these data do not have."""
    known = {name for reader in readers for name in _option_names(reader)}
    wrong = [name for name in options if name not in known]
    if wrong:
        hint = related(wrong[0], sorted(known))
        raise ValueError(f"{wrong[0]}=... is not an option for this kind of data.{hint}")


@functools.cache
def _option_names(reader: Callable[..., Sequences]) -> tuple[str, ...]:
    return tuple(inspect.signature(reader).parameters)


def read_frame(table: Any, **options: Any) -> Sequences:
    """Reads a frame as `read` reads a file that holds it; options for the format of a file are ignored."""
    own = {name: value for name, value in options.items() if value is not None and name not in _OF_THE_FILE}
    reader: Callable[..., Sequences] = from_channel_rows if "channel" in own else from_long
    if options.get("row_per_series"):
        reader = from_series_rows
        # Entries of `options_like` about the channel, which is not a column here.
        own = {name: value for name, value in own.items() if name not in ("columns", "empty", "per_step")}
    _check_options(own, reader)
    return reader(table, **own)


def _table(path: Path, options: dict[str, Any]) -> Sequences:
    table, notes = load_table(path, options)
    if hasattr(table, "column_names") and len(set(table.column_names)) == len(table.column_names):
        table = OwnColumns(zip(table.column_names, table.columns, strict=True))
    arrow().default_memory_pool().release_unused()  # what reading the text took, before the series take theirs
    with _naming(path):
        made = read_frame(table, **options)
    return replace(made, notes=(*notes, *made.notes))


def _ts(path: Path, options: dict[str, Any]) -> Sequences:
    # `options_like` also contains what the file itself states.
    known = {"columns": "channels", "kind": "", "per_step": "", "time_format": "", **dict.fromkeys(FILE_OPTIONS, "")}
    own = {known.get(name, name): value for name, value in options.items()}
    own.pop("", None)
    wrong = [name for name in own if name not in ("channels", "classes", "unit", "dtype", "duplicates", "empty")]
    if wrong:
        raise ValueError(f"{path}: a .ts file has no columns to select; omit {listed(wrong)}.")
    return read_ts(path, **own)


def _npz(path: Path, options: dict[str, Any]) -> Sequences:
    arrays = read_arrays(path)
    if "json" in arrays:
        if options:
            raise ValueError(f"{path} was written by Sequences.save and accepts no options, got {listed(options)}.")
        return restored(path, arrays)
    options = {_ARRAYS.get(name, name): value for name, value in options.items()}
    usual = [name for name in ("values", "x", "X") if name in arrays]
    named = {"values": options.pop("values", (usual or list(arrays))[0])}
    for role in ("target", "times", "dt", "lengths", "ids", "groups"):
        if role in options:
            named[role] = options.pop(role)
    found = {role: arrays[known_column(name, list(arrays), role, "arrays")] for role, name in named.items()}
    return _from_arrays(path, found, options, f"; it holds {listed(arrays)}")


def _npy(path: Path, options: dict[str, Any]) -> Sequences:
    try:
        values = np.load(path, allow_pickle=False)
    except Exception as error:  # untrusted bytes
        raise ValueError(f"{path}: this is not a valid .npy file: {error}.") from error
    roles = [name for name in ("target", "id", "time", "group", "lengths") if name in options]
    if roles:
        raise ValueError(
            f"{path}: a .npy file is a single array, so {roles[0]}={options[roles[0]]!r} is not in it; save the arrays "
            "together with numpy.savez as an .npz file."
        )
    return _from_arrays(path, {"values": values}, options, "")


def _from_arrays(path: Path, arrays: dict[str, Any], options: dict[str, Any], what: str) -> Sequences:
    own = {name: value for name, value in options.items() if name not in (*FILE_OPTIONS, "time_format")}
    orders = {2: "'NT' (a row per series), order='TD' (a row per step) or order='DT'", 3: "'NTD' or order='NDT'"}
    axes = arrays["values"].ndim
    if "order" not in own and axes in orders:
        raise ValueError(f"{path}: the order of its axes is required: order={orders[axes]}{what}.")
    with _naming(path):
        _check_options(own, from_numpy, from_list)
        return from_numpy(**arrays, **own)


_READERS: dict[str, Callable[[Path, dict[str, Any]], Sequences]] = {
    **dict.fromkeys(LOADERS, _table),
    ".ts": _ts,
    ".npz": _npz,
    ".npy": _npy,
}
