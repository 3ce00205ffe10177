"""A reference implementation of a stack: one sequence after another, step by step, without padding.

It shares no code with the driver, the layer and the kernels, so it is an independent check of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ..nn import Cell, Layer, State
from .case import cells


def run_stack(
    layer: Layer, x: Tensor, dt: Tensor, lengths: Tensor, masks: Sequence[Tensor] | None = None
) -> tuple[Tensor, State]:
    """Returns the correct result of `layer(x, dt=dt, lengths=lengths)` for `x (B, T, D)` and `dt (B, T)`.

    The outputs of each layer are multiplied by its dropout mask, `masks (B, output_size)`, one per layer; a block has
    two, for the output of its cell and for its own.
    """
    outputs, states = [], []
    for i, n in enumerate(lengths.tolist()):
        own_masks = [mask[i] for mask in masks or []]
        y, state = _one_sequence(layer, x[i, :n], dt[i, :n], own_masks)
        outputs.append(torch.cat([y, y.new_zeros(x.shape[1] - n, y.shape[1])]))
        states.append(state)
    return torch.stack(outputs), tuple(torch.cat(parts, dim=1) for parts in zip(*states, strict=True))


def _one_sequence(layer: Layer, x: Tensor, dt: Tensor, masks: list[Tensor]) -> tuple[Tensor, State]:
    directions = 2 if layer.bidirectional else 1
    below, encoder_states = _encoded(layer, x, dt, directions)
    if layer.block:
        y, states = _blocks(layer, torch.cat(below, dim=-1) if layer.missing else x, dt, masks)
        return y, (*_packed(encoder_states), *_packed(states))
    levels, states = [below], []  # per level what each direction reads
    for index in range(layer.num_layers):
        outputs = []
        for direction in range(directions):
            inputs = levels[index][direction]
            # Layer l = index + 1 reads y[l-1], and y[l-S-1] if l > S; level 0 is the input.
            if layer.residual > 0 and index + 1 > layer.residual:
                inputs = torch.cat([inputs, levels[index - layer.residual][direction]], dim=-1)
            y, state = _run(cells(layer)[index * directions + direction], inputs, dt, direction)
            outputs.append(y)
            states.append(state)
        y = torch.cat(outputs, dim=-1) * (masks[index] if masks else 1)
        levels.append([y] * directions)
    return levels[-1][0], (*_packed(encoder_states), *_packed(states))


def _blocks(layer: Layer, x: Tensor, dt: Tensor, masks: list[Tensor]) -> tuple[Tensor, list[State]]:
    """Returns the output of a stack of residual blocks in evaluation, and the states of its cells."""
    directions, states = 2 if layer.bidirectional else 1, []
    weights = dict(layer.named_parameters()) | dict(layer.named_buffers())
    x = x @ weights["entry.weight"].T + weights["entry.bias"]
    for index in range(layer.num_layers):
        name, ones = f"blocks.{index}", torch.ones(1, dtype=x.dtype)
        after_cell, after_block = masks[2 * index : 2 * index + 2] if masks else (ones, ones)
        if layer.block_norm == "batch":
            mean, variance = weights[f"{name}.norm.running_mean"], weights[f"{name}.norm.running_var"]
            normalized = (x - mean) / (variance + 1e-5).sqrt()
        else:
            away = x - x.mean(-1, keepdim=True)
            normalized = away / (away.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            normalized = normalized * weights[f"{name}.norm.weight"] + weights[f"{name}.norm.bias"]
        runs = [_run(cells(layer)[index * directions + i], normalized, dt, i) for i in range(directions)]
        v = torch.cat([y for y, _ in runs], dim=-1)
        v = 0.5 * v * (1 + torch.erf(v / 2**0.5)) * after_cell
        value, gate = (v @ weights[f"{name}.gate.weight"].T + weights[f"{name}.gate.bias"]).chunk(2, dim=-1)
        x = x + value / (1 + torch.exp(-gate)) * after_block
        states += [state for _, state in runs]
    return x, states


def _encoded(layer: Layer, x: Tensor, dt: Tensor, directions: int) -> tuple[list[Tensor], list[State]]:
    """Returns the input of each direction: x, or with `missing` the encoding of a fully observed x."""
    if not layer.missing:
        return [x] * directions, []
    observed = torch.cat([x, torch.ones_like(x)], dim=-1)
    runs = [_run(cast(Cell, encoder), observed, dt, i) for i, encoder in enumerate(layer.encoders)]
    return [y for y, _ in runs], [state for _, state in runs]


def _packed(states: list[State]) -> State:
    """Returns each part of the cells' states as `(cells, 1, size)`; narrower parts are padded with zeros."""
    packed = []
    for parts in zip(*states, strict=True):
        stacked = parts[0].new_zeros(len(parts), 1, max(part.shape[1] for part in parts))
        for i, part in enumerate(parts):
            stacked[i, :, : part.shape[1]] = part
        packed.append(stacked)
    return tuple(packed)


def _run(cell: Cell, x: Tensor, dt: Tensor, direction: int) -> tuple[Tensor, State]:
    if direction == 0:
        return _forward(cell, x, dt)
    # Read from the last step: the gap before step n is then the one between n and n + 1.
    order = list(range(len(x) - 1, -1, -1))
    gaps = torch.stack([dt[0], *(dt[n + 1] for n in order[1:])])
    y, state = _forward(cell, x[order], gaps)
    return y[order], state


def _forward(cell: Cell, x: Tensor, dt: Tensor) -> tuple[Tensor, State]:
    state, outputs = cell.initial_state(1, x), []
    for n in range(len(x)):
        y, state = cell(cell.project(x[n : n + 1]), state, dt[n].view(1, 1))
        outputs.append(y)
    return torch.cat(outputs), state
