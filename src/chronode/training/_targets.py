"""Metrics of each of several targets, in its own units."""

from __future__ import annotations

import torch
from torch import Tensor

from ..data import Scaler, Sequences
from ..model import SequenceModel
from ._metrics import Scores
from ._objective import VALUES, Objective
from ._predict import outputs

Metrics = dict[str, float]


def by_target(objective: Objective, output: Tensor, truth: Tensor, scaler: Scaler | None) -> dict[str, Metrics]:
    """Returns the metrics of each target of an objective, by name; empty if it has no several targets.

    Args:
        objective: The objective.
        output: Values `(..., num_outputs)` of the model.
        truth: True values, NaN if unknown.
        scaler: Scaler that brings both back to the units of the targets.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0], [2.0]], target=[[0.5, 900.0], [1.5, 700.0]])
        >>> goal, truth = Objective.for_data(s, targets=("a", "b")), torch.tensor(s.target.values)
        >>> {name: own["mae"] for name, own in by_target(goal, truth + torch.tensor([1.0, 8.0]), truth, None).items()}
        {'a': 1.0, 'b': 8.0}
    """
    if not objective.targets:
        return {}
    output, truth = (values.reshape(-1, objective.num_outputs).double() for values in (output, truth))
    if scaler is not None:
        output, truth = (scaler.inverse_target(values) for values in (output, truth))
    count, names = len(objective.targets), tuple(dict.fromkeys([*objective.metrics, *VALUES]))
    found = {}
    for place, name in enumerate(objective.targets):
        own, true = output[:, place::count], truth[:, place::count]
        scores, known = Scores(names, own.shape[1]), ~true.isnan().all(-1)
        scores.update(own[known], true[known])
        found[name] = scores.compute()
    return found


def evaluate_targets(
    model: SequenceModel, objective: Objective, data: Sequences, scaler: Scaler | None
) -> dict[str, Metrics]:
    """Returns the metrics of a model for each target of the objective; arguments as for `evaluate`."""
    if not objective.targets or not len(data):
        return {}
    pairs = [(output.reshape(-1, objective.num_outputs), batch.target) for batch, output in outputs(model, data)]
    truth = torch.cat([target.reshape(-1, objective.num_outputs) for _, target in pairs if target is not None])
    return by_target(objective, torch.cat([output.cpu() for output, _ in pairs]), truth, scaler)
