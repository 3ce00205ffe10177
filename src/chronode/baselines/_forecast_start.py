"""The linear start of a forecast: an average of linear maps of the last values, chosen with rolling origins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import Batch, Sequences
from ..data._future import known_channels
from ..data._split import folds_of
from ._continuations import Map, Member, average, choose
from ._families import Family, families, joint_family
from ._features import build_features
from ._linear import Linear
from ._naive import possible_seasons
from ._relative import Relative
from ._start import LinearStart, StartFit, fit_features

ORIGINS = 5
_FOLDS = 5
_MOST_FITTED, _MOST_JUDGED = 2_000, 300
_MOST_REFITTED = 20_000
_MOST_COLUMNS, _MOST_READINGS = 600, 1_500


@dataclass(frozen=True)
class ForecastMaps:
    """How to continue each channel, and the numbers of the windows to fit it to.

    Attributes:
        description: Features of the windows, as `build_features` takes them.
        relative: Brings windows to their own level and scale.
        members: For each channel to continue, the maps to average.
        families: For each channel, the families of these maps.
    """

    description: dict[str, Any]
    relative: Relative
    members: tuple[tuple[Member, ...], ...]
    families: tuple[tuple[Family, ...], ...]

    def fitted(self, rows: Rows) -> Map:
        """Returns one map of all values of a window to all outputs, fitted to these rows."""
        found = [
            average(members, rows.x, rows.y[..., place], known)
            for place, (members, known) in enumerate(zip(self.members, self.families, strict=True))
        ]
        weight = torch.stack([own.weight for own in found], dim=-1)
        return Map(weight.flatten(2).flatten(0, 1), torch.stack([own.bias for own in found], dim=-1).flatten())

    def start(self, rows: Rows) -> LinearStart:
        """Returns the module of the map that is fitted to these rows."""
        found = self.fitted(rows[_some(torch.ones(len(rows.x), dtype=torch.bool), _MOST_REFITTED)])
        start = LinearStart(self.description, len(found.bias))
        same = {name: start.get_buffer(name).clone() for name in ("mean", "std", "low", "high")}
        start.take(Linear(**same, weight=found.weight, bias=found.bias))
        return start


@dataclass(frozen=True)
class MapsFit(StartFit):
    """A linear start that is an average of linear maps.

    Attributes:
        maps: What is averaged.
    """

    maps: ForecastMaps | None = None

    def refitted(self, s: Sequences) -> StartFit:
        """Returns the same maps, fitted to all windows of `s`."""
        assert self.maps is not None
        return replace(self, start=self.maps.start(rows_of(s, self.maps.description, self.maps.relative)))


@dataclass(frozen=True)
class Rows:
    """Windows as inputs and targets of a linear model.

    Attributes:
        x: `(N, steps, channels)` relative values, 0 before the first step of a series and where unknown.
        y: `(N, H, C)` relative values that follow; unknown values are interpolated.
        ends: `(N,)` time of the last step of each window.
    """

    x: Tensor
    y: Tensor
    ends: Tensor

    def __getitem__(self, rows: Tensor) -> Rows:
        return Rows(self.x[rows], self.y[rows], self.ends[rows])


def choose_maps(train: Sequences, valid: Sequences, relative: Sequence[int], seed: int = 0) -> ForecastMaps:
    """Chooses the maps that continue these channels best.

    If the validation windows belong to the training series, the maps are fitted before, and judged after, several
    origins in the later half of all windows; otherwise they are judged on held-out series.

    Args:
        train: Windows with the following values as target.
        valid: Validation windows, likewise.
        relative: Numbers of the channels to continue.
        seed: Random seed of the folds of series.
    """
    gap, steps = train.median_gap() or 1.0, int(train.lengths.max())
    description = {"kind": "values", "channels": train.num_channels, "steps": steps, "gap": gap}
    assert train.target is not None
    view = Relative(relative, known_channels(train), train.target.values.shape[1] // len(relative))
    batch = train.batch(slice(0, None, max(1, len(train) // 5_000)))
    view.fit_effects(batch)
    view.fit(batch.x, batch.lengths, batch.observed)
    parts = [train] if valid is train or not len(valid) else [train, valid]
    rows = [rows_of(part, description, view) for part in parts]
    whole = Rows(*(torch.cat([getattr(own, name) for own in rows]) for name in ("x", "y", "ends")))
    horizon = whole.y.shape[1]
    if len(np.intersect1d(train.groups, valid.groups)):
        folds = _rolling(whole.ends, horizon * gap)
    else:
        folds = _by_group(parts, seed)
    folds = [(_some(fit, _MOST_FITTED), _some(judge, _MOST_JUDGED)) for fit, judge in folds]
    known = [tuple(_families(train, steps, channel, horizon)) for channel in relative]
    members = [tuple(choose(whole.x, whole.y[..., i], folds, own)) for i, own in enumerate(known)]
    return ForecastMaps(description, view, tuple(members), tuple(known))


def fit_forecast(train: Sequences, valid: Sequences, relative: Sequence[int], *, seed: int = 0) -> StartFit:
    """Returns the linear forecast with the lowest error on windows that it was not fitted to.

    Args:
        train: Windows with the following values as target.
        valid: Validation windows, likewise.
        relative: Numbers of the channels that the target continues.
        seed: Random seed of the folds.

    Example:
        >>> from chronode.data import forecast_windows, from_list
        >>> w = forecast_windows(from_list([np.sin(np.arange(80.0)) + 0.1 * np.arange(80)]), 2, window=16)
        >>> fitted = fit_forecast(w[:40], w[40:], [0])
        >>> bool((fitted.outputs(w[40:]) - torch.tensor(w[40:].target.values)).abs().max() < 0.02)
        True
    """
    maps = choose_maps(train, valid, relative, seed)
    start, held_out = fit_maps(maps, train)
    found = MapsFit(start, maps.description, held_out, {}, 0.0, maps.relative, maps)
    if not _uneven(train):
        return replace(found, losses={"values": _error(found, valid)})
    readings = fit_features(train, valid, _reading_kinds(train), view=maps.relative, seed=seed)
    losses = {"values": _error(found, valid), "readings": _error(readings, valid)}
    best = found if losses["values"] <= losses["readings"] else readings
    return replace(best, losses=losses)


def _uneven(s: Sequences) -> bool:
    """Returns whether the times are irregular, or values are missing."""
    irregular = s.base_times is not None and float(np.ptp(gaps := s.dt[s.dt > 0])) > 0.01 * float(gaps.mean())
    return irregular or s.has_missing


def _reading_kinds(s: Sequences) -> list[dict[str, Any]]:
    """Returns the last k readings with the gaps between them, for several k up to the longest window."""
    longest, gap = int(s.lengths.max()), s.median_gap() or 1.0
    counts = sorted({*(count for count in (1, 2, 4, 8, 16, 32, 64, 128) if count < longest), longest})
    return [
        {"kind": "readings", "channels": s.num_channels, "steps": steps, "gap": gap}
        for steps in counts
        if steps * s.num_channels <= _MOST_READINGS or steps == 1
    ]


def _error(fitted: StartFit, s: Sequences) -> float:
    """Returns the mean absolute error over known targets."""
    assert s.target is not None
    return float((fitted.outputs(s) - torch.tensor(s.target.values)).abs().nanmean())


def fit_maps(maps: ForecastMaps, train: Sequences) -> tuple[LinearStart, Tensor]:
    """Returns the maps fitted to all windows, and out-of-fold outputs `(N, K)`."""
    rows = rows_of(train, maps.description, maps.relative)
    inputs = rows.x.flatten(1)
    held_out = torch.zeros(len(inputs), rows.y[0].numel(), dtype=torch.float64)
    folds = torch.tensor(folds_of(train, _FOLDS))
    for fold in folds.unique().tolist():
        inside = folds == fold
        found = maps.fitted(rows[_some(~inside, _MOST_FITTED)])
        held_out[inside] = inputs[inside] @ found.weight + found.bias
    return maps.start(rows), held_out


def rows_of(s: Sequences, description: dict[str, Any], relative: Relative) -> Rows:
    """Returns the windows of `s` with the values that follow them."""
    assert s.target is not None
    features = build_features(description)
    channels = len(relative.channels)
    xs, ys = [], []
    for first in range(0, len(s), 512):
        batch: Batch = s.batch(slice(first, first + 512))
        view = relative.view(batch.x, batch.lengths, batch.observed, batch.static)
        assert batch.target is not None
        xs.append(features(view.x, **batch.times).nan_to_num(nan=0.0))
        target = relative.there(batch.target.double(), view)
        ys.append(target.reshape(len(target), -1, channels))
    x = torch.cat(xs).reshape(len(s), -1, s.num_channels)
    return Rows(x, _filled(torch.cat(ys)), torch.tensor(_ends(s)))


def _families(train: Sequences, steps: int, channel: int, horizon: int) -> list[Family]:
    """Returns all families that continue a channel of these windows."""
    found = families(steps, horizon, possible_seasons(_stretch(train, channel)), channel)
    if train.num_channels > 1 and steps * train.num_channels <= _MOST_COLUMNS:
        found.append(joint_family(steps, train.num_channels, channel, horizon))
    return found


def _stretch(train: Sequences, channel: int) -> np.ndarray:
    """Returns the values of the longest training series, from its first window to its last."""
    first, last = train.starts, train.starts + train.lengths
    groups, member = np.unique(train.groups, return_inverse=True)
    low = np.full(len(groups), first.max())
    high = np.zeros(len(groups), dtype=last.dtype)
    np.minimum.at(low, member, first)
    np.maximum.at(high, member, last)
    at = int((high - low).argmax())
    return train.base_values[low[at] : high[at], channel].astype(np.float64)


def _ends(s: Sequences) -> np.ndarray:
    """Returns the time of the last step of each window; without times, its number within the group."""
    last = s.starts + s.lengths - 1
    if s.base_times is not None:
        return s.base_times[last]
    groups, member = np.unique(s.groups, return_inverse=True)
    first = np.full(len(groups), s.starts.max(initial=0))
    np.minimum.at(first, member, s.starts)
    return (last - first[member]).astype(np.float64)


def _rolling(ends: Tensor, ahead: float) -> list[tuple[Tensor, Tensor]]:
    """Returns rows to fit (known at an origin) and rows to judge by (from there to the next origin)."""
    low, high = float(ends.min()), float(ends.max())
    origins = torch.linspace((low + high) / 2, high, ORIGINS + 1, dtype=torch.float64).tolist()
    origins[-1] = torch.inf
    folds = [(ends + ahead <= first + 1e-9, (ends >= first) & (ends < after)) for first, after in pairwise(origins)]
    return [(fit, judge) for fit, judge in folds if judge.any()]


def _by_group(parts: Sequence[Sequences], seed: int) -> list[tuple[Tensor, Tensor]]:
    """Returns folds of whole series; every part has its own folds."""
    number = torch.cat([torch.tensor(folds_of(part, _FOLDS, seed=seed)) for part in parts])
    return [(number != fold, number == fold) for fold in number.unique().tolist()]


def _some(mask: Tensor, most: int) -> Tensor:
    """Returns a limited number of the chosen rows, evenly spaced."""
    at = mask.nonzero()[:, 0]
    if len(at) <= most:
        return mask
    few = torch.zeros_like(mask)
    few[at[torch.linspace(0, len(at) - 1, most).round().long()]] = True
    return few


def _filled(y: Tensor) -> Tensor:
    """Fills gaps in `(N, H, C)`: linear between known values, starting from 0, and constant after the last."""
    if not y.isnan().any():
        return y
    found = y.clone()
    ahead = np.arange(y.shape[1] + 1)
    for row, _, channel in (y.isnan().any(1, keepdim=True)).nonzero().tolist():
        own = np.concatenate([[0.0], y[row, :, channel].numpy()])
        known = ~np.isnan(own)
        found[row, :, channel] = torch.tensor(np.interp(ahead, ahead[known], own[known])[1:])
    return found
