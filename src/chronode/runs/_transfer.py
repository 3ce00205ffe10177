"""Transfer of run folders between machines."""

from __future__ import annotations

from pathlib import Path

from ..storage import replacing
from ._lock import FolderLock

_FIRST, _LAST = ("config.json", "environment.json", "run.json"), "summary.json"


def folder_files(folder: Path) -> dict[str, bytes]:
    """Returns the files of a run folder by relative path, without the lock file.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> write_folder({"run.json": b"{}", "checkpoints/0.json": b"[]"}, place / "run")
        >>> folder_files(place / "run")
        {'checkpoints/0.json': b'[]', 'run.json': b'{}'}
    """
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "run.lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_folder(files: dict[str, bytes], folder: Path) -> None:
    """Writes a run folder; `summary.json` is written last, so that an incomplete run does not look finished.

    Raises:
        ValueError: A process is training in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder / "run.lock").held():
        (folder / _LAST).unlink(missing_ok=True)
        first = [name for name in _FIRST if name in files]
        others = [name for name in files if name not in (*_FIRST, _LAST)]
        for name in (*first, *others, *([_LAST] if _LAST in files else [])):
            with replacing(folder / name) as draft:
                draft.write_bytes(files[name])
