"""Large text tables in pieces: files with the same header that are read one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ._csv import dialect_of
from ._opening import opened, suffix_of

SIZE = 1 << 26
"""Bytes of a piece."""
_TEXT = (".csv", ".tsv", ".txt", ".data", ".dat", ".psv", ".tab", ".log")


def pieces(path: Path, options: Mapping[str, Any], folder: Path, size: int = SIZE) -> Iterator[Path]:
    r"""Yields the file, or, if it is a large text table, files with its header and a part of its lines each.

    A piece is valid until the next one. Lines are cut where no quoted cell is open. Tables without a line of names,
    with comments or with aligned columns are not divided.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.csv").write_text("x,y\n1,2\n3,4\n")
        >>> [piece.read_text() for piece in pieces(folder / "a.csv", {}, folder, size=4)]
        ['x,y\n1,2\n', 'x,y\n3,4\n']
    """
    if suffix_of(path) not in _TEXT or options.get("names") or not _is_larger(path, 2 * size):
        yield path
        return
    dialect = dialect_of(path, *(options.get(name) for name in ("encoding", "delimiter", "comment")))
    special = dialect.comment or dialect.aligned or dialect.given_names or not dialect.named
    if special or dialect.encoding.lower().startswith("utf-16"):
        yield path
        return
    piece = folder / f"piece{suffix_of(path)}"
    with opened(path) as file:
        header, rest = _header(file, dialect.skip + 1)
        for lines in _cut(file, rest, size):
            piece.write_bytes(header + lines)
            yield piece
    piece.unlink()


def _is_larger(path: Path, size: int) -> bool:
    """Returns whether a file, unpacked, has more bytes."""
    with opened(path) as file:
        while size >= 0 and (block := file.read(min(size + 1, 1 << 20))):
            size -= len(block)
    return size < 0


def _header(file: Any, count: int) -> tuple[bytes, bytes]:
    """Returns the first lines of a file, and what else was read."""
    head = b""
    while head.count(b"\n") <= count and (block := file.read(1 << 16)):
        head += block
    end = 0
    for _ in range(count):
        end = head.find(b"\n", end) + 1
    return head[:end], head[end:]


def _cut(file: Any, rest: bytes, size: int) -> Iterator[bytes]:
    """Yields the rest of a file in parts of whole lines, of about `size` bytes."""
    most, more = size, True
    while True:
        while more and len(rest) <= most:
            block = file.read(most + 1 - len(rest))
            rest, more = rest + block, bool(block)
        if not more and len(rest) <= most:
            if rest.strip():
                yield rest
            return
        end = rest.rfind(b"\n", 0, most) + 1
        while end and rest.count(b'"', 0, end) % 2:  # within a quoted cell
            end = rest.rfind(b"\n", 0, end - 1) + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
        most = size if end else 2 * most
