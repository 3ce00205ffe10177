"""The file of the states of a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._documents import parse_json
from .._files import replacing
from ..runs import Trained
from ._states import fingerprint

FORMAT, VERSION = "chronode-stream", "1"


def write_states(
    path: Path, trained: Trained, ids: Sequence[str], tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    """Writes the states of all ids; an existing file is replaced atomically."""
    from safetensors.torch import save

    content = {name: tensor.contiguous() for name, tensor in tensors.items()}
    content["ids"] = torch.frombuffer(bytearray(json.dumps(ids).encode()), dtype=torch.uint8)
    header = {"format": FORMAT, "version": VERSION, "model": fingerprint(trained.model)}
    with replacing(path) as draft:
        draft.write_bytes(save(content, metadata={**header, "facts": json.dumps(facts)}))


def read_states(path: Path, trained: Trained) -> tuple[list[str], dict[str, Tensor], dict[str, Any]]:
    """Returns (ids, tensors, facts) of a file; rejects a damaged file and the states of another model."""
    from ..runs._pack import read_safetensors

    tensors, header = read_safetensors(path)
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise ValueError(f"{path}: this is not a file of stream states of version {VERSION}.")
    if header.get("model") != fingerprint(trained.model):
        raise ValueError(f"{path}: these states belong to another model, not to {trained.path}.")
    facts = parse_json(header.get("facts", ""), dict[str, Any], f"{path}: facts")
    ids = parse_json(tensors.pop("ids", torch.empty(0)).numpy().tobytes(), list[str], f"{path}: ids")
    return ids, tensors, facts
