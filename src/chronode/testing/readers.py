"""Checks of readers of files: `check_reader`."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Reader, Sequences, options_like, read
from .case import run_checks

_DAMAGED_COPIES = 25


def check_reader(reader: type[Reader], path: str | Path, **options: Any) -> None:
    """Checks a registered reader by an example of its files: the contract of `chronode.data.Reader`.

    Args:
        reader: The class.
        path: A file that it reads.
        options: Options of `chronode.data.read` for this file.

    Raises:
        AssertionError: A part of the contract does not hold. The message lists all of them.

    Example:
        >>> from chronode.data import register_reader
        >>> @register_reader
        ... class Lengths(Reader):
        ...     suffixes = (".lengths",)
        ...
        ...     def read(self, path, options):
        ...         with self.open(path) as file:
        ...             return {"length": [len(line) for line in file.read().split()]}
        >>> path = Path(tempfile.mkdtemp()) / "a.lengths"
        >>> _ = path.write_text("one two three")
        >>> check_reader(Lengths, path)
    """
    checks = (_is_registered, _is_repeatable, _names_columns, _reads_later_files, _rejects_damage)
    with tempfile.TemporaryDirectory() as folder:
        run_checks(reader.__name__, checks, reader, Path(path), options, Path(folder))


def _is_registered(reader: type[Reader], path: Path, options: dict[str, Any], folder: Path) -> None:
    """Suffixes are lower case, and the file has one of them."""
    assert issubclass(reader, Reader), "it must be a subclass of chronode.data.Reader."
    wrong = [suffix for suffix in reader.suffixes if suffix != suffix.lower()]
    assert not wrong, f"suffixes must be lower case, got {wrong}."
    assert path.suffix.lower() in reader.suffixes, f"{path.name} must end with one of {reader.suffixes}."
    called: list[Path] = []
    original = reader.read

    def note(self: Reader, path: Path, options: Any) -> Any:
        called.append(path)
        return original(self, path, options)

    reader.read = note
    try:
        read(path, **options)
    finally:
        reader.read = original
    assert called, "another reader reads the file: add @register_reader to the class."


def _is_repeatable(reader: type[Reader], path: Path, options: dict[str, Any], folder: Path) -> None:
    """The same content gives the same series, wherever the file is, and stays as it is."""
    content, given = path.read_bytes(), dict(options)
    first = read(path, **options)
    copy = Path(shutil.copyfile(path, folder / f"Another file{path.suffix.upper()}"))
    assert _same(first, read(path, **options)), "reading the file twice gives different series."
    assert _same(first, read(copy, **options)), "a copy with another name gives different series."
    assert path.read_bytes() == content, "reading changes the file."
    reader().read(path, options)
    assert options == given, "reading changes the options."


def _names_columns(reader: type[Reader], path: Path, options: dict[str, Any], folder: Path) -> None:
    """`columns` has the names of the table that `read` returns."""
    table = reader().read(path, dict(options))
    table = table[0] if isinstance(table, tuple) else table
    names = reader().columns(path, dict(options))
    if isinstance(table, Sequences):
        assert names is None, f"columns must return None, because read returns Sequences; got {names}."
    else:
        columns = list(getattr(table, "column_names", None) or getattr(table, "columns", None) or table)
        assert names == [str(name) for name in columns], f"columns returns {names}, but the table has {columns}."


def _reads_later_files(reader: type[Reader], path: Path, options: dict[str, Any], folder: Path) -> None:
    """With the options that a model stores, the file gives the same series again."""
    series = read(path, **options)
    stored = {name: value for name, value in options_like(series).items() if value is not None}
    assert _same(series, read(path, **{**options, **stored})), "other series with the options of options_like."


def _rejects_damage(reader: type[Reader], path: Path, options: dict[str, Any], folder: Path) -> None:
    """Damaged content is read, or is a ValueError that names the file."""
    rng, content = random.Random(0), path.read_bytes()
    copies = [b"", content[: len(content) // 2], b"\0" * 64, rng.randbytes(64)]
    for _ in range(_DAMAGED_COPIES):
        at = rng.randrange(len(content))
        copies.append(content[:at] + rng.randbytes(4) + content[at + rng.randrange(8) :])
    damaged = folder / f"damaged{path.suffix}"
    for copy in copies:
        damaged.write_bytes(copy)
        try:
            read(damaged, **options)
        except ValueError as error:
            assert damaged.name in str(error), f"an error does not name the file: {error}"
        except Exception as error:
            problem = f"content that begins with {copy[:16]!r} gives {type(error).__name__}: {error}"
            raise AssertionError(f"{problem}; it must be a ValueError.") from error


def _same(one: Sequences, other: Sequences) -> bool:
    """Returns whether two Sequences hold the same series."""
    arrays = [
        (s.base_values, s.times, s.lengths, s.ids, np.zeros(0) if s.target is None else s.target.values)
        for s in (one, other)
    ]
    if one.channels != other.channels or one.clock.origin != other.clock.origin:
        return False
    return all(
        np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f") for mine, theirs in zip(*arrays, strict=True)
    )
