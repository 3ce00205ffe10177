"""The series that a model did best and worst on, and which of their observations mattered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import UNKNOWN, Sequences
from ..model import SequenceModel
from ..training import Attribution, Objective, Predictions, integrated_gradients
from ._data_pictures import binned, series_picture
from ._time_axis import noun, time_axis
from .pages import Html, bar_chart, figure, heading, heat_map, number, paragraph, ticks

_MOST_CHANNELS = 12
_FEW_TARGETS = 4
# Maximum cost of an explanation: steps times points of the path.
_MOST_WORK = 65_536


@dataclass(frozen=True)
class ScoredSeries:
    """A series of the test part and how well the model did on it.

    Attributes:
        row: Its number in the test part.
        score: Mean probability of the true class, or minus the root mean square error in the model's units.
    """

    row: int
    score: float


def ranked(test: Sequences, predictions: Predictions, scale: NDArray[Any]) -> list[ScoredSeries]:
    """Returns the series with a known target, the best first.

    Args:
        test: Series with targets in the same units as the predictions.
        predictions: Predictions of the model.
        scale: Scale of each numeric target, so that all have the same weight.
    """
    target = test.target
    assert target is not None
    scored = []
    for row, predicted in enumerate(predictions.values):
        part = slice(int(test.starts[row]), int(test.starts[row] + test.lengths[row])) if target.per_step else row
        true = np.atleast_1d(target.values[part])
        if target.classes is not None:
            chances = predicted if target.per_step else predicted[None]
            has_label = true != UNKNOWN
            score = float(chances[has_label, true[has_label]].mean()) if has_label.any() else np.nan
        else:
            gap = (predicted - target.values[part]) / scale
            score = -float(np.sqrt(np.nanmean(gap**2))) if np.isfinite(gap).any() else np.nan
        if np.isfinite(score):
            scored.append(ScoredSeries(row, score))
    return sorted(scored, key=lambda one: -one.score)


def best_and_worst(
    model: SequenceModel,
    objective: Objective,
    scaled: Sequences,
    shown: Sequences,
    predictions: Predictions,
    scale: Any,
    drawn: Callable[[int], str],
) -> list[str]:
    """Returns plots of the best and the worst series with the contributions of their observations."""
    scored = ranked(shown, predictions, np.asarray(scale))
    if not scored:
        return [paragraph("No series of the test part has a known target.")]
    count = 1 if len(scored) < 4 else 2
    groups = {"Best": scored[:count], "Worst": scored[::-1][:count]}
    if len(scored) == 1:
        groups = {f"The only {noun(shown)}": scored}
    pieces, attributions = [], []
    for name, chosen in groups.items():
        pieces.append(heading(name))
        boxes = []
        for one in chosen:
            explained = _explained(model, objective, scaled, predictions, one.row)
            attributions.append(explained)
            boxes.append(_box(shown, predictions, one, explained, drawn(one.row)))
        pieces.append(f'<div class="grid">{"".join(boxes)}</div>')
    return [*pieces, *_by_channel(attributions, shown.channels)]


def _explained(
    model: SequenceModel, objective: Objective, scaled: Sequences, predictions: Predictions, row: int
) -> Attribution | None:
    """Returns the contributions to the probability of the predicted class, or to the first target.

    Returns None for very long series.
    """
    length = int(scaled.lengths[row])
    most = min(1024, _MOST_WORK // length)
    if most < 32:
        return None
    predicted = predictions.values[row]
    output = int((predicted[-1] if objective.per_step else predicted).argmax()) if objective.classes is not None else 0
    chances = objective.classes is not None
    return integrated_gradients(model, scaled, row, output=output, probability=chances, most=most)


def _box(
    shown: Sequences, predictions: Predictions, one: ScoredSeries, explained: Attribution | None, drawn: str
) -> Html:
    """Returns the plot of one series: its values, the prediction, and the contributions below it."""
    parts = [str(series_picture(shown, one.row)), drawn, paragraph(_verdict(predictions, one, bool(drawn)), "small")]
    if explained is not None:
        parts.append(_contributions(shown, one.row, explained, predictions))
    return Html(f"<figure>{''.join(parts)}</figure>")


def _verdict(predictions: Predictions, one: ScoredSeries, drawn: bool) -> str:
    predicted = predictions.values[one.row]
    if predictions.classes is None:
        size = f"root mean square error {number(-one.score)} standard deviations of the target"
        if predicted.ndim == 1 and not drawn and len(predicted) <= _FEW_TARGETS:
            return f"predicted {', '.join(number(float(value)) for value in predicted)}; {size}"
        return size
    if predicted.ndim == 2:
        return f"mean probability of the true class over all steps: {number(one.score)}"
    return (
        f"predicted {predictions.classes[int(predicted.argmax())]} with probability {number(float(predicted.max()))}; "
        f"probability of the true class: {number(one.score)}"
    )


def _contributions(shown: Sequences, row: int, explained: Attribution, predictions: Predictions) -> str:
    values = explained.values
    order = np.argsort(-np.abs(values).sum(0), kind="stable")[:_MOST_CHANNELS]
    order = np.sort(order)
    series = shown[row]
    times = series.times if len(series.times) == len(values) else np.arange(float(len(values)))
    field, edges = binned(values[:, order], times, total=True)
    names = [shown.channels[channel] for channel in order] if values.shape[1] == len(shown.channels) else ["symbol"]
    step = " at the last step" if predictions.values[row].ndim == 2 else ""
    if predictions.classes is None:
        what = f"{predictions.names[0]}{step} (scaled)"
    else:
        predicted = predictions.values[row]
        what = f"p({predictions.classes[int((predicted[-1] if predicted.ndim == 2 else predicted).argmax())]}){step}"
    change = f"{number(explained.reference)} → {number(explained.output)}"
    note = (
        ""
        if explained.error <= 1e-3 * max(1, abs(explained.output - explained.reference))
        else (f"; the contributions miss {number(explained.error)} of the change")
    )
    title = f"Contributions to {what}: {change}{note}"
    axis = time_axis(shown, float(edges[0]), float(edges[-1]))
    marks = axis.marks or [(place, number(place)) for place in ticks(float(edges[0]), float(edges[-1]))]
    return heat_map(field.T, names, (), title=title, xlabel=axis.label, edges=edges, tall=16, marks=marks)


def _by_channel(attributions: list[Attribution | None], channels: tuple[str, ...]) -> list[str]:
    """Returns a chart of the mean absolute contributions of each channel over the explained series."""
    computed = [one for one in attributions if one is not None and one.values.shape[1] == len(channels)]
    text = (
        "Contributions are integrated gradients from the mean of every channel to the series: they sum to the change "
        "of the output. Blue raises it, orange lowers it."
    )
    if not computed:
        return [paragraph("These series are too long to show contributions.", "small")] if None in attributions else []
    if len(channels) < 2:
        return [paragraph(text, "small")]
    sizes = np.mean([np.abs(one.values).sum(0) for one in computed], axis=0)
    order = np.argsort(-sizes, kind="stable")[:_MOST_CHANNELS]
    total = float(sizes.sum()) or 1.0
    title = f"Size of the contributions by channel, mean of {len(computed)} series"
    texts = [f"{100 * sizes[channel] / total:.0f}%" for channel in order]
    chart = bar_chart([channels[channel] for channel in order], sizes[order].tolist(), texts, title=title)
    return [f'<div class="grid">{figure(chart)}<div>{paragraph(text, "small")}</div></div>']
