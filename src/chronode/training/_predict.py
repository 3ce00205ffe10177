"""Predictions and evaluation of a trained model over all series of a Sequences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import Batch, Scaler, Sequences
from ..model import SequenceModel, check_symbols
from ._loaders import evaluation_batches
from ._objective import Objective

# Maximum number of values per tensor of an evaluation batch: 64 MB.
_MOST_NUMBERS = 2**24


@dataclass(frozen=True)
class Predictions:
    """Predictions of a model, in the order of the series.

    Attributes:
        ids: Ids of the series.
        values: One array per series: class probabilities `(C,)` or values `(K,)`; for every step `(T, C)` or `(T, K)`.
        classes: Names of the classes; None for values.
        names: Names of the target columns.
    """

    ids: NDArray[Any]
    values: list[NDArray[np.float32]]
    classes: tuple[str, ...] | None
    names: tuple[str, ...] = ("target",)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labels(self) -> list[Any]:
        """The name of the most likely class of each series; for predictions per step, a list per series."""
        if self.classes is None:
            raise ValueError("these predictions are values and have no labels.")
        names = np.array(self.classes)
        return [names[chances.argmax(-1)].tolist() for chances in self.values]


@contextmanager
def for_prediction(model: SequenceModel) -> Iterator[None]:
    """Sets evaluation mode without gradients; afterwards the mode is restored."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def outputs(model: SequenceModel, data: Sequences, started: Tensor | None = None) -> Iterator[tuple[Batch, Tensor]]:
    """Yields every batch with the logits or values of the model, ordered by length.

    `started` are outputs `(N, K)` of the linear start, if they are known already.
    """
    widest = max(model.layer.hidden_size, model.layer.output_size, model.head.out_features, data.num_channels)
    device = model.head.weight.device
    check_symbols(model, data)
    with for_prediction(model):
        for batch in evaluation_batches(data, _MOST_NUMBERS // widest):
            times = {name: tensor.to(device) for name, tensor in batch.inputs.items()}
            known = None if started is None else started[batch.rows].to(device)
            yield batch, model(batch.x.to(device), started=known, **times)


def evaluate(
    model: SequenceModel, objective: Objective, data: Sequences, started: Tensor | None = None
) -> dict[str, float]:
    """Returns the loss and the metrics of `objective` over all known targets of `data`; `started` as for `outputs`."""
    data = data.with_classes(objective.classes)
    scores, total, weight = objective.scores(), 0.0, 0.0
    for batch, output in outputs(model, data, started):
        if batch.target is None:
            raise ValueError("these series have no target to compare with.")
        target, weights = batch.target.to(output.device), batch.weights
        loss = objective.loss_of(output, target, model.unit(batch.x, **batch.times), weights)
        total, weight = total + float(loss.sum), weight + float(loss.weight)
        objective.measure(scores, output, target)
    return {"loss": total / weight if weight else float("nan"), **scores.compute()}


def predict(
    model: SequenceModel, data: Sequences, *, classes: tuple[str, ...] | None = None, scaler: Scaler | None = None
) -> Predictions:
    """Returns probabilities of `classes`, or values, converted by `scaler` to the units of the target."""
    values: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(data)
    for batch, output in outputs(model, data):
        if classes is not None:
            output = output.softmax(-1)
        elif scaler is not None:
            output = scaler.inverse_target(output)
        predicted = output.float().numpy(force=True)
        for row, prediction, length in zip(batch.rows.tolist(), predicted, batch.lengths.tolist(), strict=True):
            values[row] = prediction[:length].copy() if model.per_step else prediction
    names = data.target.names if data.target is not None else ("target",)
    return Predictions(data.ids, values, classes, names)
