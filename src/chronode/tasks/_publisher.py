"""Files of a publisher, wherever the archive was unpacked."""

from __future__ import annotations

from pathlib import Path


def located(folder: Path, name: str) -> Path:
    """The file or folder `name` in `folder` or in one of its folders (archives often have one of their own).

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
        raise ValueError(f"{folder}: there is no {name} in it; is it the publisher's whole archive?")
    return found[0]
