"""Families of linear maps from a window to the values that follow it.

A window `v` of K values is relative to its last value. Every map here has the form

    v @ base + (v @ features) @ w + b,

where `base` is a forecast without anything to fit: it repeats the last value, the last season, or the last season
shifted by its latest change, or smooths the window. `features` are the quantities that such a forecast assumes to be
constant: differences, changes since one season ago, or differences of such changes. Maps that smooth a window have
none: all of them with the same season form one family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import torch
from torch import Tensor


@dataclass(frozen=True)
class Family:
    """The naive forecast and the features of a ridge regression.

    Attributes:
        name: Name in reports.
        base: `(F, H)` the naive forecast; `(P, F, H)` for P maps without features.
        features: `(F, M)`, the newest first.
        channel: The channel whose values are used, F = K; None for the values of all channels, step by step.
        recursive: Whether the map one step ahead can be applied to its own forecasts.
        width: Columns of `features` that belong to one lag.
        level: Whether the naive forecast has no trend, so that a mean change may be added to it.
        reach: Steps that a feature looks back, in addition to the number of its lag.
        anchor: `(F,)` the level around which the values return; the features are then deviations from it.
        maps: Names of the maps of a family without features.
    """

    name: str
    base: Tensor
    features: Tensor
    channel: int | None
    recursive: bool = True
    width: int = 1
    level: bool = False
    reach: int = 1
    anchor: Tensor | None = None
    maps: tuple[str, ...] = ()

    def seen(self, x: Tensor) -> Tensor:
        """Returns the values of windows `(N, K, C)` that are used, `(N, F)`."""
        return x.flatten(1) if self.channel is None else x[:, :, self.channel]

    def of_all(self, weight: Tensor, channels: int) -> Tensor:
        """Returns weights `(F, H)` as weights of all values of a window, `(K, C, H)`."""
        if self.channel is None:
            return weight.reshape(-1, channels, weight.shape[1])
        every = weight.new_zeros(len(weight), channels, weight.shape[1])
        every[:, self.channel] = weight
        return every


@lru_cache(16)
def families(steps: int, horizon: int, seasons: tuple[int, ...], channel: int = 0) -> tuple[Family, ...]:
    """Returns the families that continue one channel from its own values.

    Example:
        >>> [family.name for family in families(20, 3, seasons=(7,))][:6]
        ['last value', 'mean', 'season of 7', 'moved season of 7', 'mean season of 7', 'smoothing']
    """
    value = torch.eye(steps, dtype=torch.float64).flip(1)  # column j: the value j steps before the last
    result = [Family("last value", value[:, [0] * horizon], value[:, :-1] - value[:, 1:], channel, level=True)]
    mean = value.mean(1, keepdim=True).expand(-1, horizon)
    result.append(Family("mean", mean, value[:, :-1] - mean[:, :1], channel, reach=0, anchor=mean[:, 0]))
    for season in [season for season in seasons if season + 2 <= steps]:
        ahead = torch.arange(horizon)
        at, cycles = season - 1 - ahead % season, ahead // season + 1
        change = value[:, :-season] - value[:, season:]
        result.append(Family(f"season of {season}", value[:, at], change, channel, reach=season))
        if change.shape[1] > 1:
            moved, changes = value[:, at] + change[:, :1] * cycles, change[:, :-1] - change[:, 1:]
            name = f"moved season of {season}"
            result.append(Family(name, moved, changes, channel, reach=season + 1))
        if steps >= 2 * season:
            mean = torch.stack([value[:, at + season * i] for i in range(steps // season)]).mean(0)
            name = f"mean season of {season}"
            result.append(Family(name, mean, change, channel, recursive=False, reach=season))
    nothing = torch.zeros(steps, 0, dtype=torch.float64)
    smoothing = smoothing_maps(steps, horizon, seasons)
    for season in sorted({season for _, season in smoothing}):
        maps = {name: weight for (name, period), weight in smoothing.items() if period == season}
        base, name = torch.stack(list(maps.values())), smoothing_name(season)
        result.append(Family(name, base, nothing, channel, maps=tuple(maps)))
    return tuple(result)


def rivals(family: Family) -> list[list[int]]:
    """Returns the numbers of smoothing maps that differ only in how fast they adapt: of the levels, of the Theta
    forecasts and of the most damped trends, for each memory of the season.
    """
    kinds: dict[tuple[str, str], list[int]] = {}
    for number, name in enumerate(family.maps):
        kind = name.split()[0]
        if kind in ("level", "theta") or (kind == "trend" and f"damping {min(_DAMPING):g}" in name):
            kinds.setdefault((kind, name.partition("memory")[2]), []).append(number)
    return list(kinds.values())


def smoothing_name(season: int) -> str:
    """Returns the name of the family of maps that smooth a window without this season, 1 for none."""
    return "smoothing" if season == 1 else f"smoothing with a season of {season}"


def joint_family(steps: int, channels: int, own: int, horizon: int) -> Family:
    """Returns the family that uses the differences of all channels and the last values of the other channels.

    Windows are flattened step by step; `own` is the channel to continue.
    """
    value = torch.eye(steps * channels, dtype=torch.float64).reshape(-1, steps, channels).flip(1)
    last = value[:, 0]
    change = (value[:, :-1] - value[:, 1:]).flatten(1)
    others = last[:, [channel for channel in range(channels) if channel != own]]
    features = torch.cat([others, torch.zeros(len(last), 1, dtype=torch.float64), change], dim=1)
    return Family("all channels", last[:, [own] * horizon], features, None, recursive=False, width=channels)


_LEVELS = (0.05, 0.15, 0.3, 0.5, 0.75, 1.0)
_SPANS = (4, 8, 12, 16, 24, 36)
_DAMPING = (1.0, 0.95, 0.85)
_TREND_SETTINGS = tuple(product((0.2, 0.5, 0.9), (0.05, 0.3), _DAMPING))
_SEASON_MEMORIES = (0.7, 1.0)


def smoothing_maps(steps: int, horizon: int, seasons: Sequence[int]) -> dict[tuple[str, int], Tensor]:
    """Returns smoothed levels, drifts, damped trends and Theta forecasts by name and season, 1 without seasonal
    adjustment.

    Example:
        >>> maps = smoothing_maps(12, 2, seasons=[])
        >>> (torch.arange(12.0).double() @ maps["drift over 4, damping 1", 1]).tolist()
        [12.0, 13.0]
    """
    levels = levels_of(steps)
    plain = {f"level {share:g}": level[:, None].expand(-1, horizon) for share, level in levels.items()}
    plain |= {**thetas(levels, horizon), **_drifts(steps, horizon), **trends(steps, horizon)}
    maps = {(name, 1): weight for name, weight in plain.items()}
    for season in [season for season in seasons if season + 2 <= steps]:
        for memory in _SEASON_MEMORIES:
            adjusted, ahead = adjustment(steps, horizon, season, memory)
            for name, weight in plain.items():
                maps[f"{name}, season of {season} (memory {memory:g})", season] = adjusted @ weight + ahead
    return maps


def levels_of(steps: int, shares: Sequence[float] = _LEVELS) -> dict[float, Tensor]:
    """Simple exponential smoothing, `level = share * value + (1 - share) * level`: weights `(K,)` by share."""
    found = {}
    for share in shares:
        weight = share * (1 - share) ** torch.arange(steps - 1, -1, -1, dtype=torch.float64)
        weight[0] += 1 - weight.sum()
        found[share] = weight
    return found


def thetas(levels: dict[float, Tensor], horizon: int) -> dict[str, Tensor]:
    """The Theta method (Assimakopoulos and Nikolopoulos 2000): a smoothed level with half of the slope of the line
    through the window, which also makes up for how far the level lags behind the line.
    """
    found, ahead = {}, torch.arange(horizon, dtype=torch.float64)
    for share, level in levels.items():
        steps = torch.arange(len(level), dtype=torch.float64) - (len(level) - 1) / 2
        slope = steps / steps.square().sum().clamp(min=1e-12)
        lag = (1 - (1 - share) ** len(level)) / share
        found[f"theta {share:g}"] = level[:, None] + 0.5 * slope[:, None] * (ahead + lag)
    return found


def _drifts(steps: int, horizon: int) -> dict[str, Tensor]:
    """The last value plus the mean change over several spans."""
    value, maps = torch.eye(steps, dtype=torch.float64), {}
    for span in sorted({*(span for span in _SPANS if span < steps), steps - 1} - {0}):
        slope = (value[:, -1:] - value[:, -1 - span, None]) / span
        for damping in _DAMPING:
            maps[f"drift over {span}, damping {damping:g}"] = value[:, -1:] + slope * _reach(horizon, damping)
    return maps


def trends(
    steps: int, horizon: int, settings: Sequence[tuple[float, float, float]] = _TREND_SETTINGS
) -> dict[str, Tensor]:
    """Exponential smoothing of a level and a damped slope (Holt), by the speeds of both and the damping."""
    value = torch.eye(steps, dtype=torch.float64)
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


def adjustment(steps: int, horizon: int, season: int, memory: float, *, inner: bool = False) -> tuple[Tensor, Tensor]:
    """Returns the maps to the seasonally adjusted window `(K, K)` and to the seasonal component ahead `(K, H)`.

    The component of a phase is the mean deviation from a moving average over one season; a cycle counts `memory` times
    as much as the next one. With `inner`, the steps at both ends, where there is no such average, do not count.
    """
    edge = season // 2 if inner else 0
    deviation = torch.eye(steps, dtype=torch.float64) - _moving_average(steps, season)
    phases = []
    for phase in range(season):  # steps before the last one
        cycles = torch.arange(steps - 1 - phase, -1, -season)
        cycles = cycles[(cycles >= edge) & (cycles < steps - edge)]
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
    weights = torch.zeros(steps, steps, dtype=torch.float64)
    first, last = half, steps - 1 - half
    for step in range(first, last + 1):
        weights[step - half : step + half + 1, step] = 1 / season
        if season % 2 == 0:  # the first and the last value have the same phase
            weights[[step - half, step + half], step] /= 2
    span = min(season, last - first)
    late, early = weights[:, last] - weights[:, last - span], weights[:, first + span] - weights[:, first]
    for away in range(1, half + 1):
        weights[:, last + away] = weights[:, last] + late * away / span
        weights[:, first - away] = weights[:, first] - early * away / span
    return weights
