"""Parity of a block of fair bits, dense or event-coded: mmRNN's synthetic task."""

from __future__ import annotations

from functools import partial

import numpy as np

from .._checks import flag, one_of, whole
from ..data import Sequences, from_numpy
from ._events import encode
from ._task import Parts, Sizes, Task, add

BLOCK = 32
LENGTHS = {"code": (2, BLOCK - 1), "text": (BLOCK, BLOCK)}
"""Fewest and most bits of a block: as mmRNN's authors' code draws them, and as their text says."""


def bitstream(count: int, seed: int, *, event: bool = True, shortest: int = 2, longest: int = BLOCK - 1) -> Sequences:
    """`count` blocks of `shortest` to `longest` bits, times in blocks of 32; the target is their parity.

    Args:
        count: number of blocks.
        seed: of the random bits.
        event: tell only changes and the time between them; otherwise every bit, 1/32 apart.
        shortest: fewest bits of a block.
        longest: most bits of a block.

    Example:
        >>> streams = bitstream(3, seed=0)
        >>> len(streams), streams.batch().target.tolist()
        (3, [1, 0, 0])
    """
    whole("count", count, at_least=1)
    flag("event", event)
    whole("longest", longest, at_least=whole("shortest", shortest, at_least=1))
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


def _make(protocol: str, seed: int, *, event: bool, block: str, train: int, valid: int, test: int) -> Parts:
    """Fair bits leak nothing, so both protocols are one."""
    shortest, longest = LENGTHS[one_of("block", block, LENGTHS)]
    draw = partial(bitstream, event=event, shortest=shortest, longest=longest)
    return Parts(draw(train, 3 * seed), draw(valid, 3 * seed + 1), draw(test, 3 * seed + 2))


add(
    Task(
        name="bitstream",
        what="Bit-stream parity, dense or event-based encoding",
        make=_make,
        sizes=Sizes(train=100_000, valid=10_000, test=10_000, steps=31, channels=1, classes=2),
        loss="cross_entropy",
        metric="accuracy",
        protocols={
            "clean": "blocks of 2 to 31 bits drawn by seed: 100,000 to learn from, 10,000 others to choose by, 10,000 "
            "others to report",
            "paper": "the same. The authors' code draws 2 to 31 bits, their text says exactly 32 (block='text'); they "
            "have no validation part and report the last epoch. Nothing leaks",
        },
        options={"event": True, "block": "code", "train": 100_000, "valid": 10_000, "test": 10_000},
    )
)
