"""Compressed files: the suffix of what they contain, and its bytes."""

from __future__ import annotations

import lzma
import zipfile
from pathlib import Path
from typing import Any

from ._columns import arrow
from ._names import listed

PACKED = (".gz", ".xz", ".bz2", ".zst", ".zip")


def suffix_of(path: Path) -> str:
    """Returns the suffix that selects the reader, without that of the compression.

    Example:
        >>> suffix_of(Path("a.CSV.gz"))
        '.csv'
    """
    if path.suffix.lower() == ".zip" and path.is_file():
        return Path(_member(path).filename).suffix.lower()
    return (path.with_suffix("").suffix if path.suffix.lower() in PACKED else path.suffix).lower()


def opened(path: Path) -> Any:
    """Opens the file for reading bytes, decompressed."""
    if path.suffix.lower() == ".zip":
        return zipfile.ZipFile(path).open(_member(path))
    return lzma.open(path) if path.suffix == ".xz" else arrow().input_stream(str(path), compression="detect")


def _member(path: Path) -> zipfile.ZipInfo:
    """Returns the only file in an archive, besides what macOS adds."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(f"{path}: this is not a valid zip archive: {error}.") from None
    members = [each for each in members if not each.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        names = listed([each.filename for each in members], most=5) or "nothing"
        raise ValueError(f"{path}: the archive must contain one file, but it contains {names}: unpack it first.")
    if members[0].flag_bits & 1:
        raise ValueError(f"{path}: the archive has a password: unpack it first.")
    return members[0]
