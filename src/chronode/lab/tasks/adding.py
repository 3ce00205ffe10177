"""The adding problem: the sum of two marked numbers is predicted at the end of a long series."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...data import Parts, Sequences, Target
from ...settings import whole
from ._parts import add, drawn, equal_series

NAIVE = 1 / 6
"""The squared error of always predicting 1: the variance of the sum of two U[0, 1] numbers."""


def adding(count: int, rng: np.random.Generator, *, length: int = 200) -> Sequences:
    """Creates `count` series of `length` numbers from U[0, 1], with one marked in each half; the target is their sum.

    Example:
        >>> batch = adding(3, np.random.default_rng(0), length=100).batch()
        >>> batch.x.shape, batch.x[..., 1].sum(1).tolist()
        (torch.Size([3, 100, 2]), [2.0, 2.0, 2.0])
        >>> ((batch.x[..., 0] * batch.x[..., 1]).sum(1) - batch.target[:, 0]).abs().max() < 1e-6
        tensor(True)
    """
    whole("length", length, at_least=2)
    values = np.zeros((count, length, 2), dtype=np.float32)
    values[..., 0] = rng.random((count, length), dtype=np.float32)
    half, row = length // 2, np.arange(count)
    first, second = rng.integers(0, half, size=count), rng.integers(half, length, size=count)
    values[row, first, 1] = 1
    values[row, second, 1] = 1
    total = values[row, first, 0] + values[row, second, 0]
    return equal_series(values, Target(total[:, None], names=("sum",)), ("value", "marker"))


def _make(protocol: str, seed: int, *, length: int, train: int, valid: int, test: int) -> Parts:
    return drawn(partial(adding, length=length), seed, train=train, valid=valid, test=test)


add("adding", _make)
