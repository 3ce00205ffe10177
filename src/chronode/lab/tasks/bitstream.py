"""Parity of a block of random bits, with dense or event-based encoding: the synthetic task of mmRNN."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...data import Parts, Sequences, from_numpy
from ...settings import flag, one_of, whole
from ._events import encode
from ._parts import add

BLOCK = 32
LENGTHS = {"code": (2, BLOCK - 1), "text": (BLOCK, BLOCK)}
"""Minimum and maximum number of bits of a block, in the code and in the text of the mmRNN paper."""


def bitstream(count: int, seed: int, *, event: bool = True, shortest: int = 2, longest: int = BLOCK - 1) -> Sequences:
    """Creates `count` blocks of `shortest` to `longest` bits, with 32 bits per unit of time; the target is their
    parity.

    Args:
        count: Number of blocks.
        seed: Random seed of the bits.
        event: Whether to encode only the changes and the time between them; otherwise every bit, 1/32 apart.
        shortest: Minimum number of bits.
        longest: Maximum number of bits.

    Example:
        >>> streams = bitstream(3, seed=0)
        >>> len(streams), streams.batch().target.tolist()
        (3, [1, 0, 0])
    """
    whole("count", count, at_least=1)
    flag("event", event)
    whole("longest", longest, at_least=whole("shortest", shortest, at_least=1))
    rng = np.random.default_rng(seed)
    lengths = rng.integers(shortest, longest + 1, size=count)
    bits = rng.integers(0, 2, size=(count, longest)).astype(np.int64)
    bits[np.arange(longest) >= lengths[:, None]] = 0
    target = bits.sum(1) % 2
    if event:
        values, gaps, lengths = encode(bits, lengths)
    else:
        values, gaps = bits, np.ones_like(bits)
    options = {"target": target, "classes": ["even", "odd"], "target_names": ["parity"], "channels": ["bit"]}
    return from_numpy(values[..., None], order="NTD", dt=gaps / BLOCK, lengths=lengths, **options)


def _make(protocol: str, seed: int, *, event: bool, block: str, train: int, valid: int, test: int) -> Parts:
    """Creates the parts; random bits do not leak, so both protocols are the same."""
    shortest, longest = LENGTHS[one_of("block", block, LENGTHS)]
    draw = partial(bitstream, event=event, shortest=shortest, longest=longest)
    return Parts(draw(train, 3 * seed), draw(valid, 3 * seed + 1), draw(test, 3 * seed + 2))


add("bitstream", _make)
