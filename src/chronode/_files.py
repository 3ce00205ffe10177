"""Files that are whole or not there at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; when the block ends well, it is synced and takes `path`'s place.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "new" / "a.txt"
        >>> with replacing(target) as draft:
        ...     _ = draft.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        # mkstemp makes private files; the user's own default applies to what stays.
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
