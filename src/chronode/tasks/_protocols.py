"""Divisions that several tasks share: blocks of time without a leak, and the authors' shuffled windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..data import Scaler, Sequences, split_by_time, windows
from ._task import Parts

NAMES = ("train", "valid", "test")
BLOCKS = (0.75, 0.10, 0.15)
"""Fractions of the rows in training, validation and test: those of LTC's authors."""


def blocks(s: Sequences, length: int, strides: Sequence[int], fractions: Sequence[float] = BLOCKS) -> list[Sequences]:
    """Windows of blocks that follow one another in time: no row is in two parts.

    Args:
        s: the series.
        length: steps of a window.
        strides: of the windows of each part.
        fractions: of the rows in each part: training, validation and, where it is no file of its own, test.

    Example:
        >>> from chronode.data import from_list
        >>> parts = blocks(from_list([np.arange(20.0)], ids=["day"]), 2, (1, 2), (0.7, 0.3))
        >>> [len(part) for part in parts], parts[1].ids.tolist()
        ([13, 3], ['day valid[0:2]', 'day valid[2:4]', 'day valid[4:6]'])
    """
    parts = []
    for name, part, stride in zip(NAMES, split_by_time(s, fractions, whole_groups=False), strides, strict=False):
        ids = np.char.add(part.ids.astype(str), f" {name}")
        parts.append(windows(replace(part, ids=ids, groups=ids.copy()), length, stride, lead="gap"))
    return parts


def range_windows(s: Sequences, length: int, stride: int) -> Sequences:
    """Windows as the papers' code cuts them: `range(0, steps - length, stride)` are the first steps.

    So the window that would end with its series is not made. The dt of a window's first step is the gap before it.

    Example:
        >>> from chronode.data import from_list
        >>> range_windows(from_list([np.arange(6.0)], ids=["a"]), 2, 2).ids.tolist()
        ['a[0:2]', 'a[2:4]']
    """
    longer = s[s.lengths > length]
    if not len(longer):
        raise ValueError(f"no series is longer than a window of {length} steps.")
    return windows(replace(longer, lengths=longer.lengths - 1), length, stride, lead="gap")


def shuffled(
    s: Sequences, seed: int, *, valid: float = 0.1, test: float = 0.15
) -> tuple[Sequences, Sequences, Sequences]:
    """(train, valid, test) as the papers' code draws them: windows one by one, so that overlapping ones are parted.

    Args:
        s: the windows.
        seed: of NumPy's RandomState, which the authors fixed.
        valid: fraction of the validation part, which comes first in the draw.
        test: fraction of the test part, which comes next.
    """
    order = np.random.RandomState(seed).permutation(len(s))
    first = int(valid * len(s))
    second = first + int(test * len(s))
    return s[order[second:]], s[order[:first]], s[order[first:second]]


def scaled(train: Sequences, valid: Sequences, test: Sequences, scaler: Scaler | None = None) -> Parts:
    """The parts scaled by `scaler`, or by the statistics of `train`."""
    scaler = Scaler.fit(train) if scaler is None else scaler
    return Parts(scaler.transform(train), scaler.transform(valid), scaler.transform(test), scaler=scaler)
