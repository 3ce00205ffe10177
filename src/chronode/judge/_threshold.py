"""Thresholds between two classes: chosen by costs or by a sensitivity, and the rates at every threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..settings import SettingError, named, number
from ..storage import Result

Floats = NDArray[np.float64]
# Share of the room between two probabilities that a threshold keeps from either.
_ROOM = 0.1
COSTS = ("fn", "fp")
"""Mistakes that have a cost: a missed positive (fn) and a false alarm (fp)."""


@dataclass(frozen=True)
class Rates(Result):
    """Rates of a two-class model at several thresholds; NaN where there is nothing to divide by.

    Attributes:
        thresholds: `(n,)` probabilities from which the positive class is predicted.
        sensitivity: Share of the positive rows that are predicted positive.
        specificity: Share of the other rows that are not.
        precision: Share of the rows predicted positive that are.
        npv: Share of the rows not predicted positive that are not.
        flagged: Share of all rows predicted positive.
        net_benefit: True positives minus false ones times the odds of the threshold, per row (Vickers and Elkin, 2006).
        missed: Number of positive rows not predicted positive.
        false_alarms: Number of other rows predicted positive.
    """

    thresholds: Floats
    sensitivity: Floats
    specificity: Floats
    precision: Floats
    npv: Floats
    flagged: Floats
    net_benefit: Floats
    missed: Floats
    false_alarms: Floats


def rates_at(chances: ArrayLike, positive: ArrayLike, thresholds: ArrayLike, weights: ArrayLike | None = None) -> Rates:
    """Returns the rates at thresholds.

    Args:
        chances: `(rows,)` probabilities of the positive class.
        positive: `(rows,)` whether a row is of the positive class.
        thresholds: `(n,)` thresholds.
        weights: `(rows,)` weights of the rows; None for equal weights.

    Example:
        >>> found = rates_at([0.9, 0.6, 0.4, 0.1], [True, False, True, False], [0.5, 0.3])
        >>> found.sensitivity.tolist(), found.specificity.tolist(), found.flagged.tolist()
        ([0.5, 1.0], [0.5, 0.5], [0.5, 0.75])
    """
    chance, is_positive = np.asarray(chances, dtype=np.float64), np.asarray(positive, dtype=bool)
    at = np.asarray(thresholds, dtype=np.float64)
    weight = np.ones(len(chance)) if weights is None else np.asarray(weights, dtype=np.float64)
    counts = []
    for side in (is_positive, ~is_positive):
        order = np.argsort(chance[side], kind="stable")
        below = np.concatenate([[0.0], np.cumsum(weight[side][order])])
        counts.append(below[-1] - below[np.searchsorted(chance[side][order], at, side="left")])
    true, false = counts
    positives, negatives = float(weight[is_positive].sum()), float(weight[~is_positive].sum())
    rows = positives + negatives
    with np.errstate(divide="ignore", invalid="ignore"):
        return Rates(
            at,
            true / positives,
            (negatives - false) / negatives,
            true / (true + false),
            (negatives - false) / (rows - true - false),
            (true + false) / rows,
            true / rows - false / rows * at / (1 - at),
            positives - true,
            false,
        )


def candidate_thresholds(chances: ArrayLike) -> Floats:
    """Returns one threshold for each way to divide rows by their probability, from low to high.

    Example:
        >>> candidate_thresholds([0.2, 0.6, 0.6]).round(3).tolist()
        [0.1, 0.4, 0.8]
    """
    values = np.unique(np.asarray(chances, dtype=np.float64))
    edges = np.concatenate([[0.0], values, [1.0]])
    return (edges[:-1] + edges[1:]) / 2


def choose_threshold(
    chances: ArrayLike,
    positive: ArrayLike,
    *,
    cost: Mapping[str, float] | None = None,
    sensitivity: float | None = None,
    specificity: float | None = None,
    weights: ArrayLike | None = None,
) -> float:
    """Returns the threshold with the lowest cost, or the best one that reaches a sensitivity or specificity.

    Choose it on series that neither trained nor test the model. Among thresholds of equal cost, the one closest to
    `fp / (fp + fn)` is chosen, which is the best one for probabilities that are true.

    Args:
        chances: `(rows,)` probabilities of the positive class.
        positive: `(rows,)` whether a row is of the positive class.
        cost: Costs of a missed positive ("fn") and of a false alarm ("fp").
        sensitivity: Sensitivity to reach at least, with the highest possible threshold.
        specificity: Specificity to reach at least, with the lowest possible threshold.
        weights: `(rows,)` weights of the rows; None for equal weights.

    Example:
        >>> chances, ill = [0.9, 0.6, 0.4, 0.1], [True, False, True, False]
        >>> choose_threshold(chances, ill, cost={"fn": 5, "fp": 1})  # 1 / 6 is between 0.1 and 0.4
        0.16666666666666666
        >>> choose_threshold(chances, ill, specificity=1.0)
        0.75
    """
    given = {"cost": cost, "sensitivity": sensitivity, "specificity": specificity}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) != 1:
        names = ", ".join(named(name) for name in given)
        raise SettingError(
            f"pass one of {names}: it says which threshold is the best.", argument=asked[-1] if asked else "cost"
        )
    is_positive = np.asarray(positive, dtype=bool)
    if is_positive.all() or not is_positive.any():
        raise ValueError("a threshold needs series of both classes to be chosen by: add validation series.")
    candidates = candidate_thresholds(chances)
    rates = rates_at(chances, is_positive, candidates, weights)
    if cost is not None:
        prices = _prices(cost)
        total = prices["fn"] * rates.missed + prices["fp"] * rates.false_alarms
        best = np.flatnonzero(total <= total.min() + 1e-9 * (1 + total.min()))
        ideal = prices["fp"] / (prices["fp"] + prices["fn"])
        edges = np.concatenate([[0.0], np.unique(np.asarray(chances, dtype=np.float64)), [1.0]])
        room = _ROOM * np.diff(edges)[best]
        closest = np.clip(ideal, edges[best] + room, edges[best + 1] - room)
        return float(closest[np.abs(closest - ideal).argmin()])
    if sensitivity is not None:
        reached = rates.sensitivity >= number("sensitivity", sensitivity, above=0, at_most=1) - 1e-12
        return float(candidates[reached].max())
    assert specificity is not None
    reached = rates.specificity >= number("specificity", specificity, above=0, at_most=1) - 1e-12
    return float(candidates[reached].min())


def _prices(cost: Mapping[str, float]) -> dict[str, float]:
    if set(cost) != set(COSTS):
        example = named("cost", "fn=5,fp=1")
        raise SettingError(
            f"{named('cost')} needs fn (a missed positive) and fp (a false alarm): {example}.", argument="cost"
        )
    return {name: number(f"cost: {name}", value, above=0) for name, value in cost.items()}
