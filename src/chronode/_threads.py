"""The number of torch's threads within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SMALL = 2**20


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Sets the number of torch's threads in a block; None leaves it.

    Example:
        >>> with threads(1):
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(numbers: int) -> int | None:
    """Returns 1 for many small operations on so many numbers, otherwise None.

    On a busy machine, threads of a small operation wait for one another much longer than it takes.
    """
    return 1 if numbers < _SMALL else None
