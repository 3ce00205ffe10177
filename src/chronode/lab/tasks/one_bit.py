"""One bit remembered: the first value of a series is its class, faint noise follows."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...data import Parts, Sequences, Target
from ...settings import whole
from ._parts import add, drawn, equal_series

NOISE = 0.05
"""Standard deviation of the values after the first one."""


def one_bit(count: int, rng: np.random.Generator, *, length: int = 400) -> Sequences:
    """Creates `count` series of `length` values: +1 or -1, then noise; the target is the sign of the first value.

    Example:
        >>> batch = one_bit(3, np.random.default_rng(0), length=50).batch()
        >>> batch.x.shape, bool(((batch.x[:, 0, 0] > 0) == (batch.target == 1)).all())
        (torch.Size([3, 50, 1]), True)
    """
    whole("length", length, at_least=2)
    values = NOISE * rng.standard_normal((count, length, 1), dtype=np.float32)
    label = rng.integers(0, 2, size=count)
    values[:, 0, 0] = 2.0 * label - 1
    target = Target(label.astype(np.int32), classes=("down", "up"), names=("bit",))
    return equal_series(values, target, ("value",))


def _make(protocol: str, seed: int, *, length: int, train: int, valid: int, test: int) -> Parts:
    return drawn(partial(one_bit, length=length), seed, train=train, valid=valid, test=test)


add("one-bit", _make)
