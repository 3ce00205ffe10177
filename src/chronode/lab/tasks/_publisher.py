"""Locating published files, wherever the archive was unpacked."""

from __future__ import annotations

from pathlib import Path


def located(folder: Path, name: str) -> Path:
    """Returns the file or folder `name` in `folder` or in one of its subfolders (archives often have a top folder).

    Example:
        >>> import tempfile
        >>> top = Path(tempfile.mkdtemp())
        >>> (top / "archive").mkdir()
        >>> _ = (top / "archive" / "train.csv").write_text("")
        >>> located(top, "train.csv").relative_to(top).as_posix()
        'archive/train.csv'
    """
    if (folder / name).exists():
        return folder / name
    found = sorted(folder.glob(f"*/{name}"))
    if not found:
        raise ValueError(f"{folder}: {name} not found; is this the complete archive of the publisher?")
    return found[0]
