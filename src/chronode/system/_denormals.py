"""Numbers too small for the normal range of floats, which most processors handle up to 100 times more slowly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def are_flushed() -> bool:
    """Returns whether torch rounds numbers below the normal range of floats to 0 in this thread."""
    return not bool(torch.tensor(1e-30) * torch.tensor(1e-10))


@contextmanager
def flushed() -> Iterator[None]:
    """Rounds numbers below the normal range, 1e-38 in float32, to 0 in a block, where the processor can.

    Gradients that vanish over many steps are such numbers.

    Example:
        >>> with flushed():
        ...     inside = are_flushed()
        >>> inside, are_flushed()
        (True, False)
    """
    for dtype in (np.float32, np.float64):  # inside, the first call for a dtype would warn
        np.finfo(dtype)
    before = are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
