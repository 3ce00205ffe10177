"""Shared code of the kernels: tiles of a batch, and functions of a step.

A program processes a tile of `BLOCK_B` sequences and `BLOCK_H` units over all time steps and keeps its states in
registers. Time is divided into chunks of `CHUNK` steps, which the compiler unrolls: the loads of a chunk are issued
first and overlap with the computation of the steps, which depend on one another.

Lengths are only compared, never used as addresses: wrong lengths give wrong numbers, but no access out of bounds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .. import triton as sizes

TYPES = {torch.float32: tl.float32, torch.float64: tl.float64}
"""Types of states."""


class Tiles(NamedTuple):
    """Division of `batch` sequences of `hidden` units into tiles."""

    rows: int
    columns: int
    grid: tuple[int, int]

    @property
    def options(self) -> dict[str, int]:
        """The launch options of every kernel of this package."""
        return {"BLOCK_B": self.rows, "BLOCK_H": self.columns, "CHUNK": sizes.CHUNK, "num_warps": 1}


def tiles(batch: int, hidden: int) -> Tiles:
    """Returns tiles with as many units of one sequence as fit, so that adjacent memory is read together."""
    columns = min(sizes.TILE, 1 << math.ceil(math.log2(hidden)))
    rows = sizes.TILE // columns
    return Tiles(rows, columns, (math.ceil(batch / rows), math.ceil(hidden / columns)))


def given(tensor: Tensor | None, like: Tensor) -> Tensor:
    """Returns the tensor, or a placeholder for a pointer that the kernel does not read."""
    return like if tensor is None else tensor


@triton.jit
def tile(B, H, BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr):
    """Returns the tile's sequences and units, the mask of valid elements, and their offsets in a `(B, H)` array."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)[:, None]
    columns = tl.program_id(1).to(tl.int64) * BLOCK_H + tl.arange(0, BLOCK_H)[None, :]
    inside = (rows < B) & (columns < H)
    return rows, columns, inside, rows * H + columns


@triton.jit
def lengths_of(lengths, rows, B, T, RAGGED: tl.constexpr):
    """Returns the tile's lengths, limited to T."""
    if RAGGED:
        return tl.minimum(tl.load(lengths + rows, mask=rows < B, other=0), T)
    return rows * 0 + T


@triton.jit
def tanh(x):
    """tanh in the precision of x.

    1 - e^(-2|x|) would lose digits for small x. There a series is used, up to a limit at which both are exact up to
    rounding.
    """
    magnitude = tl.abs(x)
    power = tl.exp(-2 * magnitude)
    large = (1 - power) / (1 + power)
    square = x * x
    series = x * (1 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315 + square * (62 / 2835)))))
    limit: tl.constexpr = 0.02 if x.dtype == tl.float64 else 0.3
    return tl.where(magnitude < limit, series, tl.where(x < 0, -large, large))


@triton.jit
def sigmoid(x):
    """Sigmoid in the precision of x, without overflow."""
    power = tl.exp(-tl.abs(x))
    return tl.where(x < 0, power, 1) / (1 + power)
