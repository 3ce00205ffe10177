"""Checkpoints that survive a killed process, a torn file and a full disk."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..settings import whole
from ..storage import DiskFull, parse_json, replacing, safetensors, sweep

# The hash of the content is part of the name: one rename sets both, and the file remains plain safetensors.
_NAME = re.compile(r"checkpoint-(\d{6,})-([0-9a-f]{32})\.safetensors")

Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]


class Store:
    """The last few checkpoints of a run, in one folder; only one process at a time may save to it.

    A checkpoint is one safetensors file with other data as JSON in its header. It gets its name when it is complete and
    synced, and only then are older ones removed. The name contains the SHA-256 of the content, so a torn or modified
    file is detected when it is read, and the previous one is used.

    Attributes:
        folder: Folder of the files; created by the first `save`.
        keep: Number of checkpoints to keep.
        notes: Problems with files that `latest` had to skip.

    Example:
        >>> import tempfile
        >>> store = Store(Path(tempfile.mkdtemp()))
        >>> store.save({"weight": torch.ones(2)}, {"epoch": 1})
        >>> store.latest()
        ({'weight': tensor([1., 1.])}, {'epoch': 1})
    """

    def __init__(self, folder: str | Path, keep: int = 2):
        self.folder = Path(folder)
        self.keep = whole("keep", keep, at_least=1)
        self.notes: list[str] = []
        self._damaged: set[Path] = set()

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Writes a checkpoint, then removes the oldest ones.

        Args:
            tensors: Tensors of any shape and strides; views of the same memory are stored separately.
            facts: Data that JSON can hold, including NaN and infinities. Tuples are restored as lists.

        Raises:
            DiskFull: There is not enough space; the message names the last good checkpoint, which is kept.
            TypeError: A tensor or value has a type that cannot be restored.
        """
        content = _packed(tensors, facts)
        sweep(self.folder)
        number = max((_number(path) for path in self._files()), default=0) + 1
        path = self.folder / f"checkpoint-{number:06d}-{_hash(content)}.safetensors"
        try:
            with replacing(path) as draft:
                draft.write_bytes(content)
        except DiskFull as error:
            raise DiskFull(f"{error}; {self._last_good()}") from error
        self._remove_old()

    def latest(self) -> Checkpoint | None:
        """Returns the newest valid checkpoint, or None if there is none."""
        newest = self._newest()
        return newest and newest[1]

    def _newest(self) -> tuple[Path, Checkpoint] | None:
        for path in self._files():
            try:
                content = path.read_bytes()
            except FileNotFoundError:  # removed in the meantime, so there is a newer one
                return self._newest()
            if _hash(content) == _match(path)[2]:
                return path, _unpacked(content, path)
            if path not in self._damaged:
                self._damaged.add(path)
                self.notes.append(f"{path} is torn or modified (its hash does not match its name) and was skipped.")
        return None

    def _files(self) -> list[Path]:
        """Returns the checkpoints, newest first."""
        files = [path for path in self.folder.glob("checkpoint-*") if _NAME.fullmatch(path.name)]
        return sorted(files, key=_number, reverse=True)

    def _remove_old(self) -> None:
        # A damaged file must not replace a valid one.
        whole_ones = [path for path in self._files() if path not in self._damaged]
        for path in {*whole_ones[self.keep :], *self._damaged}:
            path.unlink(missing_ok=True)
        self._damaged.clear()

    def _last_good(self) -> str:
        newest = self._newest()
        if newest is None:
            return "there is no earlier checkpoint"
        path, (_, facts) = newest
        epoch = f" (epoch {facts['epoch']})" if "epoch" in facts else ""
        return f"the last good checkpoint is {path.name}{epoch}"


def _match(path: Path) -> re.Match[str]:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return match


def _number(path: Path) -> int:
    return int(_match(path)[1])


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _packed(tensors: dict[str, Tensor], facts: dict[str, Any]) -> bytes:
    _check_fact(facts, "facts")
    for name, tensor in tensors.items():
        if tensor.dtype == torch.complex128:
            raise TypeError(f"tensors[{name!r}] is complex128, which safetensors cannot hold: use torch.view_as_real.")
    plain = {name: _own(tensor) for name, tensor in tensors.items()}
    return safetensors().torch.save(plain, metadata={"facts": json.dumps(facts)})


def _unpacked(content: bytes, path: Path) -> Checkpoint:
    library = safetensors()
    try:
        tensors = {name: _own(tensor) for name, tensor in library.torch.load(content).items()}
    except library.SafetensorError as error:
        raise ValueError(f"{path}: this is not a safetensors file ({error}).") from error
    # The header is JSON with its length in the first eight bytes; `load` does not return the metadata.
    header = parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")], Any, str(path))
    facts_json = header.get("__metadata__", {}).get("facts")
    facts = None if facts_json is None else parse_json(facts_json, Any, f"{path}, facts")
    if not isinstance(facts, dict):
        raise ValueError(f"{path}: this is not a checkpoint: its metadata contain no facts.")
    return tensors, facts


def _own(tensor: Tensor) -> Tensor:
    """Returns a copy with its own memory: safetensors cannot write shared memory, and reads views of the whole file."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _check_fact(value: Any, place: str) -> None:
    """Rejects values that JSON would silently change or cannot hold."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{place} has the key {key!r}: JSON keys are strings, so it could not be restored.")
            _check_fact(item, f"{place}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_fact(item, f"{place}[{index}]")
    elif not isinstance(value, str | int | float | None):
        raise TypeError(f"{place} is a {type(value).__name__}: it must be a number, a string, None, a list or a dict.")
