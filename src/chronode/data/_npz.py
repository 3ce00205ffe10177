"""Sequences in .npz files: plain arrays and JSON, no pickles."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import check_unpacked, parse, parse_json, replacing, unpacked_limit
from ._gaps import Gaps
from ._opening import first_line
from ._sequences import Sequences
from ._target import UNKNOWN, Target
from ._times import Clock

FORMAT = "chronode-sequences"
VERSION = 1

_KINDS = {"f": "numbers", "i": "whole numbers", "U": "text"}


def save(s: Sequences, path: str | Path) -> Path:
    """Writes `s` to `path` atomically.

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
        raise ValueError(f"{path}: sequences are saved as .npz files; use that suffix.")
    if s.finish is not None:
        raise ValueError(f"{path}: these series are completed batch by batch (noise), which cannot be saved.")
    s = s.compact()
    arrays = {"values": s.base_values, "starts": s.starts, "lengths": s.lengths, "ids": s.ids, "groups": s.groups}
    target = s.target
    optional = {"times": s.base_times, "lead": s.lead, "target": None if target is None else target.values}
    optional |= {"static": s.static, "weights": s.weights}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    header = {"format": FORMAT, "version": VERSION, **head_of(s)}
    arrays["json"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return path


def head_of(s: Sequences) -> dict[str, Any]:
    """Returns what describes the arrays of `s`, as plain data for JSON."""
    header: dict[str, Any] = {
        "channels": s.channels,
        "clock": asdict(s.clock),
        "categories": dict(s.categories),
        "notes": s.notes,
    }
    if s.static_names:
        header["static_names"] = s.static_names
    if s.gaps is not None:
        header["gaps"] = asdict(s.gaps)
    if s.unnamed:
        header["unnamed"] = True
    target = s.target
    if target is not None:
        header["target"] = {"per_step": target.per_step, "classes": target.classes, "names": target.names}
        header["target"] |= {"levels": target.levels} if target.levels else {}
    return header


def load(path: str | Path) -> Sequences:
    """Reads Sequences written by `save`; a damaged or different file raises a ValueError."""
    arrays = read_arrays(path)
    if "json" not in arrays:
        raise ValueError(
            f"{path}: this .npz file was not written by Sequences.save; use read with order='NTD' or 'NDT'."
        )
    return restored(path, arrays)


def restored(path: str | Path, arrays: dict[str, NDArray[Any]]) -> Sequences:
    """Restores Sequences from the arrays of a file written by `save`."""
    path = Path(path)
    content = arrays["json"]
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ValueError(f"{path}: json must be bytes, got {content.dtype} {content.shape}.")
    head = parse_json(bytes(content), Any, f"{path}, json")
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError(f"{path}: this .npz file has no format {FORMAT!r} in its json.")
    if head.get("version") != VERSION:
        raise ValueError(
            f"{path}: the file has version {head.get('version')!r}, but this chronode reads version {VERSION}."
        )
    try:
        s = sequences_of(parse(_FileHead, head, "json"), arrays)
        # Series may overlap (windows), so their total size must be in proportion too.
        size = int(s.lengths.sum(dtype=np.float64)) * max(1, s.num_channels) * s.base_values.itemsize
        check_unpacked(path, size)
        return s
    except ValueError as error:
        raise ValueError(f"{path}: these are not valid sequences: {error}") from error


@dataclass(frozen=True)
class _TargetHead:
    per_step: bool
    classes: tuple[str, ...] | None
    names: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...] = ()


@dataclass(frozen=True)
class Head:
    """JSON header of arrays of sequences, the result of `head_of`."""

    channels: tuple[str, ...]
    clock: Clock
    categories: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]
    target: _TargetHead | None = None
    gaps: Gaps | None = None
    static_names: tuple[str, ...] = ()
    unnamed: bool = False


@dataclass(frozen=True)
class _FileHead(Head):
    """JSON header of a file of sequences."""

    format: str = FORMAT
    version: int = VERSION


def sequences_of(head: Head, arrays: Mapping[str, Any]) -> Sequences:
    """Returns the Sequences with these arrays, in memory or stored."""

    def array(name: str, kinds: str, axes: int) -> NDArray[Any]:
        if name not in arrays:
            raise ValueError(f"{name} is missing.")
        content = arrays[name]
        if content.dtype.kind not in kinds or content.ndim != axes:
            words = " or ".join(_KINDS[kind] for kind in kinds)
            raise ValueError(f"{name} must hold {words} in {axes} axes, got {content.dtype} {content.shape}.")
        return content

    values = array("values", "fi", 2)
    starts, lengths = (array(name, "i", 1).astype(np.int64) for name in ("starts", "lengths"))
    for name, content in (("starts", starts), ("lengths", lengths)):
        if content.size and (content.min() < 0 or content.max() > len(values)):
            raise ValueError(f"{name} must be from 0 to {len(values):,}, the rows of values.")
    times, lead = (array(name, "f", 1) if name in arrays else None for name in ("times", "lead"))
    for name, content in (("times", times), ("lead", lead)):
        if isinstance(content, np.ndarray) and not np.isfinite(content).all():
            raise ValueError(f"{name} must be finite.")
    target = None
    if head.target is not None:
        target = _target(array("target", "i", 1) if head.target.classes else array("target", "f", 2), head.target)
        target = replace(target, source=array("source", "f", 2)) if "source" in arrays else target
    return Sequences(
        base_values=values,
        base_times=times,
        starts=starts,
        lengths=lengths,
        ids=array("ids", "iU", 1),
        groups=array("groups", "iU", 1),
        lead=lead,
        target=target,
        channels=head.channels,
        clock=head.clock,
        categories=head.categories,
        notes=head.notes,
        gaps=head.gaps,
        static=array("static", "f", 2) if head.static_names else None,
        static_names=head.static_names,
        unnamed=head.unnamed,
        weights=array("weights", "f", 1) if "weights" in arrays else None,
    )


def _target(values: NDArray[Any], head: _TargetHead) -> Target:
    if head.classes is None and values.shape[1] != len(head.names):
        raise ValueError(f"target has {values.shape[1]} columns for {len(head.names)} names.")
    if head.classes is not None:
        labels = values[values != UNKNOWN]
        if labels.size and (labels.min() < 0 or labels.max() >= len(head.classes)):
            raise ValueError(f"target must be from 0 to {len(head.classes) - 1}, the number of its class.")
    target = Target(values, head.per_step, head.classes, head.names, None, head.levels)
    if len(head.levels) not in (0, len(head.names)):
        raise ValueError(f"target has {len(head.levels)} levels for {len(head.names)} names.")
    for part in target.parts if head.levels else ():
        _target(part.values, _TargetHead(head.per_step, part.classes, part.names))
    return target


# ---- arrays ------------------------------------------------------------------------------------------------


def read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """Reads all arrays of an .npz file; their sizes must match their shapes, and their checksums must be right.

    The arrays share the memory into which the file was read, so reading needs no more than the unpacked size.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if total <= unpacked_limit(path):
                return {member.filename.removesuffix(".npy"): _read_array(archive, member) for member in members}
    except Exception as error:  # untrusted bytes: the zip and npy parsers raise almost anything
        raise ValueError(f"{path}: this is not a valid .npz file: {first_line(error)}.") from error
    check_unpacked(path, total)
    raise AssertionError


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Reads one array; its header is checked before memory is allocated."""
    with archive.open(member) as file:
        shape, by_column, dtype = array_header(file, member.filename)
        size = math.prod(shape) * dtype.itemsize
        if size != member.file_size - file.tell():
            raise ValueError(f"{member.filename} has {member.file_size - file.tell():,} bytes instead of {size:,}")
        # Read to the end, where the checksum is compared.
        content = file.read()
    if not size:
        return np.empty(shape, dtype)
    return np.frombuffer(content, dtype).reshape(shape, order="F" if by_column else "C")


def array_header(file: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads the beginning of an .npy file: shape, whether it is stored by column, and type."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise ValueError(f"{name} has the unknown version {version}")
    shape, by_column, dtype = read_header[version](file)
    if dtype.hasobject or dtype.fields is not None:
        raise ValueError(f"{name} holds {dtype}, not numbers or text")
    return shape, by_column, dtype
