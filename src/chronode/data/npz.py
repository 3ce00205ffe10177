"""Sequences in .npz files: plain arrays and JSON, never a pickle."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._files import replacing
from .sequences import Sequences
from .target import Target
from .times import Clock

FORMAT = "chronode-sequences"
VERSION = 1


def save(s: Sequences, path: str | Path) -> Path:
    """Writes `s` to `path`, whole or not at all.

    Example:
        >>> import tempfile
        >>> from chronode.data import from_list
        >>> path = Path(tempfile.mkdtemp()) / "two.npz"
        >>> _ = from_list([[1.0], [2.0, 3.0]]).save(path)
        >>> load(path).lengths.tolist()
        [1, 2]
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path}: sequences are saved as .npz files; give it that suffix.")
    if s.finish is not None:
        raise ValueError(f"{path}: these series are finished batch by batch (noise), which a file cannot hold.")
    s = s.compact()
    arrays = {"values": s.base_values, "starts": s.starts, "lengths": s.lengths, "ids": s.ids, "groups": s.groups}
    target = s.target
    optional = {"times": s.base_times, "lead": s.lead, "target": None if target is None else target.values}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    told: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "channels": s.channels,
        "clock": asdict(s.clock),
        "categories": dict(s.categories),
        "notes": s.notes,
    }
    if target is not None:
        told["target"] = {"per_step": target.per_step, "classes": target.classes, "names": target.names}
    arrays["json"] = np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return path


def load(path: str | Path) -> Sequences:
    """Sequences that `save` wrote; a damaged or foreign file is a ValueError."""
    arrays = read_arrays(path)
    if "json" not in arrays:
        raise ValueError(
            f"{path}: this .npz file was not written by Sequences.save; use read with order='NTD' or 'NDT'."
        )
    return restored(path, arrays)


def restored(path: str | Path, arrays: dict[str, NDArray[Any]]) -> Sequences:
    """Sequences from the arrays of a file that `save` wrote."""
    try:
        told = json.loads(bytes(arrays["json"]).decode())
        if told["format"] != FORMAT:
            raise ValueError(f"format {told['format']!r}")
        if told["version"] > VERSION:
            raise ValueError(f"it is of version {told['version']}, this chronode knows {VERSION}")
        target = told.get("target")
        return Sequences(
            base_values=arrays["values"],
            base_times=arrays.get("times"),
            starts=arrays["starts"],
            lengths=arrays["lengths"],
            ids=arrays["ids"],
            groups=arrays["groups"],
            lead=arrays.get("lead"),
            target=target and _target(arrays["target"], target),
            channels=tuple(told["channels"]),
            clock=Clock(**told["clock"]),
            categories={name: tuple(texts) for name, texts in told["categories"].items()},
            notes=tuple(told["notes"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path}: these are not whole sequences: {error}.") from error


def read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file; every byte is checked against the file's own checksums."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    try:
        with zipfile.ZipFile(path) as archive:
            wrong = archive.testzip()
            if wrong is not None:
                raise ValueError(f"{wrong} does not match its checksum")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # foreign bytes: the parsers of zip and npy raise nearly anything
        raise ValueError(f"{path}: this is not a whole .npz file: {error}.") from error


def _target(values: NDArray[Any], told: dict[str, Any]) -> Target:
    classes = told["classes"]
    return Target(values, told["per_step"], None if classes is None else tuple(classes), tuple(told["names"]))
