"""Objective: what is learnt, the loss it is learnt by, and the metrics it is judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .._checks import one_of, whole
from ..data import UNKNOWN, Scaler, Sequences, Target
from ..tasks._task import LOSSES, Task
from ._metrics import CLASS_METRICS, LOWER_IS_BETTER, VALUE_METRICS, Scores

_FEW = 50


class Loss(NamedTuple):
    """A sum over the known targets, and their total weight; the loss is their ratio."""

    sum: Tensor
    weight: Tensor

    @property
    def mean(self) -> Tensor:
        """0 if nothing is known."""
        return self.sum / torch.where(self.weight > 0, self.weight, torch.ones_like(self.weight))


@dataclass(frozen=True)
class Objective:
    """Loss and metrics of a target.

    Attributes:
        kind: "class" or "value".
        num_outputs: classes, or target columns.
        per_step: a target at every step.
        metric: to choose by; one of `metrics`, or "loss".
        metrics: all that are measured. Classes: accuracy, f1 (of the second of two classes; of more, the mean over
            classes), auroc and auprc (of more than two classes, each against the rest), min_se_ppv (two classes: the
            largest value, over all thresholds, of the smaller of sensitivity and positive predictive value),
            cross_entropy, perplexity. Values: mse,
            rmse, mae over all known entries, nrmse (rmse divided by the root mean square of the target), r2 (mean
            over columns).
        loss: "cross_entropy" or "squared"; both are means over the known targets.
        class_weights: of the cross entropy, one per class; None for equal ones. Metrics are not weighted.
        classes: the names.
        scaler: if given, metrics of values are in the target's own units; else in those of the data as they are.

    Example:
        >>> from chronode.data import from_list
        >>> objective = Objective.for_data(from_list([[1.0], [2.0]], target=[0.5, 1.5]))
        >>> objective.loss, objective.metric, objective.metrics
        ('squared', 'rmse', ('rmse', 'mae', 'r2'))
    """

    kind: str
    num_outputs: int
    per_step: bool
    metric: str
    metrics: tuple[str, ...]
    loss: str
    class_weights: tuple[float, ...] | None = None
    classes: tuple[str, ...] | None = None
    scaler: Scaler | None = None

    def __post_init__(self) -> None:
        one_of("kind", self.kind, ("class", "value"))
        one_of("loss", self.loss, LOSSES)
        if (self.loss == "cross_entropy") != (self.kind == "class"):
            raise ValueError(f"loss={self.loss!r} does not fit a target of kind {self.kind!r}.")
        known = CLASS_METRICS if self.kind == "class" else VALUE_METRICS
        for name in self.metrics:
            one_of("metric", name, known)
        one_of("metric", self.metric, (*self.metrics, "loss"))
        whole("num_outputs", self.num_outputs, at_least=1)
        if self.classes is not None and len(self.classes) != self.num_outputs:
            raise ValueError(f"{len(self.classes)} classes were given for num_outputs={self.num_outputs}.")
        if self.class_weights is not None and len(self.class_weights) != self.num_outputs:
            raise ValueError(f"{len(self.class_weights)} class_weights were given for {self.num_outputs} classes.")

    @classmethod
    def for_data(cls, data: Sequences, *, scaler: Scaler | None = None) -> Objective:
        """The usual one for the target of `data`, which went through `scaler`."""
        target = _target(data)
        if target.classes is None:
            columns = target.values.shape[1]
            return cls("value", columns, target.per_step, "rmse", ("rmse", "mae", "r2"), "squared", scaler=scaler)
        # With very many classes (words) the areas need all probabilities of all steps at once.
        metrics = ("accuracy", "f1", "auroc") if len(target.classes) <= _FEW else ("accuracy", "cross_entropy")
        told = {"class_weights": None, "classes": target.classes}
        return cls("class", len(target.classes), target.per_step, "accuracy", metrics, "cross_entropy", **told)

    @classmethod
    def for_task(cls, task: Task, data: Sequences, *, scaler: Scaler | None = None) -> Objective:
        """The task's own loss and metrics, in the units that the task reports.

        Args:
            task: whose loss and metrics.
            data: its training series.
            scaler: what they went through; of use to a task with `own_units`.
        """
        usual = cls.for_data(data, scaler=scaler if task.own_units else None)
        metrics = (task.metric, *task.more_metrics)
        return replace(usual, loss=task.loss, metric=task.metric, metrics=metrics, class_weights=task.class_weights)

    def with_settings(self, metric: str | None, class_weights: Any, train: Sequences) -> Objective:
        """The same with what the settings say, if they do; "balanced" weights are counted in `train`."""
        changed = self
        if metric is not None:
            metrics = self.metrics if metric in (*self.metrics, "loss") else (metric, *self.metrics)
            changed = replace(changed, metric=metric, metrics=metrics)
        if class_weights is None:
            return changed
        if self.kind != "class":
            raise ValueError("class_weights goes with classes; this target is a number.")
        weights = _balanced(train, self.num_outputs) if class_weights == "balanced" else tuple(class_weights)
        return replace(changed, class_weights=weights)

    def loss_of(self, output: Tensor, target: Tensor, unit: Tensor | None = None) -> Loss:
        """The loss of `output (..., num_outputs)`; unknown targets (-100, NaN) and padding do not count.

        Args:
            output: logits or values.
            target: what they should be.
            unit: in which errors of values are measured; None: 1 everywhere.
        """
        if self.kind == "value":
            known = ~target.isnan()
            gap = torch.where(known, output - target.to(output.dtype), torch.zeros_like(output))
            if unit is not None:
                gap = gap / unit.to(gap)
            return Loss(gap.square().sum(), known.sum().to(output.dtype))
        output, target = output.reshape(-1, self.num_outputs), target.reshape(-1)
        weights = None if self.class_weights is None else output.new_tensor(self.class_weights)
        total = nn.functional.cross_entropy(output, target, weights, ignore_index=UNKNOWN, reduction="sum")
        known = target != UNKNOWN
        # Not weights[target[known]]: on a GPU the host would wait for the number of those known.
        each = known if weights is None else torch.where(known, weights[target.clamp(min=0)], 0)
        return Loss(total, each.sum().to(output.dtype))

    def scores(self) -> Scores:
        """New sums of the metrics; feed them by `measure`."""
        return Scores(self.metrics, self.num_outputs)

    def measure(self, scores: Scores, output: Tensor, target: Tensor) -> None:
        """Adds the known targets of a batch to `scores`."""
        output = output.reshape(-1, self.num_outputs)
        if self.kind == "class":
            known = target.reshape(-1) != UNKNOWN
            return scores.update(output[known], target.reshape(-1)[known])
        target = target.reshape(-1, self.num_outputs)
        known = ~target.isnan().all(-1)
        output, target = output[known].double(), target[known].double()
        if self.scaler is not None:
            output, target = (self.scaler.inverse_target(values) for values in (output, target))
        return scores.update(output, target)

    def better(self, value: float, than: float | None) -> bool:
        """Whether `value` of the metric to choose by is better; NaN never is."""
        if than is None or value != value:
            return value == value
        return value < than if self.metric in LOWER_IS_BETTER else value > than


def _target(data: Sequences) -> Target:
    if data.target is None:
        raise ValueError("these series have no target: say what is to be learnt when you read them (target=...).")
    return data.target


def class_counts(data: Sequences) -> np.ndarray:
    """How often each class occurs."""
    target = _target(data)
    assert target.classes is not None
    labels = target.values[data.steps] if target.per_step else target.values
    return np.bincount(labels[labels != UNKNOWN], minlength=len(target.classes))


def _balanced(train: Sequences, classes: int) -> tuple[float, ...]:
    """Weights with which every class counts the same in all."""
    counts = class_counts(train)
    return tuple((counts.sum() / (classes * np.maximum(counts, 1))).tolist())
