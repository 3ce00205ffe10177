"""The copy task: ten symbols are repeated after a long delay."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...data import Parts, Sequences, Target
from ...settings import whole
from ._parts import add, drawn, equal_series

SYMBOLS = 8
MEMORY = 10
BLANK, DELIMITER = SYMBOLS, SYMBOLS + 1
NAMES = (*(f"a{i}" for i in range(SYMBOLS)), "blank", "delimiter")


def copying(count: int, rng: np.random.Generator, *, length: int = 200) -> Sequences:
    """Creates `count` series: 10 of 8 symbols, `length` - 1 blanks, a delimiter, 10 blanks; the target is a class per
    step.

    The class is blank for `length` + 10 steps, followed by the 10 symbols in their order. The values are one-hot: for a
    network that begins with W x this is a learned embedding, so that every layer accepts them directly and has the
    parameter counts of the papers, which only mention categories.

    Example:
        >>> series = copying(1, np.random.default_rng(0), length=3)[0]
        >>> series.values.argmax(1).tolist()
        [6, 5, 4, 2, 2, 0, 0, 0, 1, 6, 8, 8, 9, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]
        >>> series.target.tolist()
        [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 6, 5, 4, 2, 2, 0, 0, 0, 1, 6]
    """
    whole("length", length, at_least=1)
    steps = length + 2 * MEMORY
    symbols = rng.integers(0, SYMBOLS, size=(count, MEMORY))
    inputs = np.full((count, steps), BLANK)
    inputs[:, :MEMORY] = symbols
    inputs[:, MEMORY + length - 1] = DELIMITER
    wanted = np.full((count, steps), BLANK, dtype=np.int32)
    wanted[:, -MEMORY:] = symbols
    values = np.eye(len(NAMES), dtype=np.float32)[inputs]
    target = Target(wanted.reshape(-1), per_step=True, classes=NAMES, names=("symbol",))
    return equal_series(values, target, NAMES)


def memoryless(length: int) -> float:
    """Returns the cross entropy per step without memory of the symbols: 10 log 8 / (`length` + 20).

    Example:
        >>> round(memoryless(200), 3), round(memoryless(500), 3)
        (0.095, 0.04)
    """
    return MEMORY * math.log(SYMBOLS) / (length + 2 * MEMORY)


def _make(protocol: str, seed: int, *, length: int, train: int, valid: int, test: int) -> Parts:
    return drawn(partial(copying, length=length), seed, train=train, valid=valid, test=test)


add("copy", _make)
