"""Files that are whole or not there at all."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DRAFT = re.compile(r"\..+-[a-z0-9_]{8}\.draft(\.[^.]*)?")
_WHY_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than this process may write (see `ulimit -f`)",
}


class DiskFull(OSError):
    """No room to write a file; what was there before is still there."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; when the block ends well, it is synced and takes `path`'s place.

    Once it is done, the file survives a power cut too. Where there is no room for it, `DiskFull` says so. What a
    killed process left of an earlier attempt is removed.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "new" / "a.txt"
        >>> with replacing(target) as draft:
        ...     _ = draft.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    with naming_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, path)
        handle, draft = _new_draft(path)
        try:
            yield draft
            sync(draft)
            # mkstemp makes private files; the user's own default applies to what stays.
            mask = os.umask(0)
            os.umask(mask)
            draft.chmod(0o666 & ~mask)
            draft.replace(path)
            sync(path.parent)
        finally:
            draft.unlink(missing_ok=True)
            os.close(handle)


def sweep(folder: Path, target: Path | None = None) -> None:
    """Removes the drafts that killed processes left in `folder`: all, or those of `target`.

    A living process holds a lock on its draft, so its drafts stay.
    """
    for path in folder.glob(".*" if target is None else f".{_escaped(target.stem)}-*"):
        if _DRAFT.fullmatch(path.name) and (target is None or path.suffix in (target.suffix, ".draft")):
            with suppress(OSError):  # another process sweeps too, or the file system has no locks
                handle = os.open(path, os.O_RDWR)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(handle)


def _new_draft(path: Path) -> tuple[int, Path]:
    """(handle that holds the lock, path) of a new draft."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=f".draft{path.suffix}")
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):
            return handle, Path(name)
        os.close(handle)  # swept by another process before the lock was ours


def _escaped(text: str) -> str:
    """`text` as a pattern of `glob` that matches just that."""
    return re.sub(r"([*?[])", r"[\1]", text)


def sync(path: Path) -> None:
    """Waits until the file, or the list of names in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Turns the system's "no space left" and its kin while writing `path` into `DiskFull`, which names the file.

    Any other error of the system that names no file gets the name of this one.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, DiskFull):
            raise
        if error.errno in _WHY_FULL:
            raise DiskFull(f"{_WHY_FULL[error.errno]}: {path} could not be written") from error
        if error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
