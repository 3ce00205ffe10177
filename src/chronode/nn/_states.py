"""States of a layer: for the user one tensor per component, inside one tuple per cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ._cell import State


def pack(states: Sequence[State], encoders: int, unbatched: bool) -> State:
    """Stacks the states of cells: one tensor per component, as wide as the widest; the first `encoders` separately."""
    groups = [states[:encoders], states[encoders:]]
    packed = [_stack(parts) for group in groups if group for parts in zip(*group, strict=True)]
    return tuple(part.squeeze(1) for part in packed) if unbatched else tuple(packed)


def unpack(state: State, fresh: Sequence[State], encoders: int, unbatched: bool) -> list[State]:
    """Splits what `pack` returned by cell; `fresh` are the initial states of the cells."""
    parts = [part.unsqueeze(1) for part in state] if unbatched else list(state)
    count = len(fresh[0]) if encoders else 0
    states = [*zip(*(part.unbind(0) for part in parts[:count]), strict=True)]
    states += zip(*(part.unbind(0) for part in parts[count:]), strict=True)
    return [
        tuple(part[:, : own.shape[1]] for part, own in zip(state, owns, strict=True))
        for state, owns in zip(states, fresh, strict=True)
    ]


def check_state(state: Any, wanted: State, device: torch.device, name: str) -> None:
    """Refuses a state that does not have the shapes and types of `wanted`; `name` is the layer's."""
    if not isinstance(state, (tuple, list)) or not all(isinstance(part, Tensor) for part in state):
        raise TypeError(f"state must be the tuple of tensors that {name} returned, got {type(state).__name__}.")
    shapes, expected = [tuple(p.shape) for p in state], [tuple(p.shape) for p in wanted]
    if shapes != expected:
        raise ValueError(
            f"state does not fit this {name}: it has shapes {shapes}, expected {expected}. "
            "Pass the state that this same layer returned for the same batch, or None to start from the initial state."
        )
    for i, part in enumerate(state):
        if part.dtype != wanted[i].dtype or part.device != device:
            message = f"state[{i}] is {part.dtype} on {part.device}, expected {wanted[i].dtype} on {device}"
            raise TypeError(f"{message}: use state[{i}].to({str(device)!r}, {wanted[i].dtype}).")


def _stack(parts: Sequence[Tensor]) -> Tensor:
    """Stacks the states `(B, size)` of cells into one tensor; smaller ones are padded with 0."""
    widest = max(part.shape[1] for part in parts)
    return torch.stack([nn.functional.pad(p, (0, widest - p.shape[1])) if p.shape[1] < widest else p for p in parts])
