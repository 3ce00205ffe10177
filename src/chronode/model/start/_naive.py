"""Forecasts that need no training: the last value, the value one season ago, and the line through the history."""

from __future__ import annotations

import torch
from torch import Tensor

from ...data import Sequences
from ._grid import on_grid


def last_value(history: Tensor, lengths: Tensor, horizon: int) -> Tensor:
    """Repeats the last value of each channel: `(B, horizon, C)`.

    Example:
        >>> last_value(torch.tensor([[[1.0], [5.0]]]), torch.tensor([2]), 3).flatten().tolist()
        [5.0, 5.0, 5.0]
    """
    return _at(history, lengths, torch.zeros(horizon, dtype=torch.int64))


def seasonal_naive(history: Tensor, lengths: Tensor, horizon: int, season: int) -> Tensor:
    """Repeats the values of the last season: `(B, horizon, C)`.

    Example:
        >>> seasonal_naive(torch.arange(6.0)[None, :, None], torch.tensor([6]), 4, 3).flatten().tolist()
        [3.0, 4.0, 5.0, 3.0]
    """
    return _at(history, lengths, season - 1 - torch.arange(horizon) % season)


def drift(history: Tensor, lengths: Tensor, horizon: int) -> Tensor:
    """Continues the line from the first to the last value: `(B, horizon, C)`.

    Example:
        >>> drift(torch.tensor([[[1.0], [3.0], [5.0]]]), torch.tensor([3]), 2).flatten().tolist()
        [7.0, 9.0]
    """
    last = last_value(history, lengths, horizon)
    rise = (last - history[:, :1]) / (lengths[:, None, None] - 1).clamp(min=1)
    return last + rise * torch.arange(1, horizon + 1)[None, :, None]


def histories(windows: Sequences, channels: list[int], gap: float) -> tuple[Tensor, Tensor]:
    """Returns values `(B, T, C)` of these channels on a regular grid, 0 if a channel has no reading, and lengths."""
    batch = windows.batch()
    observed = None if batch.observed is None else batch.observed[..., channels]
    x, lengths = on_grid(batch.x[..., channels].double(), batch.lengths, batch.dt, observed, gap=gap)
    return x.nan_to_num(nan=0.0), lengths


def _at(history: Tensor, lengths: Tensor, back: Tensor) -> Tensor:
    """Returns the values this many steps before the last; the first value if the history is shorter."""
    at = (lengths[:, None] - 1 - back).clamp(min=0)
    return history.gather(1, at[..., None].expand(*at.shape, history.shape[2]))
