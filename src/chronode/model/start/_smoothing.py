"""Exponential smoothing, drift and seasonal adjustment as linear maps from a window to the values that follow it.

Nothing is fitted: these maps also suit series that are too short for a regression. A map is `(K, H)`: weights of the K
values of a window, oldest first, for each of H steps ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

_LEVELS = (0.1, 0.2, 0.35, 0.5, 0.7)
_SPANS = (4, 8, 12, 16, 24, 36)
_TREND_LEVELS, _TREND_SLOPES = (0.3, 0.9), (0.05, 0.5)
_DAMPING = (1.0, 0.95, 0.85)
_SEASON_MEMORIES = (0.6, 1.0)


def smoothing_maps(steps: int, horizon: int, seasons: Sequence[int]) -> dict[tuple[str, int], Tensor]:
    """Returns smoothed levels, drifts and damped trends by name and season, 1 without seasonal adjustment.

    Example:
        >>> maps = smoothing_maps(12, 2, seasons=[])
        >>> (torch.arange(12.0).double() @ maps["drift over 4, damping 1", 1]).tolist()
        [12.0, 13.0]
    """
    plain = {**_levels(steps, horizon), **_drifts(steps, horizon), **_trends(steps, horizon)}
    found = {(name, 1): weight for name, weight in plain.items()}
    last = torch.eye(steps, dtype=torch.float64)[:, -1:].expand(-1, horizon)
    for season in [season for season in seasons if season + 2 <= steps]:
        for memory in _SEASON_MEMORIES:
            adjusted, ahead = _adjustment(steps, horizon, season, memory)
            for name, weight in {"last value": last, **plain}.items():
                found[f"{name}, season of {season} (memory {memory:g})", season] = adjusted @ weight + ahead
    return found


def _levels(steps: int, horizon: int) -> dict[str, Tensor]:
    """Simple exponential smoothing: `level = share * value + (1 - share) * level`."""
    found = {}
    for share in _LEVELS:
        weight = share * (1 - share) ** torch.arange(steps - 1, -1, -1, dtype=torch.float64)
        weight[0] /= share
        found[f"level {share:g}"] = weight[:, None].expand(-1, horizon)
    return found


def _drifts(steps: int, horizon: int) -> dict[str, Tensor]:
    """The last value plus the mean change over several spans."""
    value, found = torch.eye(steps, dtype=torch.float64), {}
    for span in sorted({*(span for span in _SPANS if span < steps), steps - 1} - {0}):
        slope = (value[:, -1:] - value[:, -1 - span, None]) / span
        for damping in _DAMPING:
            found[f"drift over {span}, damping {damping:g}"] = value[:, -1:] + slope * _reach(horizon, damping)
    return found


def _trends(steps: int, horizon: int) -> dict[str, Tensor]:
    """Exponential smoothing of a level and a damped slope (Holt)."""
    value = torch.eye(steps, dtype=torch.float64)
    settings = list(product(_TREND_LEVELS, _TREND_SLOPES, _DAMPING))
    share, slope_share, damping = torch.tensor(settings, dtype=torch.float64).T[..., None]
    first = min(4, steps - 1)
    level, slope = (
        value[0].expand(len(settings), -1),
        ((value[first] - value[0]) / max(first, 1)).expand_as(share * value[0]),
    )
    for place in range(1, steps):
        before = level
        level = share * value[place] + (1 - share) * (level + damping * slope)
        slope = slope_share * (level - before) + (1 - slope_share) * damping * slope
    return {
        f"trend {own[0]:g}, {own[1]:g}, damping {own[2]:g}": level[i, :, None]
        + slope[i, :, None] * _reach(horizon, own[2])
        for i, own in enumerate(settings)
    }


def _reach(horizon: int, damping: float) -> Tensor:
    """Returns how many slopes are added at each step ahead: `damping + damping^2 + ...`."""
    return torch.cumsum(damping ** torch.arange(1, horizon + 1, dtype=torch.float64), 0)


def _adjustment(steps: int, horizon: int, season: int, memory: float) -> tuple[Tensor, Tensor]:
    """Returns the maps to the seasonally adjusted window `(K, K)` and to the seasonal component ahead `(K, H)`.

    The component of a phase is the mean deviation from a moving average over one season; a cycle counts `memory` times
    as much as the next one.
    """
    deviation = torch.eye(steps, dtype=torch.float64) - _moving_average(steps, season)
    phases = []
    for phase in range(season):  # steps before the last one
        cycles = torch.arange(steps - 1 - phase, -1, -season)
        weight = memory ** torch.arange(len(cycles), dtype=torch.float64)
        phases.append(deviation[:, cycles] @ (weight / weight.sum()))
    component = torch.stack(phases, dim=1)
    component = component - component.mean(1, keepdim=True)
    inside = component[:, torch.arange(steps - 1, -1, -1) % season]
    ahead = component[:, season - 1 - torch.arange(horizon) % season]
    return torch.eye(steps, dtype=torch.float64) - inside, ahead


def _moving_average(steps: int, season: int) -> Tensor:
    """Returns the map `(K, K)` to centered means over one season, continued on straight lines at both ends."""
    half = season // 2
    found = torch.zeros(steps, steps, dtype=torch.float64)
    first, last = half, steps - 1 - half
    for place in range(first, last + 1):
        found[place - half : place + half + 1, place] = 1 / season
        if season % 2 == 0:  # the first and the last value have the same phase
            found[[place - half, place + half], place] /= 2
    span = min(season, last - first)
    late, early = found[:, last] - found[:, last - span], found[:, first + span] - found[:, first]
    for away in range(1, half + 1):
        found[:, last + away] = found[:, last] + late * away / span
        found[:, first - away] = found[:, first] - early * away / span
    return found
