"""Parity of a block of fair bits, dense or event-coded: mmRNN's synthetic task."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import Sequences, from_numpy
from .events import encode
from .task import Parts, Sizes, Task, add

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


def _make(protocol: str, seed: int, *, train: int, valid: int, test: int, **options: Any) -> Parts:
    """Fair bits leak nothing, so both protocols are one."""
    parts = [bitstream(count, 3 * seed + part, **options) for part, count in enumerate((train, valid, test))]
    return Parts(*parts)


add(
    Task(
        name="bitstream",
        what="the parity of a block of fair bits, told bit by bit or only where they change",
        make=_make,
        sizes=Sizes(train=90_000, valid=10_000, test=10_000, steps=31, channels=1, classes=2),
        loss="cross_entropy",
        metric="accuracy",
        protocols={"clean": "blocks drawn by seed", "paper": "the same"},
        settings={
            "mmrnn": {
                "model": "mmrnn",
                "hidden_size": 64,
                "batch_size": 256,
                "optimizer": "rmsprop",
                "learning_rate": 5e-3,
                "epochs": 500,
            }
        },
        options={
            "event": True,
            "shortest": 2,
            "longest": BLOCK - 1,
            "train": 90_000,
            "valid": 10_000,
            "test": 10_000,
        },
    )
)
