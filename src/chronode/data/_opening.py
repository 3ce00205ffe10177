"""Files as bytes: pipes, compression, and the format that the first bytes show."""

from __future__ import annotations

import lzma
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..storage import hash_of, replacing
from ._columns import arrow
from ._names import listed

PACKED = (".gz", ".xz", ".bz2", ".zst", ".zip")


def suffix_of(path: Path) -> str:
    """Returns the suffix that selects the reader, without that of the compression.

    Example:
        >>> suffix_of(Path("a.CSV.gz"))
        '.csv'
    """
    if path.suffix.lower() == ".zip" and path.is_file():
        return Path(_member(path).filename).suffix.lower()
    return (path.with_suffix("").suffix if path.suffix.lower() in PACKED else path.suffix).lower()


def opened(path: Path) -> Any:
    """Opens the file for reading bytes, decompressed."""
    if path.suffix.lower() == ".zip":
        return zipfile.ZipFile(path).open(_member(path))
    return lzma.open(path) if path.suffix == ".xz" else arrow().input_stream(str(path), compression="detect")


def _member(path: Path) -> zipfile.ZipInfo:
    """Returns the only file in an archive, besides what macOS adds."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(f"{path}: this is not a valid zip archive: {error}.") from None
    members = [each for each in members if not each.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        names = listed([each.filename for each in members], most=5) or "nothing"
        raise ValueError(f"{path}: the archive must contain one file, but it contains {names}: unpack it first.")
    if members[0].flag_bits & 1:
        raise ValueError(f"{path}: the archive has a password: unpack it first.")
    return members[0]


STANDARD_INPUT = "-"
_MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".feather", b"\x93NUMPY": ".npy", b"\xff\xff\xff\xff": ".arrow"}
_PACKED = {b"\x1f\x8b": ".csv.gz", b"\xfd7zXZ": ".csv.xz", b"BZh": ".csv.bz2", b"\x28\xb5\x2f\xfd": ".csv.zst"}


def is_pipe(source: str | Path) -> bool:
    """Returns whether `source` is "-" or a named pipe, which can be read only once."""
    if str(source) == STANDARD_INPUT:
        return True
    try:
        mode = Path(source).stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


@contextmanager
def as_file(source: str | Path) -> Iterator[Path]:
    """Yields the file `source` itself, or a temporary copy of the content of a pipe.

    Example:
        >>> with as_file("a.csv") as path:
        ...     print(path)
        a.csv
    """
    if not is_pipe(source):
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(prefix="chronode-") as folder:
        copy = Path(folder) / "standard-input"
        with copy.open("wb") as file:
            if str(source) == STANDARD_INPUT:
                shutil.copyfileobj(_standard_input(), file)
            else:
                with Path(source).open("rb") as pipe:
                    shutil.copyfileobj(pipe, file)
        yield copy.rename(copy.with_name(f"standard-input{_suffix(copy)}"))


def keep(source: str | Path, folder: str | Path) -> Path:
    """Stores the content of a pipe as a file in `folder`, named after its content, so that it can be read again.

    The same content is stored once.
    """
    with as_file(source) as copy:
        kept = Path(folder) / f"input-{hash_of(copy)[:12]}{''.join(copy.suffixes)}"
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            with replacing(kept) as draft:
                shutil.copyfile(copy, draft)
    return kept


def _standard_input() -> Any:
    if sys.stdin is None or sys.stdin.isatty():
        raise ValueError("'-' reads the standard input, which is a terminal here: pass a file name, or pipe a file in.")
    return sys.stdin.buffer


def _suffix(path: Path) -> str:
    """Returns the suffix that matches the first bytes of the file; .csv by default."""
    with path.open("rb") as file:
        head = file.read(64)
    for magic, suffix in {**_MAGIC, **_PACKED}.items():
        if head.startswith(magic):
            return suffix
    if head.startswith(b"PK"):
        names = _names_in(path)
        if "[Content_Types].xml" in names:
            return ".xlsx"
        return ".npz" if all(name.endswith(".npy") for name in names) else ".zip"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")):
        return ".jsonl"
    return ".ts" if text[:1] == b"@" else ".csv"


def _names_in(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError):
        return []
