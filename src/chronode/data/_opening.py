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

from ..storage import check_unpacked, hash_of, replacing, unpacked_limit
from ._columns import arrow
from ._names import listed

PACKED = (".gz", ".xz", ".bz2", ".zst", ".zip")
STANDARD_INPUT = "-"
# First bytes of common files, their description ("" if text may begin so), and the suffix of a pipe that has them.
_SIGNATURES = (
    (b"PAR1", "a Parquet file", ".parquet"),
    (b"ARROW1", "an Arrow file", ".feather"),
    (b"\x93NUMPY", "an .npy array", ".npy"),
    (b"\xff\xff\xff\xff", "", ".arrow"),
    (b"\x1f\x8b", "gzip data", ".csv.gz"),
    (b"\xfd7zXZ", "xz data", ".csv.xz"),
    (b"BZh", "", ".csv.bz2"),
    (b"\x28\xb5\x2f\xfd", "", ".csv.zst"),
    (b"PK\x03\x04", "a zip archive (or an .npz or .xlsx file)", ""),
    (b"\x89PNG", "a PNG image", ""),
    (b"\xff\xd8\xff", "a JPEG image", ""),
    (b"GIF8", "a GIF image", ""),
    (b"%PDF", "a PDF document", ""),
    (b"\x89HDF", "an HDF5 file", ""),
    (b"SQLite format", "an SQLite database", ".sqlite"),
    (b"\x7fELF", "a program", ""),
    (b"<!DOCTYPE", "a web page (a failed download?)", ""),
    (b"<!doctype", "a web page (a failed download?)", ""),
    (b"<html", "a web page (a failed download?)", ""),
    (b"version https://", "a Git LFS pointer (`git lfs pull` downloads the file)", ""),
)


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


def first_line(error: BaseException) -> str:
    """Returns the first line of the message of an error of a library."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")


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


# ---- checks of the content -------------------------------------------------------------------------------


def check_content(path: Path, suffix: str, suffixes: tuple[str, ...], magic: bytes) -> None:
    """Rejects an empty file, and one whose first bytes belong to another format than those with these suffixes."""
    if path.suffix.lower() in PACKED:
        return
    head, kind, ending = _beginning(path)
    if not head:
        raise ValueError(f"{path}: the file is empty.")
    if magic and not head.startswith(magic):
        raise ValueError(f"{path}: this is not a {suffix} file but {kind or f'begins with {head!r}'}.")
    if not magic and kind and (not ending or ending not in suffixes):
        packed = ending.removeprefix(".csv") if ending.startswith(".csv") else ""
        cure = f" Rename it to {path.name}{packed}." if packed else ""
        raise ValueError(f"{path}: this is not a {suffix or 'text'} file but {kind}.{cure}")


def check_lines(path: Path) -> None:
    """Rejects a file that is not lines of text, as far as its name and its first bytes tell."""
    kind = f"a {path.suffix} file" if path.suffix.lower() in PACKED else _beginning(path)[1]
    if kind:
        raise ValueError(f"{path}: expected lines of text, but this is {kind}: unpack or convert it first.")


def _beginning(path: Path) -> tuple[bytes, str, str]:
    """Returns the first bytes of a file, and the description and the suffix that belong to them."""
    with path.open("rb") as file:
        head = file.read(16)
    signatures = [(kind, ending) for first, kind, ending in _SIGNATURES if kind and head.startswith(first)]
    kind, ending = signatures[0] if signatures else ("", "")
    return head, kind, ending


def check_unpacked_size(path: Path) -> None:
    """Rejects a compressed file that unpacks to an implausible size."""
    size, limit = 0, unpacked_limit(path)
    try:
        if path.suffix.lower() in PACKED:
            with opened(path) as file:
                while size <= limit and (chunk := file.read(1 << 20)):
                    size += len(chunk)
        elif zipfile.is_zipfile(path):  # Excel
            with zipfile.ZipFile(path) as archive:
                size = sum(member.file_size for member in archive.infolist())
    except Exception as error:  # decompressors raise many types
        raise ValueError(f"{path}: this file cannot be opened as {path.suffix}: {first_line(error)}.") from error
    check_unpacked(path, size)


# ---- pipes -----------------------------------------------------------------------------------------------


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
        with copy.open("wb") as file, _content(source) as pipe:
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


@contextmanager
def _content(source: str | Path) -> Iterator[Any]:
    if str(source) != STANDARD_INPUT:
        with Path(source).open("rb") as pipe:
            yield pipe
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise ValueError("'-' reads the standard input, which is a terminal here: pass a file name, or pipe a file in.")
    yield sys.stdin.buffer


def _suffix(path: Path) -> str:
    """Returns the suffix that matches the first bytes of the file; .csv by default."""
    with path.open("rb") as file:
        head = file.read(64)
    for magic, _, suffix in _SIGNATURES:
        if suffix and head.startswith(magic):
            return suffix
    if head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except (zipfile.BadZipFile, OSError, NotImplementedError):
            names = []
        if "[Content_Types].xml" in names:
            return ".xlsx"
        return ".npz" if all(name.endswith(".npy") for name in names) else ".zip"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")):
        return ".jsonl"
    return ".ts" if text[:1] == b"@" else ".csv"
