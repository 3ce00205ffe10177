"""Groups the observations of a batch by series."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray


def groups(ids: Sequence[str]) -> NDArray[np.int64]:
    """Returns the number of each id, in the order of their first appearance."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in ids], dtype=np.int64)


def repeat(outputs: torch.Tensor, taken: NDArray[np.bool_], group: NDArray[np.int64]) -> None:
    """Gives each skipped observation the output of the previous one in its group, if there is one."""
    last: dict[int, int] = {}
    for place, (was_taken, of) in enumerate(zip(taken.tolist(), group.tolist(), strict=True)):
        if was_taken:
            last[of] = place
        elif of in last:
            outputs[place] = outputs[last[of]]


def by_count(group: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Returns padded batches `(B, T)` of indices, -1 at padding, with groups of similar size together.

    Example:
        >>> [batch.tolist() for batch in by_count(np.array([0, 1, 0, 0, 2]))]
        [[[1], [4]], [[0, 2, 3]]]
    """
    order = np.argsort(group, kind="stable")
    _, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    sizes = np.floor(np.log2(counts)).astype(int)
    batches = []
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        steps = np.arange(counts[chosen].max())
        at = starts[chosen, None] + steps
        inside = steps < counts[chosen, None]
        batches.append(np.where(inside, order[np.where(inside, at, 0)], -1))
    return batches
