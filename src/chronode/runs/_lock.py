"""A lock on a folder or a file that the system releases when its process ends for any reason."""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 1.0  # seconds: checking the lock takes it briefly, and a killed process needs a moment to end

_handles: set[int] = set()


class FolderLock:
    """Exclusive lock with a permanent file that contains the holder.

    Args:
        path: The permanent file.
        locked: Name of the locked thing, for messages; by default the folder of the file.

    Example:
        >>> import tempfile
        >>> lock = FolderLock(Path(tempfile.mkdtemp()) / "run.lock")
        >>> with lock.held():
        ...     lock.taken()
        True
        >>> lock.taken()
        False
    """

    def __init__(self, path: Path, locked: Path | None = None):
        self.path, self._locked = path, locked or path.parent

    @classmethod
    def beside(cls, path: Path) -> FolderLock:
        """Returns the lock of a file that is replaced as a whole, and so cannot hold the lock itself."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(path.with_name(f"{path.name}.lock"), path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the lock within the block.

        Raises:
            ValueError: Another process, or another block of this one, holds the lock.
        """
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        _handles.add(handle)
        try:
            give_up = time.monotonic() + _PATIENCE
            while not _try(handle, fcntl.LOCK_EX):
                if time.monotonic() > give_up:
                    holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "another process"
                    raise ValueError(f"{self._locked} is in use by {holder}: wait for it, or end it first.")
                time.sleep(0.05)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)
            yield
        finally:
            if handle in _handles:  # not in a forked child, which has closed it
                _handles.remove(handle)
                fcntl.flock(handle, fcntl.LOCK_UN)  # now, because a forked child may still have it open
                os.close(handle)

    def taken(self) -> bool:
        """Returns whether any process holds the lock."""
        try:
            handle = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not _try(handle, fcntl.LOCK_SH)
        finally:
            os.close(handle)


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _let_go_in_child() -> None:
    """Releases the lock in a forked child, which must not hold the lock of a killed parent."""
    for handle in _handles:
        os.close(handle)
    _handles.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
