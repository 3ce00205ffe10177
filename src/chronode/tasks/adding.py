"""The adding problem: two of many numbers are marked, and their sum is to be said at the end."""

from __future__ import annotations

from functools import partial

import numpy as np

from .._checks import whole
from ..data import Sequences, Target
from ._drawn import drawn
from ._equal import equal_series
from ._task import Parts, Sizes, Task, add

NAIVE = 1 / 6
"""The squared error of always saying 1: the variance of the sum of two numbers of U[0, 1]."""


def adding(count: int, dice: np.random.Generator, *, length: int = 200) -> Sequences:
    """`count` series of `length` numbers of U[0, 1], one marked in each half; the target is the sum of the two.

    Example:
        >>> batch = adding(3, np.random.default_rng(0), length=100).batch()
        >>> batch.x.shape, batch.x[..., 1].sum(1).tolist()
        (torch.Size([3, 100, 2]), [2.0, 2.0, 2.0])
        >>> ((batch.x[..., 0] * batch.x[..., 1]).sum(1) - batch.target[:, 0]).abs().max() < 1e-6
        tensor(True)
    """
    whole("length", length, at_least=2)
    values = np.zeros((count, length, 2), dtype=np.float32)
    values[..., 0] = dice.random((count, length), dtype=np.float32)
    half, row = length // 2, np.arange(count)
    first, second = dice.integers(0, half, size=count), dice.integers(half, length, size=count)
    values[row, first, 1] = 1
    values[row, second, 1] = 1
    total = values[row, first, 0] + values[row, second, 0]
    return equal_series(values, Target(total[:, None], names=("sum",)), ("value", "marker"))


def _make(protocol: str, seed: int, *, length: int, train: int, valid: int, test: int) -> Parts:
    return drawn(partial(adding, length=length), seed, train=train, valid=valid, test=test)


"""What iRNN's authors used for the adding problem and for the copy task; they name no learning rate."""

add(
    Task(
        name="adding",
        what="Adding problem: the sum of two marked values (the constant answer 1 has an MSE of 0.167)",
        make=_make,
        sizes=Sizes(train=6_400, valid=1_000, test=1_000, steps=200, channels=2),
        loss="squared",
        metric="mse",
        protocols={
            "clean": "samples drawn by seed, new ones every epoch; validation and test are fixed",
            "paper": "the same: every sample is new, nothing can leak; lengths 100, 200, 400 and 750",
        },
        options={"length": 200, "train": 6_400, "valid": 1_000, "test": 1_000},
    )
)
