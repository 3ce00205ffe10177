"""Plots of predictions on the test part: confusion, calibration, thresholds, residuals, forecasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Sequences, future_times
from ..judge import Rates, candidate_thresholds, rates_at
from ._time_axis import TimeAxis, time_axis
from .pages import COLORS, GRAY, Plot, details, figure, heat_map, number, span, table

# With more classes their names are unreadable.
MOST_CLASSES = 40
_MOST_DOTS = 1_500
_BINS = 10


def confusion_picture(predicted: NDArray[Any], true: NDArray[Any], classes: Sequence[str]) -> str:
    """Plots the confusion matrix; colors show the share of the true class."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (true, predicted), 1)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    right = np.trace(counts) / max(counts.sum(), 1)
    title = f"Confusion matrix: {100 * right:.1f}% of {counts.sum():,} correct"
    tall = 26 if len(classes) <= 12 else 16
    texts = [[str(count) if count else "" for count in row] for row in counts.tolist()]
    return figure(
        heat_map(
            counts,
            classes,
            classes,
            title=title,
            xlabel="predicted class",
            texts=texts,
            tall=tall,
            shares=share,
            ends=("0%", "100% of the true class"),
        ),
        "One row per true class.",
    )


def class_table(predicted: NDArray[Any], true: NDArray[Any], classes: Sequence[str]) -> str:
    """Returns the number of cases, precision, recall and F1 of each class.

    Example:
        >>> "<td>ill</td>" in class_table(np.array([0, 1, 1]), np.array([0, 1, 0]), ("well", "ill"))
        True
    """
    rows = []
    for label, name in enumerate(classes):
        hits = int(((predicted == label) & (true == label)).sum())
        said, cases = int((predicted == label).sum()), int((true == label).sum())
        scores = [hits / said if said else None, hits / cases if cases else None]
        rows.append([name, cases, said, *scores, 2 * hits / (said + cases) if said + cases else None])
    columns = ["class", "cases", "predicted", "precision", "recall", "F1"]
    return table(columns, rows, numeric=columns[1:])


def calibration_picture(chances: NDArray[Any], true: NDArray[Any], classes: Sequence[str]) -> str:
    """Plots the observed frequency over the predicted probability."""
    if len(classes) == 2:
        sure, right, what = chances[:, 1], true == 1, f"class {classes[1]}"
    else:
        sure, right, what = chances.max(1), chances.argmax(1) == true, "the predicted class"
    order = np.argsort(sure, kind="stable")
    parts = [part for part in np.array_split(order, min(_BINS, max(1, len(order) // 5))) if len(part)]
    x, y = (np.array([float(values[part].mean()) for part in parts]) for values in (sure, right))
    sizes = np.array([len(part) for part in parts])
    error = float((np.abs(x - y) * sizes).sum() / sizes.sum())
    half = 1.96 * np.sqrt(np.maximum(y * (1 - y), 0.25 / sizes) / sizes)
    labels = {"xlabel": f"predicted probability of {what}", "ylabel": "observed share"}
    plot = Plot((0, 1), (0, 1), title=f"Calibration: mean error {number(error)}", **labels)
    plot.line([0, 1], [0, 1], color=GRAY, dash="3 3", name="perfect")
    plot.band(x, np.clip(y - half, 0, 1), np.clip(y + half, 0, 1), name="95% interval")
    plot.line(x, y, dots=True, name="model")
    return figure(plot, f"Test predictions in {len(parts)} groups of about {round(sizes.mean())}, by probability.")


def residual_pictures(predicted: NDArray[Any], true: NDArray[Any], names: Sequence[str]) -> list[str]:
    """Plots predicted over true values and a histogram of their differences, per target."""
    pictures: list[str] = []
    for name, ours, theirs in zip(names, predicted.T, true.T, strict=True):
        finite = np.isfinite(ours) & np.isfinite(theirs)
        ours, theirs = ours[finite].astype(np.float64), theirs[finite].astype(np.float64)
        if not len(ours):
            continue
        few = np.linspace(0, len(ours) - 1, min(len(ours), _MOST_DOTS)).astype(int)
        ends = span(ours, theirs)
        plot = Plot(ends, ends, title=f"{name}: predicted and true", xlabel="true", ylabel="predicted")
        plot.line(ends, ends, color=GRAY, dash="3 3", name="predicted = true")
        plot.dots(theirs[few], ours[few], opacity=max(0.15, min(0.8, 60 / len(few))), size=2.5)
        gap = ours - theirs
        counts, edges = np.histogram(gap, bins=min(40, max(8, round(len(gap) ** 0.4))))
        title = f"{name}: mean residual {number(float(gap.mean()))}, RMSE {number(float(np.sqrt((gap**2).mean())))}"
        bars = Plot(
            (edges[0], edges[-1]), (0, 1.05 * counts.max()), title=title, xlabel="predicted − true", ylabel="count"
        )
        bars.bars(edges, counts, color=COLORS[2])
        if edges[0] < 0 < edges[-1]:
            bars.upright(0.0)
        pictures += [figure(plot), figure(bars)]
    return pictures


def forecast_picture(
    history: NDArray[Any],
    predicted: NDArray[Any],
    true: NDArray[Any] | None,
    intervals: Mapping[float, NDArray[Any]],
    title: str,
    s: Sequences | None = None,
) -> str:
    """Plots the last observations of a series, the forecast after them, and the true values, without a frame.

    Args:
        history: `(T,)` the channel up to the last step.
        predicted: `(horizon,)` the forecast.
        true: `(horizon,)` the true values, NaN if unknown; None if they are yet to come.
        intervals: Level in percent -> `(2, horizon)` lower and upper ends.
        title: Text above the plot.
        s: The series alone, for the times; None to count steps.
    """
    past = history[-max(24, 4 * len(predicted)) :].astype(np.float64)
    before, after = np.arange(1.0 - len(past), 1), np.arange(1.0, len(predicted) + 1)
    axis = TimeAxis("steps ahead", None)
    if s is not None and s.base_times is not None:
        before, after = s[0].times[-len(past) :].astype(np.float64), future_times(s, len(predicted))[0]
        axis = time_axis(s, float(before[0]), float(after[-1]))
    plot = Plot(
        span([before[0], after[-1]], room=0.01),
        span(past, predicted, [] if true is None else true, *intervals.values()),
        title=title,
        xlabel=axis.label,
        whole=True,
        marks=axis.marks,
    )
    finite = np.isfinite(past)
    plot.line(before[finite], past[finite], color=GRAY, dots=len(past) <= 60, name="history")
    for level in sorted(intervals, reverse=True):
        plot.band(after, *intervals[level], color=COLORS[1], name=f"{level:g}% interval")
    if true is not None:
        plot.line(after, true, color=COLORS[0], dots=True, name="true")
    plot.line(after, predicted, color=COLORS[1], dots=True, name="forecast")
    plot.upright(float(before[-1]))
    return str(plot)


def steps_picture(
    times: NDArray[Any],
    predicted: NDArray[Any],
    true: NDArray[Any],
    classes: Sequence[str] | None,
    name: str,
    axis: TimeAxis,
) -> str:
    """Plots the predictions at every step of one series: of a number beside the true values, of classes the probability
    of the true one.

    Args:
        times: `(T,)` the times of the steps.
        predicted: `(T, classes)` probabilities, or `(T, targets)` values, of which the first is drawn.
        true: `(T,)` class numbers, negative if unknown, or `(T, targets)` values.
        classes: Names of the classes; None for numbers.
        name: Name of the target.
        axis: Axis of the times.
    """
    if classes is None:
        ours, theirs = predicted[:, 0].astype(np.float64), true[:, 0].astype(np.float64)
        title, heights = f"{name}: predicted and true", span(ours, theirs)
        plot = Plot(span(times, room=0.01), heights, title=title, xlabel=axis.label, height=170, marks=axis.marks)
        plot.line(times, theirs, color=COLORS[0], name="true")
        plot.line(times, ours, color=COLORS[1], name="predicted")
        return str(plot)
    chances = np.where(true >= 0, predicted[np.arange(len(true)), true], np.nan)
    title = f"{name}: probability of the true class"
    plot = Plot(span(times, room=0.01), (0, 1), title=title, xlabel=axis.label, height=170, marks=axis.marks)
    plot.line(times, chances, color=COLORS[0])
    return str(plot)


def horizon_picture(gaps: NDArray[Any], horizon: int, channels: Sequence[str]) -> str:
    """Plots the error of each step ahead: `gaps (rows, horizon * channels)`, step by step."""
    table = np.sqrt(np.nanmean(gaps.astype(np.float64) ** 2, axis=0)).reshape(horizon, len(channels))
    plot = Plot(
        span(range(1, horizon + 1)),
        span(table, zero=True),
        title="RMSE by steps ahead",
        xlabel="steps ahead",
        whole=True,
    )
    for index, name in enumerate(channels[:8]):
        plot.line(range(1, horizon + 1), table[:, index], color=COLORS[index], name=name, dots=horizon <= 40)
    return figure(plot)


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
