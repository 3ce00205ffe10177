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

from ._families import Family

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_LAGS = (1, 2, 4, 8, 12, 24, 48, 96)
_FEWEST_ROWS = 3
# Maximum number of maps in an average, and the power p in the share of a map, (lowest loss / its loss)^p.
_MOST_MEMBERS, _POWER = 200, 4


class Map(NamedTuple):
    """`v @ weight + bias`: weight `(F, H)` and bias `(H,)`, or P of them, `(P, F, H)` and `(P, H)`."""

    weight: Tensor
    bias: Tensor


class Member(NamedTuple):
    """A map of an average: its family and settings, and its share."""

    family: str
    method: str
    lags: int = 0
    penalty: float = 0.0
    share: float = 1.0


def choose(x: Tensor, y: Tensor, folds: Sequence[tuple[Tensor, Tensor]], known: Sequence[Family]) -> list[Member]:
    """Returns the maps whose mean absolute error over the folds is low, and their shares in the average.

    Few windows rank the maps only roughly, and an average of many good maps is then better than the best one: the fewer
    there are to judge by, the more of them count.

    Args:
        x: `(N, K, C)` windows.
        y: `(N, H)` what follows them.
        folds: Rows to fit and rows to judge by, as masks.
        known: Families to choose from.
    """
    losses: dict[Member, list[float]] = {}
    for fit, judge in folds:
        truth, count = y[judge], int(judge.sum())
        for family in known:
            inputs = family.seen(x[judge])
            for settings, maps in _candidates(family, family.seen(x[fit]), y[fit]):
                errors = count * (inputs @ maps.weight + maps.bias[:, None] - truth).abs().flatten(1).nanmean(1)
                for member, error in zip(settings, errors.tolist(), strict=True):
                    losses.setdefault(member, []).append(error)
    rows = sum(int(judge.sum()) for _, judge in folds)
    found = []
    for member, own in losses.items():
        # The first folds may have too few rows to fit a map; it is then the naive forecast.
        before = losses[Member(member.family, "naive")][: len(folds) - len(own)]
        loss = sum(before + own) / rows
        if loss == loss:
            found.append((loss, member))
    if not found:
        return [Member(known[0].name, "naive")]
    found = sorted(found, key=lambda pair: pair[0])[:_MOST_MEMBERS]
    lowest = max(found[0][0], 1e-12)
    highest = _worse(rows) * lowest
    shares = {member: (lowest / max(loss, lowest)) ** _POWER for loss, member in found if loss <= highest}
    return [member._replace(share=share / sum(shares.values())) for member, share in shares.items()]


def _worse(rows: int) -> float:
    """Returns the highest loss of a map in an average, as a multiple of the lowest."""
    return 1.1 + 0.4 * min(1.0, (20 / max(rows, 1)) ** 0.5)


def average(members: Sequence[Member], x: Tensor, y: Tensor, known: Sequence[Family]) -> Map:
    """Returns the average of the members, fitted to these rows, as a map of all values: weight `(K, C, H)`.

    Example:
        >>> from chronode.baselines._families import families
        >>> from chronode.baselines._families import families
        >>> steps = torch.arange(40.0).double().unfold(0, 6, 1)[:-1]
        >>> x, y = (steps - steps[:, -1:])[..., None], torch.tensor([[1.0, 2.0]] * len(steps)).double()
        >>> line = average([Member("last value", "recursive", 1, 1e-4)], x, y, families(6, 2, seasons=[]))
        >>> (x[0, :, 0] @ line.weight[:, 0] + line.bias).round(decimals=2).tolist()
        [1.0, 2.0]
    """
    weight = x.new_zeros(*x.shape[1:], y.shape[1])
    bias = y.new_zeros(y.shape[1])
    for family in known:
        own = [member for member in members if member.family == family.name]
        if not own:
            continue
        for member, found in _fitted(own, family, family.seen(x), y):
            weight += member.share * family.of_all(found.weight, x.shape[2])
            bias += member.share * found.bias
    return Map(weight, bias)


def _fitted(members: Sequence[Member], family: Family, x: Tensor, y: Tensor) -> Iterator[tuple[Member, Map]]:
    """Yields members of one family with their maps; without rows to fit, these are the naive forecast."""
    naive = _naive(family)
    regression = _Regression(family, x, y) if len(x) >= _FEWEST_ROWS else None
    by_lags: dict[int, list[Member]] = {}
    for member in members:
        by_lags.setdefault(member.lags, []).append(member)
    for lags, same in by_lags.items():
        solved = {"naive": naive}
        if regression is not None:
            solved["shifted"] = regression.shifted()
            solved |= regression.maps(lags, [member.penalty for member in same]) if lags else {}
        for place, member in enumerate(same):
            weight, bias = solved.get(member.method, naive)
            yield member, Map(weight[place % len(weight)], bias[place % len(bias)])


def _candidates(family: Family, x: Tensor, y: Tensor) -> Iterator[tuple[list[Member], Map]]:
    """Yields settings with their maps `(P, F, H)`, fitted to these rows."""
    naive = Member(family.name, "naive")
    yield [naive], _naive(family)
    if len(x) < _FEWEST_ROWS:
        return
    regression = _Regression(family, x, y)
    if family.level:
        yield [naive._replace(method="shifted")], regression.shifted()
    most = family.features.shape[1] // family.width
    for lags in sorted({*(lags for lags in _LAGS if lags < most), most} - {0}):
        for method, maps in regression.maps(lags, PENALTIES).items():
            yield [Member(family.name, method, lags, penalty) for penalty in PENALTIES], maps


def _naive(family: Family) -> Map:
    return Map(family.base[None], family.base.new_zeros(1, family.base.shape[1]))


class _Regression:
    """Ridge regressions of one family on the same rows.

    Args:
        family: Naive forecast and features.
        x: `(N, F)` values of the family.
        y: `(N, H)` what follows.
    """

    def __init__(self, family: Family, x: Tensor, y: Tensor):
        self.family = family
        inputs = x @ family.features
        self.gram = inputs.T @ inputs / len(x)
        self.side = inputs.T @ y / len(x) - inputs.T @ x / len(x) @ family.base
        self.change = y.mean(0) - x.mean(0) @ family.base

    def shifted(self) -> Map:
        """Returns the naive forecast plus its mean error, `(1, F, H)`."""
        return Map(self.family.base[None], self.change[None])

    def maps(self, lags: int, penalties: Sequence[float]) -> dict[str, Map]:
        """Returns the direct and the recursive maps of all penalties, `(P, F, H)`, from one eigenvalue problem."""
        family, size = self.family, lags * self.family.width
        gram = self.gram[:size, :size]
        scale = gram.diagonal().mean().clamp(min=1e-12)
        values, vectors = torch.linalg.eigh(gram / scale)
        side = vectors.T @ self.side[:size] / scale
        shrunk = side / (values.clamp(min=0) + values.new_tensor(penalties)[:, None])[..., None]
        weight = family.base + family.features[:, :size] @ (vectors @ shrunk)
        found = {"direct": weight}
        if family.recursive:
            found["recursive"] = _recursive(weight[..., 0], weight.shape[2])
        return {method: Map(own, own.new_zeros(len(own), own.shape[2])) for method, own in found.items()}


def _recursive(one: Tensor, horizon: int) -> Tensor:
    """Applies maps one step ahead, `one (P, K)`, to their own forecasts; returns `(P, K, horizon)`."""
    count, steps = one.shape
    eye = torch.eye(steps, dtype=one.dtype).expand(count, -1, -1)
    values = torch.cat([eye, one.new_zeros(count, steps, horizon)], dim=2)
    for ahead in range(horizon):
        values[..., steps + ahead] = torch.einsum("pij,pj->pi", values[..., ahead : steps + ahead], one)
    return values[..., steps:]
