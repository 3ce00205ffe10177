"""Explanations of predictions: contributions of channels, static columns and spans of time, per series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import Sequences, source_columns
from ..model import SequenceModel
from ..settings import one_of, whole
from ..storage import Result
from ._attribution import Attribution, Floats, integrated_gradients, span_edges, span_masks
from ._objective import Objective
from ._predict import outputs

# Most steps times points of the path for one series; a longer series gets fewer points, and a larger error.
_MOST_WORK = 2**18
_FEWEST_POINTS = 32


@dataclass(frozen=True)
class Explanation(Result):
    """Contributions to one output per series: `output = reference + channels.sum(1) + static.sum(1)`, up to `error`.

    Text columns that became several channels are one column here. The reference is a series whose values are the means
    of training, at the same times.

    Attributes:
        ids: `(N,)` ids of the series.
        names: Name of the explained output of each series: a target, or "p(ill)" for the probability of a class.
        reference: `(N,)` output for the reference.
        output: `(N,)` output for the series, in the units of the target.
        error: `(N,)` what the contributions miss of the difference.
        by_occlusion: `(N,)` part of the difference that belongs to trees or to features that count or rank, and is
            divided by occlusion; the rest is divided by integrated gradients.
        channel_names: Names of the C channels.
        channels: `(N, C)` contributions of the channels.
        static_names: Names of the S static columns.
        static: `(N, S)` contributions of the static columns.
        edges: `(N, spans + 1)` ends of the spans, in the unit of time of the data.
        spans: `(N, spans, C)` contributions of the channels in each span.
    """

    ids: NDArray[np.generic]
    names: tuple[str, ...]
    reference: Floats
    output: Floats
    error: Floats
    by_occlusion: Floats
    channel_names: tuple[str, ...]
    channels: Floats
    static_names: tuple[str, ...]
    static: Floats
    edges: Floats
    spans: Floats

    def __len__(self) -> int:
        return len(self.ids)


def explain(
    model: SequenceModel,
    objective: Objective,
    data: Sequences,
    names: Sequence[str] = (),
    *,
    of: str | None = None,
    spans: int = 4,
) -> Explanation:
    """Explains the prediction for each series, for predictions per step that of the last step.

    Args:
        model: The trained model.
        objective: Its objective.
        data: Series that are scaled like the training series.
        names: Names of the outputs that are values; numbered by default.
        of: Class or target to explain; by default the positive of two classes, the predicted one of more, or the first
            target.
        spans: Number of spans of equal duration.

    Example:
        >>> from chronode.data import from_list
        >>> from chronode.training import fit, Settings
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0]] * 8, target=["a", "b"] * 8, channels=["x"])
        >>> trained = fit(s, "gru", Settings(epochs=1))
        >>> found = trained.explain(s[:3], spans=2)
        >>> found.names[0], found.channels.shape, found.spans.shape
        ('p(b)', (3, 1), (3, 2, 1))
        >>> bool(np.allclose(found.reference + found.channels.sum(1), found.output, atol=1e-3))
        True
    """
    whole("spans", spans, at_least=1)
    data = data.with_classes(objective.class_names)
    numbers = _chosen(model, objective, data, tuple(names), of)
    classes = objective.classes
    texts = tuple(
        f"p({classes[one]})" if classes is not None else (names[one] if names else f"output {one}") for one in numbers
    )
    attributions = [_attribution(model, objective, data, row, one, spans) for row, one in enumerate(numbers)]
    channels, by_channel = _merged(data.channels, data, symbols=model.embedding is not None)
    statics, by_static = _merged(data.static_names, data)
    parts = [
        np.stack([one.values[mask].sum(0) @ by_channel for mask in span_masks(data, row, spans)])
        for row, one in enumerate(attributions)
    ]
    each = np.array(parts).reshape(len(attributions), spans, len(channels))
    return Explanation(
        ids=data.ids,
        names=texts,
        reference=np.array([one.reference for one in attributions]),
        output=np.array([one.output for one in attributions]),
        error=np.array([one.error for one in attributions]),
        by_occlusion=np.array([one.by_occlusion for one in attributions]),
        channel_names=channels,
        channels=each.sum(1),
        static_names=statics,
        static=np.array([one.static @ by_static for one in attributions]).reshape(len(attributions), len(statics)),
        edges=np.array([span_edges(data, row, spans) for row in range(len(data))]).reshape(
            len(attributions), spans + 1
        ),
        spans=each,
    )


def _attribution(
    model: SequenceModel, objective: Objective, data: Sequences, row: int, output: int, spans: int
) -> Attribution:
    most = max(_FEWEST_POINTS, min(1024, _MOST_WORK // int(data.lengths[row])))
    probability = objective.classes is not None
    unscaled = None if probability else objective.unscaled
    options = {"output": output, "probability": probability, "most": most, "spans": spans}
    return integrated_gradients(model, data, row, unscaled=unscaled, **options)


def _chosen(
    model: SequenceModel, objective: Objective, data: Sequences, names: tuple[str, ...], of: str | None
) -> list[int]:
    """Returns the number of the output to explain of each series."""
    labels = objective.classes if objective.classes is not None else names
    if of is not None:
        return [labels.index(one_of("of", of, labels))] * len(data)
    if objective.classes is None or objective.positive is not None:
        return [objective.positive_number if objective.classes is not None else 0] * len(data)
    best = torch.zeros(len(data), dtype=torch.long)
    for batch, output in outputs(model, data):
        last = output[torch.arange(len(output)), batch.lengths - 1] if model.per_step else output
        best[batch.rows] = last.argmax(-1).cpu()
    return best.tolist()


def _merged(names: Sequence[str], data: Sequences, *, symbols: bool = False) -> tuple[tuple[str, ...], Floats]:
    """Returns the columns that channels come from, and a matrix that sums the contributions of each."""
    if symbols:
        return tuple(names[:1]), np.ones((1, 1))
    columns = source_columns(names, data.categories)
    positions = [columns.index(source_columns([name], data.categories)[0]) for name in names]
    return tuple(columns), np.eye(len(columns))[positions].reshape(len(names), len(columns))
