"""Safe unpacking: nothing outside the folder, no links, devices or bombs, and only the requested files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from ...storage import ARCHIVE_BYTES

MOST_FILES = 500_000
DEEPEST = 2  # nesting of archives
_CHUNK = 1 << 20
_LARGEST_HEADER = 1 << 20  # bytes of one header in a tar archive (long names, times, permissions), and of all of them
_ALL_HEADERS = 1 << 28
_HEADERS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_HEADERS += (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
_PLAIN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError),
    RuntimeError,  # a password is needed
    *(FileExistsError, NotADirectoryError),  # a file and a folder with the same name
)

Member = tuple[str, Callable[[], IO[bytes]]]


class UnsafeArchive(ValueError):
    """An archive is damaged or would write outside its folder."""


def unpack(source: Path, into: Path, wants: Callable[[str], bool], *, largest: int | None = None) -> list[str]:
    """Extracts the wanted files of `source` into the folder `into`.

    A file is stored under the longest end of its path that `wants` accepts: `a/b/x.txt` as `a/b/x.txt`, `b/x.txt` or
    `x.txt`. Nested archives are unpacked too. A file that is not an archive is copied.

    Args:
        source: .zip, .tar (also .gz .xz .bz2), a single file as .gz .xz .bz2, or a plain file.
        into: Existing folder.
        wants: Function that returns whether a relative path is wanted.
        largest: Maximum unpacked size of the archive in bytes, including files that are not wanted; by default
            `chronode.storage._schema.ARCHIVE_BYTES`.

    Returns:
        The relative paths written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        ...     archive.writestr("data-1.0/x.txt", "1 2 3")
        ...     archive.writestr("data-1.0/readme.md", "")
        >>> unpack(folder / "a.zip", folder, lambda path: path == "x.txt")
        ['x.txt']
    """
    largest = ARCHIVE_BYTES.value if largest is None else largest
    return _Unpacking(source.name, into, wants, largest).run(source, source.name, DEEPEST)


class _Unpacking:
    """State of one call of `unpack`, with its remaining limits."""

    def __init__(self, archive: str, into: Path, wants: Callable[[str], bool], largest: int) -> None:
        self.archive, self.into, self.wants = archive, into, wants
        self.largest = self.left = largest
        self.files = 0

    def run(self, source: Path, name: str, depth: int) -> list[str]:
        written: list[str] = []
        try:
            for path, opened in self.members(source, name):
                self.files += 1
                if self.files > MOST_FILES:
                    raise UnsafeArchive(f"{self.archive} contains more than {MOST_FILES:,} files.")
                target = self.target(path)
                if target is not None:
                    written.append(self.write(opened, self.into / target, target))
                elif depth and _is_archive(path):
                    written += self.inner(opened, path, depth - 1)
        except (*_DAMAGED, OSError) as error:
            if not isinstance(error, _DAMAGED) and error.errno is not None:  # bz2 raises an OSError without a number
                raise
            raise UnsafeArchive(f"{self.archive} is damaged or truncated: {error}") from error
        return written

    def members(self, source: Path, name: str) -> Iterator[Member]:
        """Yields (path, opener) for every regular file; rejects anything else except folders."""
        lower = name.lower()
        if lower.endswith(".zip"):
            yield from _zip_members(source, name)
        elif lower.endswith(_TAR):
            yield from _tar_members(source, name, self.count)
        elif Path(lower).suffix in _PLAIN:
            opener = _PLAIN[Path(lower).suffix]
            yield PurePosixPath(name).name.rpartition(".")[0], lambda: opener(source, "rb")
        else:
            yield PurePosixPath(name).name, lambda: source.open("rb")

    def target(self, path: str) -> str | None:
        """Returns the target path of a member; None if it is not wanted. Rejects paths outside the folder."""
        parts = PurePosixPath(path).parts
        windows = PureWindowsPath(path)
        if ".." in windows.parts or ".." in parts or path.startswith("/") or windows.drive or windows.root:
            raise UnsafeArchive(f"{self.archive} has a file that would be written outside its folder: {path!r}.")
        if not parts or "__MACOSX" in parts or parts[-1].startswith("._"):  # metadata files of macOS
            return None
        ends = ("/".join(parts[i:]) for i in range(len(parts)))
        return next((end for end in ends if self.wants(end)), None)

    def write(self, opened: Callable[[], IO[bytes]], path: Path, name: str) -> str:
        if path.exists():
            raise UnsafeArchive(f"{self.archive} contains {name!r} twice.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened() as source, path.open("xb") as target:
            # Counted while writing, because the sizes in the headers of an archive may be wrong.
            while chunk := source.read(_CHUNK):
                self.count(len(chunk))
                target.write(chunk)
        return name

    def count(self, size: int) -> None:
        """Subtracts bytes from the remaining limit."""
        self.left -= size
        if self.left < 0:
            raise UnsafeArchive(f"{self.archive} unpacks to more than {self.largest:,} bytes. {ARCHIVE_BYTES.cure}")

    def inner(self, opened: Callable[[], IO[bytes]], path: str, depth: int) -> list[str]:
        with tempfile.TemporaryDirectory(dir=self.into, prefix=".inner-") as folder:
            archive = Path(folder) / "archive"
            self.write(opened, archive, path)
            return self.run(archive, path, depth)


def _zip_members(source: Path, name: str) -> Iterator[Member]:
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            if not info.filename:
                raise UnsafeArchive(f"{name} contains a file without a name.")
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UnsafeArchive(f"{name} contains a link or a device: {info.filename!r}.")
            if not info.is_dir():
                yield info.filename, lambda info=info: archive.open(info)


class _TarInfo(tarfile.TarInfo):
    """Member of a tar archive; excessively large headers are rejected before they are read."""

    left = 0

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _TarInfo:
        info = super().frombuf(buf, encoding, errors)
        if info.type in _HEADERS:
            cls.left -= info.size
            if info.size > _LARGEST_HEADER or cls.left < 0:
                raise UnsafeArchive(
                    f"a tar archive contains headers of more than {max(info.size, _ALL_HEADERS):,} bytes."
                )
        return info


class _Counted:
    """Stream that counts every byte, including skipped ones."""

    def __init__(self, stream: IO[bytes], count: Callable[[int], None]) -> None:
        self.stream, self.counted = stream, count

    def read(self, size: int) -> bytes:
        chunk = self.stream.read(size)
        self.counted(len(chunk))
        return chunk


def _tar_members(source: Path, name: str, count: Callable[[int], None]) -> Iterator[Member]:
    opener = _PLAIN.get(".gz" if name.lower().endswith(".tgz") else Path(name.lower()).suffix, open)
    with opener(source, "rb") as stream:
        counted: Any = _Counted(stream, count)
        # As a stream ("|"), the archive is read sequentially, through `counted`.
        info_class = type("_CountedTarInfo", (_TarInfo,), {"left": _ALL_HEADERS})
        with tarfile.open(fileobj=counted, mode="r|", tarinfo=info_class) as archive:
            for info in archive:
                # The headers of up to half a million files are not kept in memory.
                archive.members.clear()  # pyrefly: ignore[missing-attribute]
                if not (info.isreg() or info.isdir()):
                    raise UnsafeArchive(f"{name} contains a link or a device: {info.name!r}.")
                if info.isreg():
                    yield info.name, lambda info=info: _opened(archive, info)


def _opened(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(info)
    assert stream is not None  # it is a regular file
    return stream


def _is_archive(path: str) -> bool:
    lower = path.lower()
    return lower.endswith((".zip", *_TAR)) or Path(lower).suffix in _PLAIN
