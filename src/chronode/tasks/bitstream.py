"""Parity of a block of fair bits, dense or event-coded: mmRNN's synthetic task."""

from __future__ import annotations

import numpy as np

from ..data import Sequences, from_numpy
from .events import encode

BLOCK = 32


def bitstream(count: int, seed: int, *, event: bool = True, shortest: int = 2, longest: int = BLOCK - 1) -> Sequences:
    """`count` blocks of `shortest` to `longest` bits, times in blocks of 32; the target is their parity.

    Args:
        count: number of blocks.
        seed: of the random bits.
        event: tell only changes and the time between them; otherwise every bit, one time unit apart.
        shortest: least bits of a block.
        longest: most bits of a block.

    Example:
        >>> streams = bitstream(3, seed=0)
        >>> len(streams), streams.batch().target.tolist()
        (3, [1, 0, 0])
    """
    dice = np.random.default_rng(seed)
    lengths = dice.integers(shortest, longest + 1, size=count)
    bits = dice.integers(0, 2, size=(count, longest)).astype(np.int64)
    bits[np.arange(longest) >= lengths[:, None]] = 0
    target = bits.sum(1) % 2
    if event:
        values, gaps, lengths = encode(bits, lengths)
    else:
        values, gaps = bits, np.ones_like(bits)
    told = {"target": target, "classes": ["even", "odd"], "target_names": ["parity"], "channels": ["bit"]}
    return from_numpy(values[..., None], order="NTD", dt=gaps / BLOCK, lengths=lengths, **told)
