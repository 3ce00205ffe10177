"""Environment of a run: versions, machine and kernels, without personal data; and the lock of a run folder."""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from .._version import __version__
from ..kernels import chosen, library
from ..system import cpu_model, plugins

# Results may differ in the last bit if one of these differs.
_DECIDES_NUMBERS = (
    "chronode",
    "commit",
    "changed",
    "torch",
    "numpy",
    "cpu",
    "threads",
    "kernels",
    "backend",
)


def environment() -> dict[str, Any]:
    """Returns versions, commit, machine, threads and kernels as plain data.

    Example:
        >>> found = environment()
        >>> found["threads"] == torch.get_num_threads()
        True
    """
    commit, changed = _commit()
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "chronode": __version__,
        "commit": commit,
        "changed": changed,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": _version("numpy"),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "kernels": _kernels(),
        "backend": chosen(),
        **({"plugins": ", ".join(plugins())} if plugins() else {}),
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Lists the changes between two environments that may change the results.

    Example:
        >>> differences({"torch": "2.6.0", "threads": 2}, {"torch": "2.7.0", "threads": 2})
        ['torch was 2.6.0, now 2.7.0']
    """
    return [
        f"{name} was {before.get(name)}, now {now.get(name)}"
        for name in _DECIDES_NUMBERS
        if before.get(name) != now.get(name)
    ]


def _kernels() -> str:
    """Returns the instruction set of the native kernels, or "none"."""
    loaded = library()
    return "none" if loaded is None else loaded.chronode_isa().decode()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> tuple[str | None, bool | None]:
    """Returns the commit of the source and whether tracked files differ from it; None outside a checkout."""
    # An installed chronode may be inside the checkout of another project, whose commit is irrelevant.
    if not _git("ls-files", "_version.py"):
        return None, None
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    return _git("rev-parse", "HEAD"), None if changes is None else bool(changes)


def _git(*words: str) -> str | None:
    """Runs git in the source folder; None if that fails."""
    # Without optional locks, it does not interfere with a concurrent commit.
    command = ["git", "--no-optional-locks", "-C", str(Path(__file__).parents[1]), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


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
