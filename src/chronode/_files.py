"""Files that are whole or not there at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DiskFull(OSError):
    """No room to write a file; what was there before is still there."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; when the block ends well, it is synced and takes `path`'s place.

    Once it is done, the file survives a power cut too. Where there is no room for it, `DiskFull` says so.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "new" / "a.txt"
        >>> with replacing(target) as draft:
        ...     _ = draft.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    with naming_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
        draft = Path(name)
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


def sync(path: Path) -> None:
    """Waits until the file, or the list of names in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Turns the system's "no space left" while writing `path` into `DiskFull`, which names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(f"the disk is full: {path} could not be written") from error
