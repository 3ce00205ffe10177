"""Maps of each series' own: of a panel, what every series adds to the map that all of them share.

The correction `D` of a series is a ridge regression of what the shared map leaves on a few of the last values,

    min |Y - X (W + D)|^2 + rows * s * |D|^2,

where `s` is the mean square of these values: the shared map `W` counts as much as `rows` windows that agree with it, so
that a series with a short history stays near it. Which values, and how many rows, is judged with rolling origins; the
correction is an average of the best, weighted as the shared maps are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...data import Sequences, is_irregular
from ...settings import SettingError
from .._relative import Relative
from ._continuations import Map
from ._season import panel_seasons
from ._window_rows import Fold, Rows, Windows, all_windows, fold_at, in_place, origins, rows_of

ROWS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_FEW_LAGS, _BESIDE = 8, 2
_FEWEST_WINDOWS = 3
# Maximum number of maps in an average, and the power p in the share of a map, (lowest loss / its loss)^p.
_MOST_JUDGED, _MOST_MEMBERS, _POWER = 100, 10, 16
_MOST_NUMBERS = 2**25
_AT_ONCE = 1024


class OwnMaps(nn.Module):
    """Corrections of the outputs of a linear start, found by the key of a series; 0 for an unknown one.

    Args:
        series: Number of series.
        lags: Steps before the last one that the corrections see.
        channels: Numbers of the channels that are continued, each from its own values.
        steps: Steps of a window.
        width: Number of channels of a window.
        outputs: Number of outputs, `horizon * len(channels)`.

    Example:
        >>> own = OwnMaps(2, [0, 1], [0], 4, 1, 1)
        >>> own.take({7: torch.ones(1, 2, 1), 3: torch.zeros(1, 2, 1)})
        >>> windows, shared = torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 3), torch.ones(3, 1)
        >>> own(windows, torch.tensor([7, 3, 5]), shared).flatten().tolist()
        [8.0, 1.0, 1.0]
    """

    def __init__(self, series: int, lags: Sequence[int], channels: Sequence[int], steps: int, width: int, outputs: int):
        super().__init__()
        self.lags, self.channels, self.steps, self.width = list(lags), list(channels), steps, width
        size = (series, len(self.channels), len(self.lags), outputs // len(self.channels))
        self.register_buffer("keys", torch.zeros(series, dtype=torch.int64))
        self.register_buffer("shared", torch.ones((), dtype=torch.float64))
        self.register_buffer("weight", torch.zeros(size))

    def take(self, corrections: dict[int, Tensor], shared: float = 1.0) -> None:
        """Copies the corrections `(C, lags, H)` of series by their keys, and the share of the shared map in theirs."""
        keys = sorted(corrections)
        self.get_buffer("shared").fill_(shared)
        self.get_buffer("keys").copy_(torch.tensor(keys))
        self.get_buffer("weight").copy_(torch.stack([corrections[key] for key in keys]))

    def known(self, series: Tensor) -> Tensor:
        """Returns which of these keys have maps of their own."""
        keys = self.get_buffer("keys")
        return keys[torch.searchsorted(keys, series).clamp(max=len(keys) - 1)] == series

    def of(self, key: int) -> tuple[float, Tensor]:
        """Returns the share of the shared map for a known series, and what is added to it, `(steps * D, K)`."""
        place = int((self.get_buffer("keys") == key).nonzero()[0])
        own = self.get_buffer("weight")[place].double()
        count = len(self.channels)
        added = own.new_zeros(self.steps, self.width, own.shape[2], count)
        for number, channel in enumerate(self.channels):
            added[[self.steps - 1 - lag for lag in self.lags], channel, :, number] = own[number]
        return float(self.get_buffer("shared")), added.flatten(2).flatten(0, 1)

    def forward(self, features: Tensor, series: Tensor, outputs: Tensor) -> Tensor:
        """Returns the outputs `(B, K)` of series with these keys `(B,)` for features `(B, steps * D)`, of which the
        outputs of the shared map are given.
        """
        keys, weight = self.get_buffer("keys"), self.get_buffer("weight")
        at = torch.searchsorted(keys, series).clamp(max=len(keys) - 1)
        inputs = seen(features.unflatten(1, (self.steps, -1)), self.lags)[..., self.channels].nan_to_num()
        known = (keys[at] == series)[:, None]
        inputs = inputs * known[..., None]
        added = [
            torch.einsum("blc,bclh->bhc", one, weight[rows].to(one)).flatten(1)
            for one, rows in zip(inputs.split(_AT_ONCE), at.split(_AT_ONCE), strict=True)
        ]
        return torch.where(known, self.get_buffer("shared").to(outputs), 1.0) * outputs + torch.cat(added).to(outputs)


def seen(x: Tensor, lags: Sequence[int]) -> Tensor:
    """Returns the values `(N, lags, D)` of windows `(N, steps, D)` that are so many steps before the last one."""
    return x[:, [x.shape[1] - 1 - lag for lag in lags]]


class OwnMember(NamedTuple):
    """A map of an average: its lags, the number of windows that its base counts, its share, and whether the base is the
    last season instead of the shared map.
    """

    lags: tuple[int, ...]
    rows: float
    season: int = 0
    share: float = 1.0


@dataclass(frozen=True)
class OwnChoice:
    """Average of maps of each series' own; what the shares of the members lack to 1 is that of the shared map itself.

    Attributes:
        members: The members.
        losses: Mean absolute error in rolling origins of the shared map, and of the best map of the series' own.
    """

    members: tuple[OwnMember, ...]
    losses: tuple[float, float]

    @property
    def lags(self) -> list[int]:
        """All lags of the members."""
        return sorted({lag for member in self.members for lag in member.lags})

    @property
    def shared(self) -> float:
        """Share of the shared map, to which the corrections are added."""
        return 1.0 - sum(member.share for member in self.members if member.season)

    def correction(self, inputs: Tensor, truth: Tensor, shared: Tensor) -> Tensor:
        """Returns what is added to the share of the shared map for a series, `(C, lags, H)`.

        Args:
            inputs: `(n, lags, C)` values of its windows.
            truth: `(n, H, C)` values that follow.
            shared: `(n, H, C)` outputs of the shared map.
        """
        lags = self.lags
        total = truth.new_zeros(truth.shape[2], len(lags), truth.shape[1])
        for own, season in {(member.lags, member.season) for member in self.members}:
            members = [member for member in self.members if (member.lags, member.season) == (own, season)]
            at = torch.tensor([lags.index(lag) for lag in own])
            base = last_season(own, season, truth.shape[1]).to(truth)
            shares = truth.new_tensor([member.share for member in members])[:, None, None]
            for place in range(len(total)):
                x = inputs[:, at, place]
                left = truth[..., place] - (x @ base if season else shared[..., place])
                total[place, at] += (shares * (base + ridges(x, left, [member.rows for member in members]))).sum(0)
        return total


def last_season(lags: Sequence[int], season: int, horizon: int) -> Tensor:
    """Returns the map `(lags, H)` that repeats the last season; zeros without one.

    Example:
        >>> last_season([0, 1, 2], 2, 3).tolist()
        [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    base = torch.zeros(len(lags), horizon)
    if season:
        for ahead in range(horizon):
            base[lags.index(season - 1 - ahead % season), ahead] = 1.0
    return base


def ridges(x: Tensor, y: Tensor, rows: Sequence[float]) -> Tensor:
    """Returns ridge regressions `(P, L, H)` toward 0, which counts as much as so many rows; 0 with hardly any rows.

    Example:
        >>> x = torch.tensor([[1.0], [1.0], [1.0], [1.0]])
        >>> ridges(x, 2 * x, [0.0, 4.0]).flatten().tolist()
        [2.0, 1.0]
    """
    if len(x) < _FEWEST_WINDOWS:
        return x.new_zeros(len(rows), x.shape[1], y.shape[1])
    steady = Windows(x[..., None], y, torch.zeros(len(x))).without_outliers()
    x, y = steady.x[..., 0], steady.y
    values, vectors = torch.linalg.eigh(x.T @ x)
    size = (values.clamp(min=0).mean() / len(x)).clamp(min=1e-12)
    strength = size * (values.new_tensor(rows)[:, None] + 1e-9 * len(x))
    return vectors @ ((vectors.T @ (x.T @ y)) / (values.clamp(min=0) + strength)[..., None])


def can_have_own(parts: Sequence[Sequences], channels: Sequence[int]) -> bool:
    """Returns whether each series may have a map of its own: there are several regular ones, and the validation part,
    if any, continues them.
    """
    train, valid = parts[0], parts[-1]
    if (
        train.keys is None
        or valid.keys is None
        or train.is_stored
        or is_irregular(train)
        or len(np.unique(train.keys)) < 2
    ):
        return False
    continued = valid is train or bool(np.isin(valid.keys, train.keys).all())
    return continued and in_place(parts, channels)


def lag_sets(steps: int, horizon: int, seasons: Sequence[int]) -> list[tuple[int, ...]]:
    """Returns the lags to choose from: the latest values; with those of the most common season, which is the first; and
    with those that are one longer season before what follows.

    Example:
        >>> [(len(own), own[-1]) for own in lag_sets(192, 48, (24, 168))]
        [(8, 7), (26, 25), (78, 169)]
    """
    lags = set(range(min(_FEW_LAGS, steps)))
    sets = [tuple(sorted(lags))]
    for season in [season for season in seasons if seasons[0] <= season <= steps - _BESIDE]:
        first = 0 if season == seasons[0] else max(season - horizon - _BESIDE, 0)
        lags |= set(range(first, season + _BESIDE))
        sets.append(tuple(sorted(lags)))
    return sets


@dataclass(frozen=True)
class Panel:
    """All windows of each series of a panel.

    Attributes:
        parts: Training windows, and others that continue them.
        description: Features of the windows.
        relative: Brings windows to their own level and scale.
    """

    parts: tuple[Sequences, ...]
    description: dict[str, Any]
    relative: Relative

    @property
    def keys(self) -> list[int]:
        """The keys of the series."""
        return np.unique(np.concatenate([part.keys for part in self.parts if part.keys is not None])).tolist()

    def seasons(self) -> list[int]:
        """Returns the seasons that some of the series of the first part show, the most common first."""
        train, channels = self.parts[0], self.relative.channels
        assert train.keys is not None
        _, first, member = np.unique(train.keys, return_index=True, return_inverse=True)
        low, high = np.full(len(first), np.iinfo(np.int64).max), np.zeros(len(first), dtype=np.int64)
        np.minimum.at(low, member, train.starts)
        np.maximum.at(high, member, train.starts + train.lengths)
        series = replace(train[first], starts=low, lengths=high - low)
        return list(dict.fromkeys(season for channel in channels for season in panel_seasons(series, channel)))

    def rows(self, key: int) -> Rows:
        """Returns the windows of a series at every step that everything is known of that follows; of a very short
        series, those that there are.
        """
        own = [part[part.keys == key] for part in self.parts if part.keys is not None]
        own = [part for part in own if len(part)]
        with suppress(SettingError):
            whole = all_windows(own, self.relative.channels, self.description["steps"])
            own = [whole] if len(whole) else own
        rows = rows_of(own, self.description, self.relative)
        return rows[~rows.y.isnan().flatten(1).any(1)]

    def shared(self, rows: Rows, map_: Map) -> Tensor:
        """Returns the outputs of a shared map, `(n, H, C)`."""
        return (rows.x.flatten(1) @ map_.weight + map_.bias).view_as(rows.y)

    def inputs(self, rows: Rows, lags: Sequence[int]) -> Tensor:
        """Returns the values `(n, lags, C)` that corrections see."""
        return seen(rows.x, lags)[..., self.relative.channels]

    def corrections(
        self, choice: OwnChoice, shared: Sequence[tuple[Callable[[Tensor], Tensor], Map]]
    ) -> list[dict[int, Tensor]]:
        """Returns the corrections of all series for each shared map.

        Args:
            choice: The average.
            shared: Pairs of a function that returns the windows to fit to, as a mask of their times, and a shared map.
        """
        corrections: list[dict[int, Tensor]] = [{} for _ in shared]
        for key in self.keys:
            rows = self.rows(key)
            inputs = self.inputs(rows, choice.lags)
            for of_key, (mask, map_) in zip(corrections, shared, strict=True):
                fit = mask(rows.ends)
                of_key[key] = choice.correction(inputs[fit], rows.y[fit], self.shared(rows[fit], map_)).float()
        return corrections


def choose_own(panel: Panel, ends: Tensor, shared_at: Callable[[Tensor], Map]) -> OwnChoice | None:
    """Chooses the members of the corrections with rolling origins; None if the shared map alone is better.

    Args:
        panel: The windows.
        ends: Times of the last steps of the windows that the shared map is fitted to.
        shared_at: Returns the shared map that is fitted to some of these windows, by a mask.
    """
    horizon, gap, keys = panel.relative.horizon, panel.description["gap"], panel.keys
    seasons = panel.seasons()
    sets = lag_sets(panel.description["steps"], horizon, seasons)
    if len(keys) * len(panel.relative.channels) * len(sets[-1]) * horizon > _MOST_NUMBERS:
        return None
    folds = [(pair, fold_at(ends, *pair, horizon, gap)) for pair in origins(ends)]
    shared = [(pair, shared_at(fold.fit)) for pair, fold in folds if fold.fit.any()]
    bases = (0, *(season for season in seasons[:1] if season in sets[-1]))
    kinds = [(lags, season) for lags in sets for season in bases if season <= len(lags)]
    members = [OwnMember(lags, rows, season) for lags, season in kinds for rows in ROWS]
    losses, count = torch.zeros(1 + len(members), dtype=torch.float64), 0
    few = np.unique(np.linspace(0, len(keys) - 1, min(len(keys), _MOST_JUDGED)).round().astype(int))
    for key in (keys[at] for at in few.tolist()):
        rows = panel.rows(key)
        for pair, map_ in shared:
            fold, outputs = fold_at(rows.ends, *pair, horizon, gap), panel.shared(rows, map_)
            alone = (rows.y - outputs)[fold.judge].abs().sum()
            errors = [_errors(panel, rows, outputs, fold, *kind) for kind in kinds]
            losses, count = losses + torch.cat([alone[None], *errors]), count + int(fold.judge.sum())
    if not count or not bool(losses[1:].min() < losses[0]):
        return None
    return _averaged([OwnMember((), torch.inf), *members], (losses / count / horizon).tolist())


def _errors(panel: Panel, rows: Rows, shared: Tensor, fold: Fold, lags: tuple[int, ...], season: int) -> Tensor:
    """Returns the sum of the absolute errors of a series on judged windows for all strengths."""
    inputs, total = panel.inputs(rows, lags), rows.y.new_zeros(len(ROWS))
    base = last_season(lags, season, rows.y.shape[1]).to(inputs)
    for place in range(rows.y.shape[2]):
        x = inputs[..., place]
        left = rows.y[..., place] - (x @ base if season else shared[..., place])
        maps = ridges(x[fold.fit], left[fold.fit], ROWS)
        total += (left[fold.judge] - x[fold.judge] @ maps).abs().sum((1, 2))
    return total


def _averaged(members: Sequence[OwnMember], losses: Sequence[float]) -> OwnChoice:
    """Returns the best members with their shares; the first one is the shared map."""
    lowest = max(min(losses), 1e-12)
    rated = sorted(zip(losses, members, strict=True), key=lambda pair: pair[0])[:_MOST_MEMBERS]
    shares = [(lowest / max(loss, lowest)) ** _POWER for loss, _ in rated]
    chosen = [
        member._replace(share=share / sum(shares))
        for share, (_, member) in zip(shares, rated, strict=True)
        if member.lags
    ]
    return OwnChoice(tuple(chosen), (losses[0], min(losses[1:])))
