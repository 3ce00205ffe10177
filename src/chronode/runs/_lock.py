"""A lock on a folder or a file that the system releases when its process ends for any reason."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 1.0  # seconds: checking the lock takes it briefly, and a killed process needs a moment to end


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
        from filelock import FileLock, Timeout  # takes about 50 ms

        # A soft lock, which filelock uses where there is no flock, would outlive a killed process.
        lock = FileLock(self.path, timeout=_PATIENCE, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            holder = self.path.read_text(errors="replace")[:200].strip() or "another process"
            raise ValueError(f"{self._locked} is in use by {holder}: wait for it, or end it first.") from None
        try:
            self.path.write_text(f"process {os.getpid()} on {platform.node()}\n")
            yield
        finally:
            lock.release()

    def taken(self) -> bool:
        """Returns whether any process holds the lock; the file may be read-only."""
        try:
            handle = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two checks at the same time do not take each other for a holder.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False
