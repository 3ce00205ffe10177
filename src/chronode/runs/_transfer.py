"""Run folders that come from another machine."""

from __future__ import annotations

from pathlib import Path

from .._files import replacing
from ._lock import FolderLock

_FIRST, _LAST = ("config.json", "environment.json", "run.json"), "summary.json"


def pack(folder: Path) -> dict[str, bytes]:
    """The files of a run folder by their paths within it; without the lock, which is that of a process.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> unpack({"run.json": b"{}", "checkpoints/0.json": b"[]"}, place / "run")
        >>> pack(place / "run")
        {'checkpoints/0.json': b'[]', 'run.json': b'{}'}
    """
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "run.lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def unpack(files: dict[str, bytes], folder: Path) -> None:
    """Writes a run folder; `summary.json` comes last, so that a run that was not written whole does not look finished.

    Raises:
        ValueError: a process is training into the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder / "run.lock").held():
        (folder / _LAST).unlink(missing_ok=True)
        first = [name for name in _FIRST if name in files]
        others = [name for name in files if name not in (*_FIRST, _LAST)]
        for name in (*first, *others, *([_LAST] if _LAST in files else [])):
            with replacing(folder / name) as draft:
                draft.write_bytes(files[name])
