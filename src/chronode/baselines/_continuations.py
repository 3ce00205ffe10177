"""Linear maps from a window to the values that follow it: naive forecasts, autoregressions, and averages of them.

A window `v` of K values is relative to its last value. Every forecast here has the form

    v @ base + (v @ features) @ w + b,

where `base` repeats the last value, the last season, or the last season shifted by its latest change, and `features`
are the quantities that these forecasts assume to be constant: differences, changes since one season ago, or
differences of such changes. The weights `w` are those of a ridge regression, so a large penalty gives the naive
forecast. A *direct* map has separate weights for every step ahead; a *recursive* map is fitted one step ahead and
applied to its own forecasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
_LAGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
_FEWEST_ROWS = 3
# Maximum number of maps in an average; maximum loss of a map, as a multiple of the lowest; and the power p in the
# share of a map, (lowest loss / its loss)^p.
_MOST_MEMBERS, _WORSE, _POWER = 8, 1.1, 8


class Map(NamedTuple):
    """`v @ weight + bias`: weight `(F, H)`, bias `(H,)`; or P of them, `(P, F, H)` and `(P, H)`."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class Family:
    """The naive forecast and the features of a ridge regression.

    Attributes:
        name: Name in reports.
        base: `(F, H)` the naive forecast.
        features: `(F, M)`, the newest first.
        channel: The channel whose values are used, F = K; None for the values of all channels, step by step.
        recursive: Whether the map one step ahead can be applied to its own forecasts.
        width: Columns of `features` that belong to one lag.
    """

    name: str
    base: Tensor
    features: Tensor
    channel: int | None
    recursive: bool = True
    width: int = 1

    def seen(self, x: Tensor) -> Tensor:
        """Returns the values of windows `(N, K, C)` that are used: `(N, F)`."""
        return x.flatten(1) if self.channel is None else x[:, :, self.channel]

    def of_all(self, weight: Tensor, channels: int) -> Tensor:
        """Returns weights `(F, H)` as weights of all values of a window, `(K, C, H)`."""
        if self.channel is None:
            return weight.reshape(-1, channels, weight.shape[1])
        every = weight.new_zeros(len(weight), channels, weight.shape[1])
        every[:, self.channel] = weight
        return every


class Member(NamedTuple):
    """A map of an average: its family and settings, and its share."""

    family: str
    method: str
    lags: int = 0
    penalty: float = 0.0
    intercept: bool = False
    share: float = 1.0


def families(steps: int, horizon: int, seasons: Sequence[int], channel: int = 0) -> list[Family]:
    """Returns the families that continue one channel from its own values.

    Example:
        >>> [family.name for family in families(20, 3, seasons=[7])]
        ['last value', 'mean', 'season of 7', 'moved season of 7', 'mean season of 7']
    """
    value = torch.eye(steps, dtype=torch.float64).flip(1)  # column j: the value j steps before the last
    found = [Family("last value", value[:, [0] * horizon], value[:, :-1] - value[:, 1:], channel)]
    mean = value.mean(1, keepdim=True).expand(-1, horizon)
    found.append(Family("mean", mean, value[:, :-1] - mean[:, :1], channel, recursive=False))
    for season in [season for season in seasons if season + 2 <= steps]:
        ahead = torch.arange(horizon)
        at, cycles = season - 1 - ahead % season, ahead // season + 1
        change = value[:, :-season] - value[:, season:]
        found.append(Family(f"season of {season}", value[:, at], change, channel))
        if change.shape[1] > 1:
            moved = value[:, at] + change[:, :1] * cycles
            found.append(Family(f"moved season of {season}", moved, change[:, :-1] - change[:, 1:], channel))
        if steps >= 2 * season:
            mean = torch.stack([value[:, at + season * i] for i in range(steps // season)]).mean(0)
            found.append(Family(f"mean season of {season}", mean, change, channel, recursive=False))
    return found


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


def choose(x: Tensor, y: Tensor, folds: Sequence[tuple[Tensor, Tensor]], known: Sequence[Family]) -> list[Member]:
    """Returns the maps with the lowest mean absolute error over the folds, and their shares in the average.

    There is at most one of each family, method and number of lags.

    Args:
        x: `(N, K, C)` windows.
        y: `(N, H)` what follows them.
        folds: Rows to fit and rows to judge by, as masks.
        known: Families to choose from.
    """
    losses: dict[Member, list[float]] = {}
    naive: dict[str, list[float]] = {}
    for fit, judge in folds:
        truth, count = y[judge], int(judge.sum())
        for family in known:
            inputs = family.seen(x[judge])
            for settings, maps in _candidates(family, family.seen(x[fit]), y[fit]):
                errors = count * (inputs @ maps.weight + maps.bias[:, None] - truth).abs().flatten(1).nanmean(1)
                for member, error in zip(settings, errors.tolist(), strict=True):
                    losses.setdefault(member, []).append(error)
                    if member.method == "naive":
                        naive.setdefault(member.family, []).append(error)
    rows = sum(int(judge.sum()) for _, judge in folds)
    best: dict[tuple[str, str, int], tuple[float, Member]] = {}
    for member, own in losses.items():
        # The first folds may have too few rows to fit a map; it is then the naive forecast.
        before = naive[member.family][: len(folds) - len(own)]
        key, loss = (member.family, member.method, member.lags), sum(before + own) / rows
        if loss == loss and (key not in best or loss < best[key][0]):
            best[key] = (loss, member)
    if not best:
        return [Member(known[0].name, "naive")]
    found = sorted(best.values(), key=lambda pair: pair[0])[:_MOST_MEMBERS]
    lowest = max(found[0][0], 1e-12)
    shares = {member: (lowest / max(loss, lowest)) ** _POWER for loss, member in found if loss <= _WORSE * lowest}
    return [member._replace(share=share / sum(shares.values())) for member, share in shares.items()]


def average(members: Sequence[Member], x: Tensor, y: Tensor, known: Sequence[Family]) -> Map:
    """Returns the average of the members, fitted to these rows, as a map of all values: weight `(K, C, H)`.

    Example:
        >>> steps = torch.arange(40.0).double().unfold(0, 6, 1)[:-1]
        >>> x, y = (steps - steps[:, -1:])[..., None], torch.tensor([[1.0, 2.0]] * len(steps)).double()
        >>> line = average([Member("last value", "recursive", 1, 1e-4)], x, y, families(6, 2, seasons=[]))
        >>> (x[0, :, 0] @ line.weight[:, 0] + line.bias).round(decimals=2).tolist()
        [1.0, 2.0]
    """
    by_name = {family.name: family for family in known}
    weight = x.new_zeros(*x.shape[1:], y.shape[1])
    bias = y.new_zeros(y.shape[1])
    for member in members:
        family = by_name[member.family]
        found = _one(member, family, family.seen(x), y)
        weight += member.share * family.of_all(found.weight, x.shape[2])
        bias += member.share * found.bias
    return Map(weight, bias)


def _one(member: Member, family: Family, x: Tensor, y: Tensor) -> Map:
    if member.method == "naive" or len(x) < _FEWEST_ROWS:
        return _naive(family)
    direct, recursive = _solved(family, x, y, member.lags, member.intercept, (member.penalty,))
    found = direct if member.method == "direct" else recursive
    assert found is not None
    return Map(found.weight[0], found.bias[0])


def _candidates(family: Family, x: Tensor, y: Tensor) -> Iterator[tuple[list[Member], Map]]:
    """Yields settings with their maps `(P, F, H)`, fitted to these rows."""
    naive = _naive(family)
    yield [Member(family.name, "naive")], Map(naive.weight[None], naive.bias[None])
    if len(x) < _FEWEST_ROWS:
        return
    most = family.features.shape[1] // family.width
    for lags in sorted({*(lags for lags in _LAGS if lags < most), most}):
        for intercept in (False, True):
            solved = _solved(family, x, y, lags, intercept, PENALTIES)
            for method, maps in zip(("direct", "recursive"), solved, strict=True):
                if maps is not None:
                    yield [Member(family.name, method, lags, penalty, intercept) for penalty in PENALTIES], maps


def _naive(family: Family) -> Map:
    return Map(family.base, family.base.new_zeros(family.base.shape[1]))


def _solved(
    family: Family, x: Tensor, y: Tensor, lags: int, intercept: bool, penalties: Sequence[float]
) -> tuple[Map, Map | None]:
    """Returns the direct and the recursive maps of all penalties, `(P, F, H)`, from one eigenvalue problem."""
    features = family.features[:, : lags * family.width]
    inputs, rest = x @ features, y - x @ family.base
    middle, bias = (inputs.mean(0), rest.mean(0)) if intercept else (inputs[0] * 0, rest[0] * 0)
    inputs, rest = inputs - middle, rest - bias
    gram = inputs.T @ inputs / len(x)
    size = gram.diagonal().mean().clamp(min=1e-12)
    values, vectors = torch.linalg.eigh(gram / size)
    side = vectors.T @ (inputs.T @ rest) / (len(x) * size)
    shrunk = side / (values.clamp(min=0) + values.new_tensor(penalties)[:, None])[..., None]
    weight = vectors @ shrunk
    bias = bias - middle @ weight
    direct = Map(family.base + features @ weight, bias)
    if not family.recursive:
        return direct, None
    return direct, _recursive(direct.weight[..., 0], bias[:, 0], y.shape[1])


def _recursive(one: Tensor, bias: Tensor, horizon: int) -> Map:
    """Applies maps one step ahead, `one (P, K)`, to their own forecasts; returns `(P, K, horizon)`."""
    count, steps = one.shape
    eye = torch.eye(steps + 1, steps, dtype=one.dtype).expand(count, -1, -1)  # the last row: what is added
    values = torch.cat([eye, one.new_zeros(count, steps + 1, horizon)], dim=2)
    for ahead in range(horizon):
        values[..., steps + ahead] = torch.einsum("pij,pj->pi", values[..., ahead : steps + ahead], one)
        values[:, -1, steps + ahead] += bias
    return Map(values[:, :-1, steps:], values[:, -1, steps:])
