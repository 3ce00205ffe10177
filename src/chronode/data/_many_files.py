"""Many files as one table: a folder, a pattern such as readings/*.parquet, or a partitioned set."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..storage import hash_of
from ._columns import arrow, frame_names
from ._names import listed
from ._opening import check_content, check_unpacked_size, first_line, suffix_of
from ._sequences import Sequences

_WILD = frozenset("*?[")


def is_many(source: str | Path) -> bool:
    """Returns whether a source is a folder or a pattern of files.

    Example:
        >>> is_many("readings/*.parquet"), is_many("readings.csv")
        (True, False)
    """
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
    if not is_many(source):
        return Path(source).stat().st_size, hash_of(source)
    digest, size = hashlib.sha256(), 0
    for file in files_of(source):
        size += file.stat().st_size
        digest.update(f"{file.name}\0{hash_of(file)}\n".encode())
    return size, digest.hexdigest()


def read_many(source: str | Path, options: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Returns (one Arrow table of all files, notes).

    Folders named NAME=VALUE add a column, as in partitioned Parquet sets. With the option `skip_bad`, files that cannot
    be read are left out with a note.

    Raises:
        ValueError: A file cannot be read, or has other columns than the first; the message names the file.
    """
    from ._readers import naming, reader_of

    tables, notes, bad = [], [], []
    names: list[str] | None = None
    for file in files_of(source):
        try:
            with naming(file):
                reader = reader_of(file)
                check_content(file, suffix_of(file), reader.suffixes, reader.magic)
                check_unpacked_size(file)
                content = reader.read(file, dict(options))
                table, remarks = content if isinstance(content, tuple) else (content, ())
                if isinstance(table, Sequences):
                    raise ValueError("only tables can be joined, and this file is not one.")
                table = _with_folders(_as_arrow(table), file, Path(source))
        except (ValueError, OSError) as error:
            if not options.get("skip_bad"):
                raise
            bad.append(f"{file.name} ({first_line(error)})")
            continue
        if names is None:
            names = table.column_names
        elif set(names) != set(table.column_names):
            raise ValueError(_differing(file, names, table.column_names))
        tables.append(table.select(names))
        notes += [f"{file.name}: {remark}" for remark in remarks]
    if not tables:
        raise ValueError(f"{source}: no file could be read: {listed(bad, most=3)}.")
    if bad:
        notes.append(f"left out because they cannot be read: {listed(bad, most=5)}.")
    notes.append(f"{len(tables):,} files were joined.")
    pa = arrow()
    try:
        return pa.concat_tables(tables, promote_options="permissive"), notes
    except pa.ArrowInvalid as error:
        raise ValueError(f"{source}: the files have columns of different kinds: {first_line(error)}.") from error
    except pa.ArrowTypeError as error:
        raise ValueError(f"{source}: the files have columns of different kinds: {first_line(error)}.") from error


def columns_of_many(source: str | Path, options: Mapping[str, Any]) -> list[str] | None:
    """Returns the columns of the first file, and those of its folders."""
    from ._readers import column_names

    first = files_of(source)[0]
    names = column_names(first, options)
    return None if names is None else [*names, *(name for name in _folders(first, Path(source)) if name not in names)]


def _as_arrow(table: Any) -> Any:
    """Returns a table of Arrow, of whatever the reader returned."""
    pa = arrow()
    if isinstance(table, pa.Table):
        return table
    return pa.table({name: pa.array(table[name]) for name in frame_names(table)})


def _folders(file: Path, source: Path) -> dict[str, str]:
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
    for name, value in _folders(file, source).items():
        if name in table.column_names:
            continue
        missing = value == "__HIVE_DEFAULT_PARTITION__"
        whole = value.lstrip("-").isdecimal() and (value == "0" or not value.lstrip("-").startswith("0"))
        constant = pa.scalar(None if missing else int(value) if whole else value)
        table = table.append_column(name, pa.repeat(constant, table.num_rows))
    return table


def _differing(file: Path, names: list[str], others: list[str]) -> str:
    missing, new = [name for name in names if name not in others], [name for name in others if name not in names]
    parts = [f"{listed(missing)} missing"] if missing else []
    parts += [f"{listed(new)} only here"] if new else []
    return f"{file}: its columns are not those of the first file: {'; '.join(parts)}. Use files with equal columns."
