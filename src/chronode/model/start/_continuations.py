"""Averages of linear maps from a window to the values that follow it, chosen by their errors on other windows.

The weights of a map's features are those of a ridge regression, so a large penalty gives the naive forecast. A *direct*
map has separate weights for every step ahead; a *recursive* map is fitted one step ahead and applied to its own
forecasts; a *shifted* one has only an intercept, which continues the mean change of the past.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ._families import Family, rivals, smoothing_name
from ._window_rows import Fold, Windows

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_LAGS = (1, 2, 4, 8, 12, 24, 48, 96)
_FEW_LAGS = 48  # more are tried only with twice as many windows
_FEWEST_ROWS = 3
_EXPLODES = 2.0
# Maximum number of maps in an average, the power p in the share of a map, (lowest loss / its loss)^p, and the share of
# the best of the three simplest forecasts if no map has a lower loss. Chosen on other series than those of
# benchmarks/defaults.py.
_MOST_MEMBERS, _POWER, _SIMPLE_SHARE = 30, 4, 0.1
# Share of the maps whose speed is tuned one step ahead, if there are hardly any independent windows to judge by; it
# halves with this many of them, and falls if their loss is far above the lowest, as on series without noise. Chosen on
# held-out ends of the training parts of M3 (docs/arena.md).
_TUNED_SHARE, _TUNED_HALVES, _FAR = 0.5, 20.0, 1.5
# Maps with more parameters overfit when there are few windows: their loss is raised by this share for each lag (up to
# 24), and for the return to the mean of a window, divided by the number of independent windows. Chosen on those series.
_PER_LAG, _MOST_COUNTED_LAGS, _MEAN_REVERSION = 0.02, 24, 0.8


class Map(NamedTuple):
    """`v @ weight + bias`: weight `(F, H)` and bias `(H,)`, or P of them, `(P, F, H)` and `(P, H)`."""

    weight: Tensor
    bias: Tensor


class Member(NamedTuple):
    """A map of an average: its family, its method (or its name, in a family without features) and settings, and its
    share.
    """

    family: str
    method: str
    lags: int = 0
    penalty: float = 0.0
    share: float = 1.0


def choose(windows: Windows, folds: Sequence[Fold], known: Sequence[Family], season: int = 1) -> list[Member]:
    """Returns the maps whose mean absolute error over the folds is low, and their shares in the average.

    Windows that overlap rank the maps only roughly, and an average of many good maps is better than the best one. Maps
    with more parameters must be better by a margin that shrinks with the number of independent windows. The best simple
    forecast has a share in the average, because what looked better in the past is so only in part by merit. With few
    independent windows, half of the average are levels, Theta forecasts and damped trends whose speed was best one
    step ahead.

    Args:
        windows: Windows to learn from.
        folds: Rows to fit and rows to judge by.
        known: Families to choose from.
        season: Season of the tuned forecasts; 1 for none.
    """
    losses: dict[Member, list[float]] = {}
    for fold in folds:
        judged, count = windows.at(fold.judge), int(fold.judge.sum())
        far, near = windows.at(fold.fit).without_outliers(), windows.at(fold.near).without_outliers()
        for family in known:
            inputs, truth = family.seen(judged.x), judged.y
            for settings, maps in candidates(family, far, near):
                errors = count * (inputs @ maps.weight + maps.bias[:, None] - truth).abs().flatten(1).nanmean(1)
                for member, error in zip(settings, errors.tolist(), strict=True):
                    losses.setdefault(member, []).append(error)
    rows = sum(int(fold.judge.sum()) for fold in folds)
    independent = max(rows / windows.y.shape[1], 1.0)  # the targets of neighboring windows overlap
    rated = []
    for member, fold_losses in losses.items():
        # The first folds may have too few rows to fit a map; it is then the naive forecast.
        before = losses.get(Member(member.family, "naive"), [])[: len(folds) - len(fold_losses)]
        loss = sum(before + fold_losses) / rows * (1 + _complexity(member) / independent)
        if loss == loss:
            rated.append((loss, member))
    if not rated:
        return [Member(known[0].name, "naive")]
    rated = sorted(rated, key=lambda pair: pair[0])
    lowest = max(rated[0][0], 1e-12)
    shares = {member: (lowest / max(loss, lowest)) ** _POWER for loss, member in rated[:_MOST_MEMBERS]}
    loss, simple = next(((loss, member) for loss, member in rated if _is_simple(member)), rated[0])
    kept = _SIMPLE_SHARE * (lowest / max(loss, lowest)) ** 2
    total = sum(shares.values()) / (1 - kept)
    shares = {member: share / total for member, share in shares.items()}
    shares[simple] = shares.get(simple, 0.0) + kept
    tuned = tuned_maps(windows, known, season)
    part = 0.0
    if tuned:
        loss = sum(loss for loss, member in rated if member in tuned) / len(tuned)
        part = _TUNED_SHARE / (1 + independent / _TUNED_HALVES) * min(1.0, _FAR * lowest / max(loss, lowest)) ** _POWER
    shares = {member: share * (1 - part) for member, share in shares.items()}
    for member in tuned:
        shares[member] = shares.get(member, 0.0) + part / len(tuned)
    return [member._replace(share=share) for member, share in shares.items()]


def tuned_maps(windows: Windows, known: Sequence[Family], season: int) -> list[Member]:
    """Returns, of smoothing maps that differ only in how fast they adapt, those that are best one step ahead.

    All windows tell about the next step, but few about what comes after many: the speed is better chosen by the former.
    """
    by_name = {family.name: family for family in known}
    family = by_name.get(smoothing_name(season)) or by_name.get(smoothing_name(1))
    if family is None:
        return []
    errors = (family.seen(windows.x) @ family.base[..., 0].T - windows.y[:, :1]).square().nanmean(0)
    return [Member(family.name, family.maps[min(group, key=lambda i: float(errors[i]))]) for group in rivals(family)]


def _is_simple(member: Member) -> bool:
    """Returns whether a map repeats the last value or the last season, or adds the mean change to the last value."""
    if member.family == "last value":
        return member.method in ("naive", "shifted")
    return member.family.startswith("season of") and member.method == "naive"


def _complexity(member: Member) -> float:
    """Returns by how much the loss of a map is raised if it is judged by one window."""
    reverts = _MEAN_REVERSION if member.family == "mean" else 0.0
    return reverts + _PER_LAG * min(member.lags, _MOST_COUNTED_LAGS)


def average(members: Sequence[Member], windows: Windows, known: Sequence[Family]) -> Map:
    """Returns the average of the members, fitted to these windows, as a map of all values: weight `(K, C, H)`.

    Example:
        >>> from chronode.model.start._families import families
        >>> steps = torch.arange(40.0).double().unfold(0, 6, 1)[:-1]
        >>> x, y = (steps - steps[:, -1:])[..., None], torch.tensor([[1.0, 2.0]] * len(steps)).double()
        >>> windows = Windows(x, y, torch.full((len(x),), 6))
        >>> line = average([Member("last value", "recursive", 1, 1e-4)], windows, families(6, 2, seasons=()))
        >>> (x[0, :, 0] @ line.weight[:, 0] + line.bias).round(decimals=2).tolist()
        [1.0, 2.0]
    """
    x, y, steady = windows.x, windows.y, windows.without_outliers()
    weight = x.new_zeros(*x.shape[1:], y.shape[1])
    bias = y.new_zeros(y.shape[1])
    for family in known:
        same = [member for member in members if member.family == family.name]
        if not same:
            continue
        for member, fitted in _fitted(same, Regression(family, steady, steady)):
            weight += member.share * family.of_all(fitted.weight, x.shape[2])
            bias += member.share * fitted.bias
    return Map(weight, bias)


def _fitted(members: Sequence[Member], regression: Regression) -> Iterator[tuple[Member, Map]]:
    """Yields members of one family with their maps; without rows to fit, these are the naive forecast."""
    by_setting: dict[tuple[str, int], list[Member]] = {}
    for member in members:
        by_setting.setdefault((member.method, member.lags), []).append(member)
    for (method, lags), same in by_setting.items():
        maps = regression.maps(method, lags, [member.penalty for member in same]) or regression.naive()
        for index, member in enumerate(same):
            yield member, Map(maps.weight[index % len(maps.weight)], maps.bias[index % len(maps.bias)])


def candidates(family: Family, far: Windows, near: Windows) -> Iterator[tuple[list[Member], Map]]:
    """Yields settings with their maps `(P, F, H)`, fitted to these windows (as for `Regression`)."""
    if family.maps:
        yield [Member(family.name, name) for name in family.maps], _without_bias(family.base)
        return
    regression = Regression(family, far, near)
    yield [Member(family.name, "naive")], regression.naive()
    shifted = regression.maps("shifted") if family.level else None
    if shifted is not None:
        yield [Member(family.name, "shifted")], shifted
    most = min(family.features.shape[1] // family.width, max(len(near.x) // 2, _FEW_LAGS))
    for lags in sorted({*(lags for lags in _LAGS if lags < most), most} - {0}):
        for method in ("direct", "recursive") if family.recursive else ("direct",):
            maps = regression.maps(method, lags, PENALTIES)
            if maps is not None:
                yield [Member(family.name, method, lags, penalty) for penalty in PENALTIES], maps


class Regression:
    """Maps of one family: those without features, or ridge regressions.

    Args:
        family: Naive forecast and features.
        far: Windows with everything that follows, for direct maps.
        near: Windows whose next step is known, for recursive maps.
    """

    def __init__(self, family: Family, far: Windows, near: Windows):
        self.family = family
        far, near = far.at(~far.y.isnan().any(1)), near.at(~near.y[:, 0].isnan())
        self.rows = {
            "direct": (family.seen(far.x), far.y, far.counts),
            "recursive": (family.seen(near.x), near.y[:, :1], near.counts),
        }

    def naive(self) -> Map:
        """Returns the naive forecast, `(1, F, H)`."""
        return _without_bias(self.family.base[None])

    def maps(self, method: str, lags: int = 0, penalties: Sequence[float] = ()) -> Map | None:
        """Returns the maps of all penalties, `(P, F, H)`, from one eigenvalue problem; None if there are too few rows.

        "shifted" is the naive forecast plus its mean error, `(1, F, H)`.
        """
        if method == "naive":
            return self.naive()
        if self.family.maps:
            return _without_bias(self.family.base[self.family.maps.index(method)][None])
        family, horizon = self.family, self.family.base.shape[1]
        x, y, counts = self.rows["recursive" if method == "recursive" else "direct"]
        if method != "shifted":
            enough = counts >= lags + family.reach
            x, y = x[enough], y[enough]
        if len(x) < _FEWEST_ROWS:
            return None
        left = y - x @ family.base[:, : y.shape[1]]
        if method == "shifted":
            return Map(family.base[None], left.mean(0)[None])
        features = family.features[:, : lags * family.width]
        weights = _ridge(x @ features, left, penalties)
        if method == "direct":
            weight = family.base + features @ weights
        elif family.anchor is None:
            one = family.base[:, 0] + (features @ weights)[..., 0]
            used = int((one != 0).any(0).nonzero()[0]) if bool(one.any()) else len(family.base) - 1
            weight = recursive(one[:, used:], horizon, len(family.base))
        else:
            weight = recursive(weights[..., 0].flip(1), horizon, len(family.base))
            weight = weight + family.anchor[:, None] * (1 - weight.sum(1, keepdim=True))
        if method == "recursive":
            weight = torch.where(self._explodes(weight)[:, None, None], family.base, weight)
        return Map(weight, weight.new_zeros(len(weight), horizon))

    def _explodes(self, weight: Tensor) -> Tensor:
        """Returns which recursive maps are far worse than the naive forecast even on windows they were fitted to."""
        x, y, _ = self.rows["direct"]
        errors = (x @ weight - y).abs().mean((1, 2))
        return ~(errors <= _EXPLODES * (x @ self.family.base - y).abs().mean())


def _without_bias(weight: Tensor) -> Map:
    """Returns maps with these weights `(P, F, H)` alone."""
    return Map(weight, weight.new_zeros(len(weight), weight.shape[2]))


def _ridge(inputs: Tensor, goal: Tensor, penalties: Sequence[float]) -> Tensor:
    """Returns the weights `(P, F, H)` for several penalties, relative to the mean square of the inputs."""
    gram = inputs.T @ inputs / len(inputs)
    scale = gram.diagonal().mean().clamp(min=1e-12)
    values, vectors = torch.linalg.eigh(gram / scale)
    side = vectors.T @ (inputs.T @ goal) / len(inputs) / scale
    shrunk = side / (values.clamp(min=0) + values.new_tensor(penalties)[:, None])[..., None]
    return vectors @ shrunk


def recursive(one: Tensor, horizon: int, size: int) -> Tensor:
    """Applies maps of the last values one step ahead, `one (P, K)`, to their own forecasts; returns the weights of all
    values of a window, `(P, size, horizon)`.
    """
    count, steps = one.shape
    known = torch.eye(steps, dtype=one.dtype).expand(count, -1, -1)
    values = torch.cat([known, one.new_zeros(count, steps, horizon)], dim=2)
    for ahead in range(horizon):
        values[..., steps + ahead] = (values[..., ahead : steps + ahead] @ one[..., None])[..., 0]
    return torch.nn.functional.pad(values[..., steps:], (0, 0, size - steps, 0))
