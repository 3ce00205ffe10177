"""Splits shared by several tasks: blocks of time without a leak, and the shuffled windows of the authors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...data import Parts, Scaler, Sequences, split_by_time, windows

NAMES = ("train", "valid", "test")
BLOCKS = (0.75, 0.10, 0.15)
"""Fractions of the rows in training, validation and test, as used by the authors of LTC."""


def blocks(s: Sequences, length: int, strides: Sequence[int], fractions: Sequence[float] = BLOCKS) -> list[Sequences]:
    """Cuts windows from consecutive blocks of time: no row is in two parts.

    Args:
        s: The series.
        length: Steps of a window.
        strides: Stride of the windows of each part.
        fractions: Fractions of the rows in each part: training, validation and, unless it has its own file, test.

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
    """Cuts windows as in the code of the papers: `range(0, steps - length, stride)` are the first steps.

    The window at the very end of a series is therefore missing. The dt of the first step is the gap before it.

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
    """Splits windows into (train, valid, test) as in the code of the papers: at random, separating overlapping ones.

    Args:
        s: The windows.
        seed: Seed of NumPy's RandomState, fixed by the authors.
        valid: Fraction of the validation part, which is drawn first.
        test: Fraction of the test part, which is drawn next.
    """
    order = np.random.RandomState(seed).permutation(len(s))
    first = int(valid * len(s))
    second = first + int(test * len(s))
    return s[order[second:]], s[order[:first]], s[order[first:second]]


def scaled(train: Sequences, valid: Sequences, test: Sequences, scaler: Scaler | None = None) -> Parts:
    """Scales the parts by `scaler`, or by the statistics of `train`."""
    scaler = Scaler.fit(train) if scaler is None else scaler
    return Parts(scaler.transform(train), scaler.transform(valid), scaler.transform(test), scaler=scaler)
