"""Stores: series in a folder of arrays that are larger than memory, with checksums."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named
from ..storage import fingerprint, read_json, write_json
from ._many_files import STORE_HEADER as HEADER
from ._many_files import files_of, is_there
from ._names import listed
from ._npz import Head, array_header, head_of, sequences_of
from ._sequences import Sequences
from ._stored_rows import StoredRows
from ._table_columns import source_columns

FORMAT = "chronode-series"
VERSION = 1
PIECE = 1 << 24
"""Bytes of a file that have one checksum."""
_IN_FILES = ("values", "times")
_SAME = ("id", "time", "group", "weight", "duplicates", "missing_values", "categorical", "static")
_ROLES = ("id", "time", "group")


@dataclass(frozen=True)
class StoreHeader:
    """Content of header.json of a store.

    Attributes:
        format: `FORMAT`.
        version: `VERSION`.
        series: Number of series.
        rows: Number of rows of the tables that were packed.
        complete: Whether no value is missing.
        head: Channels, clock, categories, target and notes, as in .npz files.
        arrays: CRC-32 of each piece of 16 MiB of each array.
        options: Options of `read` with which the tables were read.
        source: Tables that were packed: path, and a hash of the names, sizes and times of the files.
    """

    format: str
    version: int
    series: int
    rows: int
    complete: bool
    head: Head
    arrays: dict[str, tuple[int, ...]]
    options: dict[str, Any] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)


def is_store(path: str | Path) -> bool:
    """Returns whether a path is a store of series.

    Example:
        >>> is_store("readings.csv")
        False
    """
    return (Path(path) / HEADER).is_file()


def read_header(path: str | Path) -> StoreHeader:
    """Reads the header of a store."""
    header = read_json(Path(path) / HEADER, StoreHeader)
    if (header.format, header.version) != (FORMAT, VERSION):
        raise ValueError(f"{path}: this is not a store of version {VERSION} but {header.format} {header.version}.")
    return header


def state_of(source: str | Path) -> str:
    """Returns a hash of the names, sizes and times of change of all files of a source."""
    files = [(str(file), file.stat()) for file in files_of(source)]
    lines = [f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\n" for name, facts in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


# ---- writing -----------------------------------------------------------------------------------------------


class StoreWriter:
    """Writes series to a new store, part by part; the first decides about channels, clock, target and types."""

    def __init__(self, folder: Path, first: Sequences):
        self.folder, self.first = folder, first
        self.rows, self.complete, self.notes = 0, True, dict.fromkeys(first.notes)
        self.files: dict[str, _ArrayFile] = {}
        self.by_series: dict[str, list[NDArray[Any]]] = {}

    def add(self, s: Sequences) -> None:
        """Appends series; their channels, clock and classes are those of the first part."""
        self.rows += len(s.base_values) if s.rows is None else s.rows
        self.complete = self.complete and not s.has_missing
        self.notes |= dict.fromkeys(s.notes)
        target = s.target
        by_step: dict[str, Any] = {"values": s.base_values, "times": s.base_times}
        by_series: dict[str, Any] = {"lengths": s.lengths, "ids": s.ids, "static": s.static, "weights": s.weights}
        if not np.array_equal(s.groups, s.ids):
            by_series["groups"] = s.groups
        if target is not None:
            goals = by_step if target.per_step else by_series
            goals |= {"target": target.values, "source": target.source}
        for name, array in by_step.items():
            if array is not None:
                self._file(name).write(array)
        for name, array in by_series.items():
            if array is not None:
                self.by_series.setdefault(name, []).append(array)

    def finish(self, options: Mapping[str, Any], source: Mapping[str, str]) -> None:
        """Writes what belongs to the series, and the header."""
        for name, arrays in self.by_series.items():
            self._file(name).write(_together(arrays))
        head = head_of(self.first.with_notes(*list(self.notes)[len(self.first.notes) :]))
        content = {
            "format": FORMAT,
            "version": VERSION,
            "series": sum(map(len, self.by_series["lengths"])),
            "rows": self.rows,
            "complete": self.complete,
            "head": head,
            "arrays": {name: file.close() for name, file in self.files.items()},
            "options": dict(options),
            "source": dict(source),
        }
        write_json(self.folder / HEADER, content)

    def _file(self, name: str) -> _ArrayFile:
        if name not in self.files:
            self.files[name] = _ArrayFile(self.folder / f"{name}.npy")
        return self.files[name]


def _together(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    if any(array.dtype.kind == "U" for array in arrays):
        arrays = [array.astype(str) for array in arrays]
    return np.concatenate(arrays)


class _ArrayFile:
    """An .npy file that grows; its header has room for any number of rows."""

    def __init__(self, path: Path):
        self.file, self.rows, self.sums = path.open("wb"), 0, []
        self.shape: tuple[int, ...] = ()
        self.dtype = np.dtype(np.float32)
        self.inside = 0

    def write(self, array: NDArray[Any]) -> None:
        """Appends rows."""
        if not self.rows:
            self.shape, self.dtype = array.shape[1:], array.dtype
            self._write_header()
        data = np.ascontiguousarray(array, self.dtype).data.cast("B")
        self.rows += len(array)
        self.file.write(data)
        while len(data):
            if not self.inside:
                self.sums.append(0)
            part = data[: PIECE - self.inside]
            self.sums[-1] = zlib.crc32(part, self.sums[-1])
            self.inside = (self.inside + len(part)) % PIECE
            data = data[len(part) :]

    def close(self) -> list[int]:
        """Completes the header; returns the checksums of the pieces."""
        self.file.seek(0)
        self._write_header()
        self.file.close()
        return self.sums

    def _write_header(self) -> None:
        head = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.shape)}
        np.lib.format.write_array_header_1_0(self.file, head)


# ---- reading -----------------------------------------------------------------------------------------------


def open_store(path: str | Path, **options: Any) -> Sequences:
    """Returns the series of a store; values and times stay in its files until they are used.

    Args:
        path: Folder of the store.
        options: Options of `read`; those about the table must be those with which it was packed.
    """
    path, header = Path(path), read_header(path)
    _check_options(path, header, options)
    arrays: dict[str, Any] = {}
    for name in header.arrays:
        rows = _rows(path / f"{name}.npy", complete=header.complete)
        arrays[name] = rows if name in _IN_FILES else np.load(path / f"{name}.npy", allow_pickle=False)
    lengths = arrays["lengths"].astype(np.int64)
    arrays |= {"starts": np.cumsum(lengths) - lengths, "groups": arrays.get("groups", arrays["ids"])}
    try:
        s = replace(sequences_of(header.head, arrays), rows=header.rows)
    except ValueError as error:
        raise ValueError(f"{path}: this is not a valid store: {error}") from error
    if options.get("classes") is not None and "target" in options:
        s = s.with_classes(options["classes"])
    return s.with_notes(*_source_notes(path, header))


def _rows(path: Path, *, complete: bool) -> StoredRows:
    """Returns the rows of an array whose size matches its header."""
    try:
        with path.open("rb") as file:
            shape, by_column, dtype = array_header(file, path.name)
            offset = file.tell()
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: this is not a valid array: {error}.") from error
    size = offset + dtype.itemsize * int(np.prod(shape))
    if by_column or path.stat().st_size != size:
        raise ValueError(f"{path}: the file has {path.stat().st_size:,} bytes instead of {size:,}: pack it again.")
    return StoredRows(path, dtype, shape, offset, complete=complete)


def _source_notes(path: Path, header: StoreHeader) -> list[str]:
    """Returns a note if the tables have changed since they were packed."""
    source = header.source.get("path", "")
    if not is_there(source) or state_of(source) == header.source.get("state"):
        return []
    return [f"{source} has changed since {path.name} was packed: `chronode data pack --force` packs it again."]


def store_columns(path: str | Path) -> list[str]:
    """Returns the columns of the tables that a store was packed from, as far as they are in it."""
    header = read_header(path)
    head, roles = header.head, [header.options[role] for role in _ROLES if role in header.options]
    target = () if head.target is None else head.target.names
    return [*roles, *target, *source_columns((*head.channels, *head.static_names), head.categories)]


def _check_options(path: Path, header: StoreHeader, options: Mapping[str, Any]) -> None:
    """Rejects options that say something else than those of packing."""
    target = () if header.head.target is None else header.head.target.names
    packed = {**header.options, "target": list(target)}
    for name in (*_SAME, "target"):
        given = options.get(name)
        plain = [given] if isinstance(given, str) and name in ("target", "static", "missing_values") else given
        if plain and packed.get(name) != (list(plain) if isinstance(plain, tuple) else plain):
            raise SettingError(
                f"{path} was packed with {named(name, packed.get(name))}, not with {named(name, given)}: omit it, or "
                "pack the tables again.",
                argument=name,
            )
    if options.get("labels") is not None:
        raise SettingError(f"{path} has its target in it: omit {named('labels')}.", argument="labels")
    columns = source_columns(header.head.channels, header.head.categories)
    if options.get("columns") and list(options["columns"]) != columns:
        raise SettingError(
            f"{path} has the columns {listed(columns)}, not {listed(options['columns'])}: pack the tables again.",
            argument="columns",
        )


def check_store(path: str | Path) -> list[str]:
    """Reads all arrays of a store; returns a line for each piece that differs from its checksum."""
    path, header = Path(path), read_header(path)
    wrong = []
    for name, sums in header.arrays.items():
        rows = _rows(path / f"{name}.npy", complete=True)
        with rows.path.open("rb") as file:
            file.seek(rows.offset)
            checksums = [zlib.crc32(piece) for piece in iter(lambda file=file: file.read(PIECE), b"")]
        bad = [i for i, (one, other) in enumerate(zip(checksums, sums, strict=False)) if one != other]
        wrong += [f"{name}.npy: piece {i + 1} of {len(sums)} is damaged" for i in bad]
        wrong += [f"{name}.npy: {len(checksums)} pieces instead of {len(sums)}"] if len(checksums) != len(sums) else []
    return wrong


def made_from(
    path: str | Path,
    source: str | Path,
    options: Mapping[str, Any],
    *,
    table: str | None = None,
    query: str | None = None,
) -> bool:
    """Returns whether a store was packed from a source as it is now, with these options; arguments as for `pack`."""
    source_facts = read_header(path).source
    return source_facts.get("asked") == question(options, table, query) and source_facts.get("state") == state_of(
        source
    )


def question(options: Mapping[str, Any], table: str | None, query: str | None) -> str:
    """Returns a hash of what was asked of `pack`."""
    return fingerprint({"table": table, "query": query, **plain_options(options)})


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that were given, as plain data for JSON."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    return {name: value for name, value in plain.items() if value is not None and value != []}
