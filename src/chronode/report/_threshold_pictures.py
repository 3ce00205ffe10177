"""Pictures of a two-class model at all thresholds: ROC, precision and recall, decision curve, table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..judge import Rates, candidate_thresholds, rates_at
from .pages import COLORS, GRAY, Plot, details, figure, number, span, table

_IN_TABLE = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def threshold_pictures(
    chances: NDArray[Any],
    positive: NDArray[np.bool_],
    name: str,
    threshold: float | None,
    weights: NDArray[np.float64] | None = None,
) -> tuple[list[str], str]:
    """Returns plots over all thresholds, and a table of some.

    Args:
        chances: `(rows,)` probabilities of the positive class.
        positive: `(rows,)` whether a row is of that class.
        name: Name of the class.
        threshold: Threshold that is stored with the model; None for 0.5.
        weights: `(rows,)` weights of the rows; None for equal weights.
    """
    if positive.all() or not positive.any():
        return [], ""
    rates, share = partial(rates_at, chances, positive, weights=weights), float(np.average(positive, weights=weights))
    every, now = rates(candidate_thresholds(chances)), rates([0.5 if threshold is None else threshold])
    mark = f"at {number(float(now.thresholds[0]))}"
    roc = Plot((0, 1), (0, 1), title="ROC curve", xlabel="1 − specificity", ylabel="sensitivity")
    roc.line([0, 1], [0, 1], color=GRAY, dash="3 3", name="chance")
    roc.line(1 - every.specificity, every.sensitivity, name="model")
    roc.dots(1 - now.specificity, now.sensitivity, color=COLORS[1], size=5, name=mark)
    recall = Plot((0, 1), (0, 1), title="Precision and recall", xlabel="sensitivity (recall)", ylabel="precision")
    recall.level(share, name="all flagged")
    recall.line(every.sensitivity, every.precision, name="model")
    recall.dots(now.sensitivity, now.precision, color=COLORS[1], size=5, name=mark)
    pictures = [figure(roc), figure(recall), _decision_curve(rates, share, float(now.thresholds[0]))]
    return pictures, _table(rates, name, threshold)


def _decision_curve(rates: Callable[..., Rates], share: float, threshold: float) -> str:
    at = np.linspace(0.01, 0.99, 99)
    model = rates(at).net_benefit
    every = share - (1 - share) * at / (1 - at)
    low = -0.15 * max(share, 0.01)
    plot = Plot(
        (0, 1),
        (low, span(model, [share])[1]),
        title="Decision curve",
        xlabel="threshold: odds of a false alarm that a find is worth",
        ylabel="net benefit per series",
    )
    plot.line(at, np.where(every >= low, every, np.nan), color=GRAY, dash="3 3", name="all flagged")
    plot.level(0.0, name="none flagged")
    plot.line(at, np.maximum(model, low), name="model")
    plot.upright(threshold, name=f"at {number(threshold)}", color=COLORS[1])
    return figure(plot, "At the threshold 0.2, one find is worth 4 false alarms.")


def _table(rates: Callable[..., Rates], name: str, threshold: float | None) -> str:
    at = sorted({*_IN_TABLE, *([] if threshold is None else [threshold])})
    found = rates(at)
    columns = ["threshold", "sensitivity", "specificity", "precision", "npv", "flagged", "net benefit"]
    values = [found.thresholds, found.sensitivity, found.specificity, found.precision, found.npv, found.flagged]
    rows = [
        ["" if value != value else number(float(value)) for value in row]
        for row in zip(*values, found.net_benefit, strict=True)
    ]
    for row, value in zip(rows, at, strict=True):
        row[0] += " (stored)" if value == threshold else ""
    text = f"Thresholds: {name} is predicted from this probability on"
    return details(text, table(columns, rows, numeric=columns))
