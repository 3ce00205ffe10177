"""Predictions and evaluation of a trained model over all series of a Sequences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data import UNKNOWN, Batch, Sequences
from ..model import SequenceModel, check_symbols
from ..model.start import raw_outputs
from ._loaders import evaluation_batches
from ._metrics import Scores
from ._objective import VALUES, Objective

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
        objective: Objective of the model, whose threshold decides between two classes; None: the more likely class.
            Predictions of several targets with classes among them hold those of all targets one after the other.
    """

    ids: NDArray[Any]
    values: list[NDArray[np.float32]]
    classes: tuple[str, ...] | None
    names: tuple[str, ...] = ("target",)
    objective: Objective | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def by_target(self) -> tuple[Predictions, ...]:
        """The predictions of each of several targets; themselves for a single one."""
        goal = self.objective
        if goal is None or not goal.heads:
            return (self,)
        parts = zip(goal.parts, goal.spans, goal.targets, strict=True)
        return tuple(
            Predictions(self.ids, [values[..., span] for values in self.values], part.classes, (name,), part)
            for part, span, name in parts
        )

    @property
    def spans(self) -> tuple[slice, ...]:
        """The part of the values that belongs to each of several targets; all of them for a single one."""
        return (slice(None),) if self.objective is None or not self.objective.heads else self.objective.spans

    @property
    def heads(self) -> tuple[tuple[str, ...], ...]:
        """Names of columns of the values of each target: "p_ill" for a class, with the target if there are several."""
        parts = self.by_target
        return tuple(
            part.names
            if part.classes is None
            else tuple(f"p_{name}" if len(parts) == 1 else f"p_{part.names[0]}_{name}" for name in part.classes)
            for part in parts
        )

    @property
    def labels(self) -> list[Any]:
        """The name of the predicted class of each series; for predictions per step, a list per series."""
        return [self.label_of(chances) for chances in self.values]

    def label_of(self, chances: NDArray[Any]) -> Any:
        """Returns the names of the predicted classes of probabilities `(..., C)`."""
        if self.classes is None:
            raise ValueError("these predictions are values and have no labels.")
        numbers = chances.argmax(-1) if self.objective is None else self.objective.predicted(chances)
        return np.array(self.classes)[numbers].tolist()


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
            start = None if started is None else started[batch.rows].to(device)
            yield batch, model(batch.x.to(device), started=start, **times)


def outputs_in_order(model: SequenceModel, data: Sequences) -> Tensor:
    """Returns the logits or values `(N, K)` of the model for all series with one target each."""
    rows = [(batch.rows, output.cpu()) for batch, output in outputs(model, data)]
    return torch.cat([output for _, output in rows])[torch.cat([row for row, _ in rows]).argsort()]


def evaluate(
    model: SequenceModel, objective: Objective, data: Sequences, started: Tensor | None = None
) -> dict[str, float]:
    """Returns the loss and the metrics of `objective` over all known targets of `data`; `started` as for `outputs`."""
    data = data.with_classes(objective.class_names)
    scores, total, weight = objective.scores(), 0.0, 0.0
    for batch, output in outputs(model, data, started):
        if batch.target is None:
            raise ValueError("these series have no target to compare with.")
        target, weights = batch.target.to(output.device), batch.weights
        loss = objective.loss_of(output, target, model.unit(batch.x, **batch.times), weights)
        total, weight = total + float(loss.sum), weight + float(loss.weight)
        objective.measure(scores, output, target, weights)
    return {"loss": total / weight if weight else float("nan"), **scores.compute()}


def row_losses(model: SequenceModel, objective: Objective, data: Sequences, started: Tensor | None = None) -> Tensor:
    """Returns the loss `(N,)` of each series with one target, as `weighted_rows`; `started` as for `outputs`."""
    losses = torch.full((len(data),), torch.nan)
    for batch, output in outputs(model, data.with_classes(objective.class_names), started):
        assert batch.target is not None
        losses[batch.rows] = objective.row_losses(output.cpu(), batch.target).to(losses)
    return weighted_rows(losses, data)


def weighted_rows(losses: Tensor, data: Sequences) -> Tensor:
    """Returns losses `(N,)` times the weights of the series relative to their mean, so that the mean is weighted.

    Example:
        >>> from dataclasses import replace
        >>> from chronode.data import from_list
        >>> s = replace(from_list([[1.0], [2.0]], target=[0.5, 1.5]), weights=np.array([1.0, 3.0], np.float32))
        >>> weighted_rows(torch.tensor([8.0, 4.0]), s).tolist()
        [4.0, 6.0]
    """
    weights = data.target_weights()
    return losses if weights is None else losses * torch.from_numpy(weights).to(losses)


def start_losses(model: SequenceModel, objective: Objective, data: Sequences, started: Tensor | None = None) -> Tensor:
    """Returns the loss `(N,)` of each series by what the network starts from; arguments as for `row_losses`."""
    assert model.start is not None
    outputs = raw_outputs(model.start, data, model.relative) if started is None else started
    target = data.with_classes(objective.class_names).target
    assert target is not None
    goal = torch.tensor(target.values)
    losses = objective.row_losses(outputs, goal.long() if objective.kind == "class" else goal)
    return weighted_rows(losses.float(), data)


def standard_error(gaps: Tensor) -> float:
    """Returns the standard error of the mean of paired differences; NaN are left out.

    Example:
        >>> standard_error(torch.tensor([1.0, 3.0, torch.nan, 1.0, 3.0]))
        0.5773502588272095
    """
    finite = gaps[~gaps.isnan()]
    return float(finite.std() / len(finite) ** 0.5) if len(finite) > 1 else float("inf")


def predict(model: SequenceModel, objective: Objective, data: Sequences) -> Predictions:
    """Returns probabilities of the classes, or values in the units of the target."""
    values: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(data)
    for batch, output in outputs(model, data):
        predicted = objective.finished(output).float().numpy(force=True)
        for row, prediction, length in zip(batch.rows.tolist(), predicted, batch.lengths.tolist(), strict=True):
            values[row] = prediction[:length].copy() if model.per_step else prediction
    names = data.target.names if data.target is not None else ("target",)
    return Predictions(data.ids, values, objective.classes, names, objective)


class KnownRows(NamedTuple):
    """Predictions, true classes or values, groups, and weights (None for equal ones) of rows with a known target."""

    predicted: NDArray[Any]
    true: NDArray[Any]
    groups: NDArray[Any]
    weights: NDArray[np.float64] | None


def known_rows(data: Sequences, predictions: Predictions) -> KnownRows:
    """Returns every series or step whose target is known, values in their own units.

    Args:
        data: Series with targets, and with the classes of the model.
        predictions: Their predictions.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0], [2.0]], target=[0.5, float("nan")], ids=["a", "b"])
        >>> found = Predictions(s.ids, [np.array([1.0], np.float32)] * 2, None)
        >>> [part.tolist() for part in known_rows(s, found)[:3]]
        [[[1.0]], [[0.5]], ['a']]
    """
    target = data.target
    assert target is not None
    true = np.asarray(target.values if target.classes is not None else target.given)
    if target.per_step:
        true, groups = true[data.steps], np.repeat(data.groups, data.lengths)
        predicted = np.concatenate(predictions.values)
    else:
        predicted, groups = np.stack(predictions.values), data.groups
    mask = true != UNKNOWN if target.classes is not None else ~np.isnan(true).all(-1)
    weights = data.target_weights()
    return KnownRows(predicted[mask], true[mask], groups[mask], None if weights is None else weights[mask])


def rows_by_target(objective: Objective, data: Sequences, predictions: Predictions) -> list[KnownRows]:
    """Returns the rows of each target whose value is known, in the units of its metrics.

    Args:
        objective: The objective of the predictions.
        data: Series with targets.
        predictions: Their predictions.
    """
    pairs = zip(data.with_classes(objective.class_names).by_target, predictions.by_target, strict=True)
    rows = [known_rows(part, predicted) for part, predicted in pairs]
    return [
        known._replace(predicted=part.in_metric_units(known.predicted), true=part.in_metric_units(known.true))
        for part, known in zip(objective.parts, rows, strict=True)
    ]


def evaluate_targets(model: SequenceModel, objective: Objective, data: Sequences) -> dict[str, dict[str, float]]:
    """Returns the metrics of each of several targets in its own units; empty for a single target."""
    if not objective.targets or not len(data):
        return {}
    width, found, truth, weights = objective.num_outputs, [], [], []
    for batch, output in outputs(model, data.with_classes(objective.class_names)):
        assert batch.target is not None
        found.append(output.reshape(-1, width).cpu())
        truth.append(batch.target.reshape(len(found[-1]), -1))
        if batch.weights is not None:
            weights.append(batch.weights.repeat_interleave(len(truth[-1]) // len(batch.rows)))
    return by_target(objective, torch.cat(found), torch.cat(truth), torch.cat(weights) if weights else None)


def by_target(
    objective: Objective, output: Tensor, truth: Tensor, weights: Tensor | None = None
) -> dict[str, dict[str, float]]:
    """Returns the metrics of each target of an objective, by name; empty if it has no several targets.

    Args:
        objective: The objective.
        output: Values `(..., num_outputs)` of the model.
        truth: True values, NaN if unknown.
        weights: Weights of the rows; None for equal weights.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0], [2.0]], target=[[0.5, 900.0], [1.5, 700.0]])
        >>> goal, truth = Objective.for_data(s, targets=("a", "b")), torch.tensor(s.target.values)
        >>> {name: scores["mae"] for name, scores in by_target(goal, truth + torch.tensor([1.0, 8.0]), truth).items()}
        {'a': 1.0, 'b': 8.0}
    """
    if not objective.targets:
        return {}
    if objective.heads:
        output = output.reshape(-1, objective.num_outputs).double()
        pairs = objective.by_part(output, truth.reshape(len(output), -1))
        each = zip(objective.targets, pairs, strict=True)
        return {name: _measured(part, values, true, weights) for name, (part, values, true) in each}
    output, truth = (
        objective.unscaled(values.reshape(-1, objective.num_outputs).double()) for values in (output, truth)
    )
    count, names = len(objective.targets), tuple(dict.fromkeys([*objective.metrics, *VALUES]))
    metrics = {}
    for first, name in enumerate(objective.targets):
        predicted, true = output[:, first::count], truth[:, first::count]
        scores, mask = Scores(names, predicted.shape[1]), ~true.isnan().all(-1)
        scores.update(predicted[mask], true[mask], None if weights is None else weights[mask])
        metrics[name] = scores.compute()
    return metrics


def _measured(objective: Objective, output: Tensor, truth: Tensor, weights: Tensor | None) -> dict[str, float]:
    scores = objective.scores()
    objective.measure(scores, output, truth, weights)
    return scores.compute()
