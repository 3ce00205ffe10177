"""Training time of one batch by sequence length (UnICORNN Fig. 2)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ...nn import create
from ...storage import Result

TORCH_LSTM = "torch.nn.LSTM"


@dataclass(frozen=True)
class Speed(Result):
    """Median seconds of a forward and backward pass on this machine.

    Attributes:
        models: Names of the models.
        lengths: Length T of each column.
        batch: Sequences per batch.
        hidden_size: Units H.
        seconds: `(models, lengths)` median seconds.
    """

    models: tuple[str, ...]
    lengths: tuple[int, ...]
    batch: int
    hidden_size: int
    seconds: NDArray[np.float64]


def training_speed(
    models: Sequence[str] = ("unicornn", TORCH_LSTM, "sru", "indrnn"),
    lengths: Sequence[int] = (500, 1000, 2000),
    *,
    batch: int = 32,
    hidden_size: int = 64,
    layers: int = 2,
    repeats: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> Speed:
    """Times each model; "torch.nn.LSTM" is the LSTM of PyTorch with one layer, as in the paper.

    Args:
        models: Registered names, or "torch.nn.LSTM".
        lengths: Sequence lengths.
        batch: Sequences per batch.
        hidden_size: Units H.
        layers: Number of layers of all models except "torch.nn.LSTM".
        repeats: Number of rounds; the median is reported.
        progress: Called with (finished timings, total timings).

    Example:
        >>> training_speed(["unicornn"], [10, 20], batch=2, hidden_size=4, repeats=1).seconds.shape
        (1, 2)
    """
    seconds = np.empty((len(models), len(lengths)))
    for i, name in enumerate(models):
        for j, length in enumerate(lengths):
            layer = (
                create(name, 1, hidden_size, layers)
                if name != TORCH_LSTM
                else torch.nn.LSTM(1, hidden_size, batch_first=True)
            )
            x = torch.randn(batch, length, 1)
            times = []
            for _ in range(repeats + 1):
                start = time.perf_counter()
                layer(x)[0].sum().backward()
                times.append(time.perf_counter() - start)
            seconds[i, j] = statistics.median(times[1:])  # the first one warms up caches and allocators
            if progress:
                progress(i * len(lengths) + j + 1, seconds.size)
    return Speed(tuple(models), tuple(lengths), batch, hidden_size, seconds)
