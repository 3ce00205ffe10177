"""Series of equal length without times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...data import Sequences, Target


def equal_series(values: NDArray[np.float32], target: Target, channels: tuple[str, ...]) -> Sequences:
    """Creates series of equal length without times from `values (N, T, D)` without copying.

    Example:
        >>> target = Target(np.zeros((5, 1), dtype=np.float32))
        >>> equal_series(np.zeros((5, 4, 1), dtype=np.float32), target, ("x",))
        Sequences(5 series, 20 steps, 1 channels, target='target')
    """
    count, steps, width = values.shape
    ids = np.arange(count)
    return Sequences(
        base_values=values.reshape(-1, width),
        base_times=None,
        starts=ids * steps,
        lengths=np.full(count, steps),
        ids=ids,
        groups=ids,
        target=target,
        channels=channels,
    )
