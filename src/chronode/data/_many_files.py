"""Many files as one table: a folder, a pattern such as readings/*.parquet, or a partitioned set."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..storage import hash_of
from ._columns import arrow, frame_names
from ._csv import DECIMAL_COMMA
from ._names import listed
from ._opening import check_content, check_unpacked_size, first_line, suffix_of
from ._sequences import Sequences

STORE_HEADER = "header.json"
"""File that makes a folder a store of series."""
_WILD = frozenset("*?[")


def is_many(source: str | Path) -> bool:
    """Returns whether a source is a folder or a pattern of files; a store is neither.

    Example:
        >>> is_many("readings/*.parquet"), is_many("readings.csv")
        (True, False)
    """
    if (Path(source) / STORE_HEADER).is_file():
        return False
    return Path(source).is_dir() or (bool(_WILD & set(str(source))) and not Path(source).exists())


def is_there(source: str | Path) -> bool:
    """Returns whether a source is a file, a folder, or a pattern that fits a file."""
    if not str(source):
        return False
    return Path(source).exists() or (is_many(source) and bool(glob.glob(str(source), recursive=True)))


def files_of(source: str | Path) -> list[Path]:
    """Returns the files of a folder with its subfolders, of a pattern, or the file itself, in the order of names.

    Hidden files, and those whose name begins with "_" as Spark's _SUCCESS, are left out.
    """
    if Path(source).is_file():
        return [Path(source)]
    if Path(source).is_dir():
        inside = [path.relative_to(source) for path in Path(source).rglob("*")]
        paths = [Path(source) / path for path in inside if not any(part[0] in "._" for part in path.parts)]
    else:
        paths = [Path(name) for name in glob.glob(str(source), recursive=True)]
    files = sorted(path for path in paths if path.is_file())
    if not files:
        raise FileNotFoundError(f"{source}: there are no files.")
    return files


def size_and_hash(source: str | Path) -> tuple[int, str]:
    """Returns the size and the hash of a file; of many files the total size and a hash of names and contents."""
    if (Path(source) / STORE_HEADER).is_file():  # it has the checksums of all arrays
        return sum(file.stat().st_size for file in Path(source).iterdir()), hash_of(Path(source) / STORE_HEADER)
    if not is_many(source):
        return Path(source).stat().st_size, hash_of(source)
    digest, size = hashlib.sha256(), 0
    for file in files_of(source):
        size += file.stat().st_size
        digest.update(f"{file.name}\0{hash_of(file)}\n".encode())
    return size, digest.hexdigest()


def tables_of(
    source: str | Path,
    options: Mapping[str, Any],
    notes: list[str],
    divided: Callable[[Path], Iterable[Path]] = lambda file: [file],
) -> Iterator[Any]:
    """Yields the content of each file as an Arrow table, with equal columns in the order of the first; adds notes.

    Folders named NAME=VALUE add a column, as in partitioned Parquet sets. With the option `skip_bad`, files that cannot
    be read are left out with a note.
    """
    count, bad = 0, []
    names: list[str] | None = None
    for file in files_of(source):
        own, begun, rows, parts = dict(options), False, 0, iter(divided(file))
        while True:
            try:
                if (part := next(parts, None)) is None:
                    break
                table, remarks = _table_of(part, file, source, own)
            except (ValueError, OSError) as error:
                if begun or not options.get("skip_bad"):
                    raise
                bad.append(f"{file.name} ({first_line(error)})")
                break
            names = names or table.column_names
            if begun and table.column_names != names:  # its first lines look like another header
                last = f"a line after row {rows:,} has more or fewer than {len(names)} cells"
                raise ValueError(f"{file}: {last}, or is not a line of this table.")
            check_same_columns(file, names, table.column_names)
            yield table.select(names)
            notes += [note for remark in remarks if (note := f"{file.name}: {remark}") not in notes]
            own |= {"decimal": ","} if DECIMAL_COMMA in remarks else {}
            count, begun, rows = count + (not begun), True, rows + table.num_rows
    if not count:
        raise ValueError(f"{source}: no file could be read: {listed(bad, most=3)}.")
    if bad:
        notes.append(f"left out because they cannot be read: {listed(bad, most=5)}.")
    if is_many(source):
        notes.append(f"{count:,} files were joined.")


def _table_of(part: Path, file: Path, source: str | Path, options: Mapping[str, Any]) -> tuple[Any, Sequence[str]]:
    """Returns the Arrow table of one file of a source, or of a part of it, and remarks on it."""
    from ._readers import naming, reader_of

    if part != file:
        try:
            table, remarks = _table_of(part, part, part, options)
        except ValueError as error:
            raise ValueError(f"{file}, in a part of it: {str(error).replace(f'{part}: ', '')}") from error
        return _with_folders(table, file, Path(source)), remarks
    with naming(file):
        reader = reader_of(file)
        check_content(file, suffix_of(file), reader.suffixes, reader.magic)
        check_unpacked_size(file)
        content = reader.read(file, dict(options))
        table, remarks = content if isinstance(content, tuple) else (content, ())
        if isinstance(table, Sequences):
            raise ValueError("only tables can be joined, and this file is not one.")
        return _with_folders(_as_arrow(table), file, Path(source)), remarks


def read_many(source: str | Path, options: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Returns (one Arrow table of all files, notes); as for `tables_of`."""
    pa, notes = arrow(), []
    tables = list(tables_of(source, options, notes))
    try:
        return pa.concat_tables(tables, promote_options="permissive"), notes
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{source}: the files have columns of different kinds: {first_line(error)}.") from error


def columns_of_many(source: str | Path, options: Mapping[str, Any]) -> list[str] | None:
    """Returns the columns of the first file, and those of its folders."""
    from ._readers import column_names

    first = files_of(source)[0]
    names = column_names(first, options)
    return None if names is None else [*names, *(name for name in folders_of(first, Path(source)) if name not in names)]


def _as_arrow(table: Any) -> Any:
    """Returns a table of Arrow, of whatever the reader returned."""
    pa = arrow()
    if isinstance(table, pa.Table):
        return table
    return pa.table({name: pa.array(table[name]) for name in frame_names(table)})


def folders_of(file: Path, source: Path) -> dict[str, str]:
    """Returns the names and values of folders such as year=2024 between the source and a file."""
    base = source if source.is_dir() else Path(*_before_wild(source.parts))
    parts = file.relative_to(base).parts[:-1] if file.is_relative_to(base) else ()
    pairs = [part.split("=", 1) for part in parts if "=" in part]
    return {name: unquote(value) for name, value in pairs}


def _before_wild(parts: tuple[str, ...]) -> list[str]:
    """Returns the parts of a path before the first that is a pattern."""
    fixed: list[str] = []
    for part in parts:
        if _WILD & set(part):
            break
        fixed.append(part)
    return fixed


def _with_folders(table: Any, file: Path, source: Path) -> Any:
    """Adds the columns of folders such as year=2024; numbers become numbers."""
    pa = arrow()
    for name, value in folders_of(file, source).items():
        if name in table.column_names:
            continue
        missing = value == "__HIVE_DEFAULT_PARTITION__"
        whole = value.lstrip("-").isdecimal() and (value == "0" or not value.lstrip("-").startswith("0"))
        constant = pa.scalar(None if missing else int(value) if whole else value)
        table = table.append_column(name, pa.repeat(constant, table.num_rows))
    return table


def check_same_columns(file: Path, names: Sequence[str], others: Sequence[str]) -> None:
    """Rejects a file with other columns than the first."""
    missing, new = [name for name in names if name not in others], [name for name in others if name not in names]
    parts = [f"{listed(missing)} missing"] if missing else []
    parts += [f"{listed(new)} only here"] if new else []
    if parts:
        raise ValueError(
            f"{file}: its columns are not those of the first file: {'; '.join(parts)}. Use files with equal columns."
        )
