"""Device functions that generated kernels call: tiles of a batch, and functions of a number.

A program processes a tile of `BLOCK_B` sequences and `BLOCK_U` units over all time steps and keeps its states in
registers. Time is divided into chunks of `CHUNK` steps, which the compiler unrolls: the loads of a chunk are issued
first and overlap with the computation of the steps, which depend on one another.

Lengths are only compared, never used as addresses: wrong lengths give wrong numbers, but no access out of bounds.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile(B, U, BLOCK_B: tl.constexpr, BLOCK_U: tl.constexpr):
    """Returns the tile's sequences and units, the mask of valid elements, and their offsets in a `(B, U)` array."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)[:, None]
    units = tl.program_id(1).to(tl.int64) * BLOCK_U + tl.arange(0, BLOCK_U)[None, :]
    inside = (rows < B) & (units < U)
    return rows, units, inside, rows * U + units


@triton.jit
def lengths_of(lengths, rows, B, T, RAGGED: tl.constexpr):
    """Returns the tile's lengths, limited to T."""
    if RAGGED:
        return tl.minimum(tl.load(lengths + rows, mask=rows < B, other=0), T)
    return rows * 0 + T


@triton.jit
def relu(x):
    """ReLU as in torch: NaN stays NaN."""
    return tl.where(x <= 0, 0.0, x)


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


@triton.jit
def expm1(x):
    """e^x - 1 without losing digits of small x: tanh(x/2) (e^x + 1)."""
    return tanh(0.5 * x) * (tl.exp(x) + 1)


@triton.jit
def log1p(x):
    """log(1 + x) without losing digits of small x: the rounding error of 1 + x cancels."""
    sum = 1 + x
    rounded = sum - 1
    exact = tl.log(sum) * (x / tl.where(rounded == 0, 1, rounded))
    return tl.where(rounded == 0, x, tl.where(sum == float("inf"), x, exact))


@triton.jit
def softplus(x):
    """log(1 + e^x) without overflow."""
    return tl.where(x > 0, x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def sign(x):
    """-1, 0 or 1."""
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0)) + 0 * x
