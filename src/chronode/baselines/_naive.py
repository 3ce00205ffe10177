"""Forecasts that need no training: the last value, the value one season ago, and the line through the history."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import Sequences
from ._grid import on_grid

_LONGEST_SEASON = 400
_LEAST_CORRELATION = 0.3


def find_season(values: NDArray[Any]) -> int:
    """Returns the number of steps after which a regular series repeats itself; 1 if it does not.

    It is the lag of the highest peak of the autocorrelation, of the series without its linear trend or of its
    differences.

    Args:
        values: `(T,)`, NaN where missing.

    Example:
        >>> find_season(np.sin(2 * np.pi * np.arange(120) / 12) + 0.1 * np.arange(120))
        12
        >>> find_season(np.arange(50.0))
        1
    """
    found = [peaks for peaks in _peaks_of_both(values) if peaks]
    if not found:
        return 1
    # A multiple of the season may be a little higher by chance.
    peaks = max(found, key=lambda own: max(own.values()))
    return next(lag for lag, height in peaks.items() if height >= 0.9 * max(peaks.values()))


def possible_seasons(values: NDArray[Any]) -> list[int]:
    """Returns all numbers of steps that may be the season: the highest peak, and the first that is about as high.

    Example:
        >>> possible_seasons(np.sin(2 * np.pi * np.arange(120) / 12) + 0.1 * np.arange(120))
        [12]
    """
    found = set()
    for peaks in _peaks_of_both(values):
        for share in (0.9, 0.999):
            found |= {next((lag for lag, own in peaks.items() if own >= share * max(peaks.values())), 1)}
    return sorted(found - {1})


def _peaks_of_both(values: NDArray[Any]) -> tuple[dict[int, float], dict[int, float]]:
    """Returns the peaks of the autocorrelations of a series and of its differences, by lag."""
    known = ~np.isnan(values)
    if known.sum() < 8:
        return {}, {}
    steps = np.arange(len(values))
    filled = np.interp(steps, steps[known], values[known].astype(np.float64))
    least = 1e-12 * max(float(filled @ filled), 1e-300)  # less is rounding
    return _peaks(filled, least), _peaks(np.diff(filled), least)


def _peaks(values: NDArray[np.float64], least: float) -> dict[int, float]:
    steps = np.arange(len(values))
    rest = values - np.polyval(np.polyfit(steps, values, 1), steps)
    power = float(rest @ rest)
    if power <= least:
        return {}
    longest = min(len(rest) // 3, _LONGEST_SEASON)
    lags = np.arange(longest + 2)
    found = [float(rest[lag:] @ rest[: len(rest) - lag]) / power * len(rest) / (len(rest) - lag) for lag in lags]
    return {
        lag: found[lag]
        for lag in range(2, longest + 1)
        if found[lag] >= _LEAST_CORRELATION and found[lag - 1] < found[lag] >= found[lag + 1]
    }


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
