"""Objective: the target, the loss and the metrics of training."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data import UNKNOWN, ClassNames, Scaler, Sequences, Target
from ..settings import SettingError, named, number, one_of, whole
from ._metrics import CLASS_METRICS, LOWER_IS_BETTER, RANKING, VALUE_METRICS, Scores, SeveralScores
from ._task import LOSSES, Task

VALUES = ("rmse", "mae", "r2")
_FEW = 50
_LARGE_ERROR = 2.0


class Loss(NamedTuple):
    """Sum over the known targets and their total weight; the loss is the ratio."""

    sum: Tensor
    weight: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean loss; 0 if no target is known."""
        return self.sum / torch.where(self.weight > 0, self.weight, torch.ones_like(self.weight))


def mean_loss(losses: Sequence[Loss]) -> Loss:
    """Returns the mean of the losses of several networks for the same targets."""
    if len(losses) == 1:
        return losses[0]
    return Loss(torch.stack([loss.sum for loss in losses]).mean(0), losses[0].weight)


@dataclass(frozen=True)
class Objective:
    """Loss and metrics of a target.

    Attributes:
        kind: "class", "value", or "several": targets with a loss and metrics of their own.
        num_outputs: Number of classes or target columns.
        per_step: Whether there is a target at every step.
        metric: Metric that selects the best epoch; one of `metrics`, or "loss".
        metrics: All metrics. Classes: accuracy, balanced_accuracy (the mean recall of the classes), f1 (of the positive
            of two classes; otherwise the mean over classes), sensitivity and specificity (two classes: the recall of
            the positive and of the other one), auroc and auprc (of more than two classes, each against the rest),
            min_se_ppv (two classes: the largest value, over all thresholds, of the smaller of sensitivity and positive
            predictive value), cross_entropy, perplexity. Values: mse, rmse, mae over all known entries, nrmse (rmse
            divided by the root mean square of the target), r2 (mean over columns).
        loss: "cross_entropy" or "squared"; both are means over the known targets.
        class_weights: Class weights of the cross entropy; None for equal weights. Metrics are not weighted by class.
        classes: Names of the classes.
        positive: Name of the positive of two classes; the second by default.
        targets: Names of the targets that also get metrics of their own, if there are several: columns, or the channels
            of a forecast, whose outputs repeat at every step.
        scaler: Scaler that was applied to the data; None if they are not scaled.
        own_units: Whether metrics of values are in the units of the target instead of scaled ones.
        threshold: Probability from which the positive of two classes is predicted; None for the more likely class.
        heads: Objectives of several targets, one for each. The loss is the sum of their losses, each as a share of
            `units`, and the metrics are the ones that select, by target ("sick accuracy", "days rmse").
        units: Losses of the same prediction for all training series, one for each of several targets.

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
    positive: str | None = None
    targets: tuple[str, ...] = ()
    own_units: bool = True
    threshold: float | None = None
    heads: tuple[Objective, ...] = ()
    units: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        one_of("kind", self.kind, ("class", "value", "several"))
        if (self.kind == "several") != bool(self.heads) or len(self.units) != len(self.heads):
            raise ValueError(f"kind={self.kind!r} does not fit {len(self.heads)} heads and {len(self.units)} units.")
        if self.heads:
            one_of("metric", self.metric, ("loss",))
            if len(self.targets) != len(self.heads) or self.num_outputs != self._ends[-1]:
                raise ValueError(f"{len(self.heads)} heads do not fit {len(self.targets)} targets and their outputs.")
            return
        one_of("loss", self.loss, LOSSES)
        if (self.loss == "cross_entropy") != (self.kind == "class"):
            raise ValueError(f"loss={self.loss!r} cannot be used for a target of kind {self.kind!r}.")
        choices = CLASS_METRICS if self.kind == "class" else VALUE_METRICS
        for name in self.metrics:
            one_of("metric", name, choices)
        one_of("metric", self.metric, (*self.metrics, "loss"))
        whole("num_outputs", self.num_outputs, at_least=1)
        if self.classes is not None and len(self.classes) != self.num_outputs:
            raise ValueError(f"{len(self.classes)} classes were given for num_outputs={self.num_outputs}.")
        if self.class_weights is not None and len(self.class_weights) != self.num_outputs:
            raise SettingError(
                f"{len(self.class_weights)} {named('class_weights')} were given for {self.num_outputs} classes.",
                argument="class_weights",
            )
        if self.targets and (self.kind == "class" or self.num_outputs % len(self.targets)):
            raise ValueError(
                f"{len(self.targets)} targets do not fit {self.num_outputs} outputs of kind {self.kind!r}."
            )
        if self.positive is not None:
            if self.num_outputs != 2 or self.classes is None:
                reason = "this target is a number" if self.kind == "value" else f"there are {self.num_outputs}"
                raise SettingError(
                    f"{named('positive', self.positive)} needs two classes, but {reason}.", argument="positive"
                )
            one_of("positive", self.positive, self.classes)
        elif self.classes is not None and self.num_outputs == 2:
            object.__setattr__(self, "positive", self.classes[1])
        if self.threshold is not None:
            number("threshold", self.threshold, at_least=0, at_most=1)
            if self.positive is None:
                raise SettingError(f"{named('threshold')} needs two classes.", argument="threshold")

    @classmethod
    def for_data(
        cls,
        data: Sequences,
        *,
        scaler: Scaler | None = None,
        positive: str | None = None,
        targets: tuple[str, ...] = (),
    ) -> Objective:
        """Returns the standard objective for the target of `data`.

        Values of several targets may have different units: metrics over all `targets` are those of scaled values, and
        without scaling only r2, the mean over the columns.

        Args:
            data: Training series.
            scaler: Scaler that was applied to them.
            positive: Positive one of two classes; by default the rarer one, or the second if they are equally frequent.
            targets: Targets that get metrics of their own, as in the attribute.

        Example:
            >>> from chronode.data import Scaler, from_list
            >>> s = from_list([[1.0], [2.0]], target=[[0.5, 900.0], [1.5, 700.0]])
            >>> Objective.for_data(s, targets=("a", "b")).metrics
            ('r2',)
            >>> Objective.for_data(s, scaler=Scaler.fit(s), targets=("a", "b")).metrics
            ('rmse', 'mae', 'r2')
        """
        target = _target(data)
        if target.levels:
            return cls._of_several(data, scaler, positive)
        if target.classes is None:
            several = targets if len(targets) > 1 else ()
            shape = ("value", target.values.shape[1], target.per_step)
            fields: dict[str, Any] = {"scaler": scaler, "positive": positive, "targets": several}
            fields["own_units"] = not several
            if several and not _is_scaled(scaler):
                return cls(*shape, "loss", ("r2",), "squared", **fields)
            return cls(*shape, "rmse", VALUES, "squared", **fields)
        # With very many classes (words), the areas would need all probabilities of all steps at once.
        metrics = ("accuracy", "f1", "auroc") if len(target.classes) <= _FEW else ("accuracy", "cross_entropy")
        if len(target.classes) == 2:
            metrics += ("auprc", "balanced_accuracy", "sensitivity", "specificity")
            positive = positive or target.classes[_rarer(data)]
        elif len(target.classes) <= _FEW:
            metrics += ("balanced_accuracy",)
        details = {"classes": target.classes, "positive": positive, "scaler": scaler}
        return cls("class", len(target.classes), target.per_step, "accuracy", metrics, "cross_entropy", **details)

    @classmethod
    def _of_several(cls, data: Sequences, scaler: Scaler | None, positive: str | None) -> Objective:
        heads, units = [], []
        for part in data.by_target:
            has_positive = positive is not None and part.classes is not None and positive in part.classes
            chosen = positive if has_positive and len(part.classes or ()) == 2 else None
            heads.append(cls.for_data(part, positive=chosen))
            units.append(_constant_loss(part))
        if positive is not None and positive not in (head.positive for head in heads):
            raise SettingError(f"{named('positive', positive)} is not one of two classes.", argument="positive")
        names, count = _target(data).names, sum(head.num_outputs for head in heads)
        metrics = tuple(f"{name} {head.metric}" for name, head in zip(names, heads, strict=True))
        own = {"scaler": scaler, "targets": names, "heads": tuple(heads), "units": tuple(units)}
        return cls("several", count, heads[0].per_step, "loss", metrics, "sum", **own)

    @property
    def _ends(self) -> list[int]:
        return list(itertools.accumulate(head.num_outputs for head in self.heads))

    @property
    def spans(self) -> tuple[slice, ...]:
        """The outputs of each of several targets; all outputs of a single one."""
        if not self.heads:
            return (slice(0, self.num_outputs),)
        return tuple(slice(end - head.num_outputs, end) for head, end in zip(self.heads, self._ends, strict=True))

    @cached_property
    def parts(self) -> tuple[Objective, ...]:
        """The objective of each of several targets; this objective of a single one."""
        if not self.heads:
            return (self,)
        scaler = self.scaler
        return tuple(
            replace(head, scaler=None if scaler is None else scaler.of_target(index, classes=head.kind == "class"))
            for index, head in enumerate(self.heads)
        )

    @property
    def class_names(self) -> ClassNames:
        """Names of the classes; of several targets, those of each."""
        return tuple(head.classes for head in self.heads) if self.heads else self.classes

    def by_part(self, output: Tensor, target: Tensor) -> Iterator[tuple[Objective, Tensor, Tensor]]:
        """Yields (objective, outputs, true values) of each of several targets, or of the single one.

        Args:
            output: Outputs `(..., num_outputs)`.
            target: True classes or values; of several targets `(..., targets)`, NaN where unknown.
        """
        if not self.heads:
            yield self, output, target
            return
        for index, (part, span) in enumerate(zip(self.parts, self.spans, strict=True)):
            true = target[..., index : index + 1]
            if part.kind == "class":
                true = torch.where(true.isnan(), UNKNOWN, true)[..., 0].long()
            yield part, output[..., span], true

    @classmethod
    def for_task(cls, task: Task, data: Sequences, *, scaler: Scaler | None = None) -> Objective:
        """Returns the loss and metrics of a task, in the units that the task reports.

        Args:
            task: The task.
            data: Its training series.
            scaler: Scaler applied to them.
        """
        classes = _target(data).classes or ()
        second = classes[1] if len(classes) == 2 else None  # whatever is rarer among the series that a seed draws
        usual = cls.for_data(data, scaler=scaler, positive=second)
        metrics = {"metrics": (task.metric, *task.more_metrics), "own_units": task.own_units}
        return replace(usual, loss=task.loss, metric=task.metric, class_weights=task.class_weights, **metrics)

    def with_settings(self, metric: str | None, class_weights: Any, train: Sequences) -> Objective:
        """Returns the objective with these settings, if given; "balanced" weights are computed from `train`."""
        if self.heads:
            return self._with_class_weights(metric, class_weights, train)
        changed = self
        if metric is not None:
            if self.targets and metric in LOWER_IS_BETTER and self.metrics == ("r2",) and metric != "loss":
                problem = f"{named('metric', metric)} over {len(self.targets)} targets, which may have different units"
                raise SettingError(
                    f"{problem}, needs {named('scale', True)}: use {named('metric', 'r2')}.", argument="scale"
                )
            metrics = self.metrics if metric in (*self.metrics, "loss") else (metric, *self.metrics)
            changed = replace(changed, metric=metric, metrics=metrics)
        if class_weights is None:
            return changed
        if self.kind != "class":
            raise SettingError(
                f"{named('class_weights')} needs classes, but this target is a number.", argument="class_weights"
            )
        weights = _balanced(train, self.num_outputs) if class_weights == "balanced" else tuple(class_weights)
        return replace(changed, class_weights=weights)

    def _with_class_weights(self, metric: str | None, class_weights: Any, train: Sequences) -> Objective:
        if metric not in (None, "loss"):
            raise SettingError(
                f"{named('metric', metric)} cannot select the best epoch of several targets: omit it; their loss does.",
                argument="metric",
            )
        if class_weights not in (None, "balanced"):
            raise SettingError(
                f"{named('class_weights')} of several targets can only be balanced", argument="class_weights"
            )
        pairs = zip(self.heads, train.by_target, strict=True)
        return replace(
            self,
            heads=tuple(
                head.with_settings(None, class_weights if head.kind == "class" else None, part) for head, part in pairs
            ),
        )

    def loss_of(
        self, output: Tensor, target: Tensor, unit: Tensor | None = None, weights: Tensor | None = None
    ) -> Loss:
        """Returns the loss of `output (..., num_outputs)`; unknown targets (-100, NaN) and padding are ignored.

        Args:
            output: Logits or values.
            target: True classes or values.
            unit: Unit in which errors of values are measured, the spread of a window; errors beyond two units then
                count linearly (Huber 1964), so that no outage decides. None: 1 everywhere, and all errors are squared.
            weights: Weight of each series, `(B,)`; None: 1.
        """
        if self.heads:  # a target that is known for few series counts as often as it is known
            each = self.by_part(output, target)
            losses = [part.loss_of(values, true, None, weights) for part, values, true in each]
            total = sum(loss.sum / size for loss, size in zip(losses, self.units, strict=True))
            return Loss(torch.as_tensor(total), torch.stack([loss.weight for loss in losses]).mean())
        if weights is not None:  # the same weight for every step and every target of a series
            weights = weights.to(output).reshape(-1, *[1] * (target.dim() - 1)).expand(target.shape)
        if self.kind == "value":
            mask = ~target.isnan()
            gap = torch.where(mask, output - target.to(output.dtype), torch.zeros_like(output))
            if unit is not None:
                gap = gap / unit.to(gap)
                return _weighted(_bounded(gap), mask, weights)
            return _weighted(gap.square(), mask, weights)
        output, target = output.reshape(-1, self.num_outputs), target.reshape(-1)
        by_class = None if self.class_weights is None else output.new_tensor(self.class_weights)
        reduction = "sum" if weights is None else "none"
        losses = nn.functional.cross_entropy(output, target, by_class, ignore_index=UNKNOWN, reduction=reduction)
        mask = target != UNKNOWN
        # Not by_class[target[known]]: on a GPU, the host would wait for the number of known targets.
        each = mask if by_class is None else torch.where(mask, by_class[target.clamp(min=0)], 0)
        return _weighted(losses, each, None if weights is None else weights.reshape(-1))

    def row_losses(self, output: Tensor, target: Tensor) -> Tensor:
        """Returns the loss of each series with one target `(B,)`, NaN where it is unknown, without class weights.

        Example:
            >>> goal = Objective("value", 2, False, "rmse", ("rmse",), "squared")
            >>> goal.row_losses(torch.zeros(2, 2), torch.tensor([[1.0, 3.0], [2.0, torch.nan]])).tolist()
            [5.0, 4.0]
        """
        if self.heads:
            losses = [part.row_losses(values, true) for part, values, true in self.by_part(output, target)]
            shares = [loss.double() / size for loss, size in zip(losses, self.units, strict=True)]
            return len(shares) * torch.stack(shares).nanmean(0)
        if self.kind == "value":
            return (output - target.to(output.dtype)).square().nanmean(-1)
        losses = nn.functional.cross_entropy(output, target, ignore_index=UNKNOWN, reduction="none")
        return losses.masked_fill(target == UNKNOWN, torch.nan)

    def scores(self) -> Scores | SeveralScores:
        """Returns empty metrics; add batches with `measure`."""
        if self.heads:
            pairs = zip(self.targets, self.heads, strict=True)
            return SeveralScores({name: head._scores((head.metric,)) for name, head in pairs})
        return self._scores(self.metrics)

    def _scores(self, metrics: tuple[str, ...]) -> Scores:
        return Scores(metrics, self.num_outputs, self.positive_number, self.threshold)

    @property
    def positive_number(self) -> int:
        """The number of the positive of two classes; 1 otherwise."""
        return 1 if self.classes is None or self.positive is None else self.classes.index(self.positive)

    def predicted(self, chances: NDArray[Any]) -> NDArray[np.int64]:
        """Returns the predicted class numbers of probabilities `(..., C)`.

        Example:
            >>> goal = Objective("class", 2, False, "accuracy", ("accuracy",), "cross_entropy", classes=("no", "yes"))
            >>> chances = np.array([[0.7, 0.3], [0.9, 0.1]])
            >>> goal.predicted(chances).tolist(), replace(goal, threshold=0.2).predicted(chances).tolist()
            ([0, 0], [1, 0])
        """
        if self.threshold is None:
            return chances.argmax(-1)
        one = self.positive_number
        return np.where(chances[..., one] >= self.threshold, one, 1 - one)

    def measure(
        self, scores: Scores | SeveralScores, output: Tensor, target: Tensor, weights: Tensor | None = None
    ) -> None:
        """Adds the known targets of a batch to `scores`; `weights` are those of its series, or of all its targets."""
        if isinstance(scores, SeveralScores):
            each = zip(scores.parts.values(), self.by_part(output, target), strict=True)
            for own, (part, values, true) in each:
                part.measure(own, values, true, weights)
            return None
        output, classes = output.reshape(-1, self.num_outputs), self.kind == "class"
        target = target.reshape(-1) if classes else target.reshape(-1, self.num_outputs)
        mask = target != UNKNOWN if classes else ~target.isnan().all(-1)
        if weights is not None:
            weights = weights.to(mask.device).repeat_interleave(len(target) // len(weights))[mask]
        output, target = output[mask], target[mask]
        if not classes:
            output, target = output.double(), target.double()
        if not classes and self.own_units:
            output, target = self.unscaled(output), self.unscaled(target)
        return scores.update(output, target, weights)

    def measure_predictions(
        self, scores: Scores | SeveralScores, predicted: Tensor, target: Tensor, weights: Tensor | None = None
    ) -> None:
        """Adds predictions, as `finished` returns them, with true classes or values in the units of the target.

        Args:
            scores: Metrics.
            predicted: Probabilities or values `(rows, num_outputs)`.
            target: `(rows,)` or `(rows, targets)`, unknown ones included.
            weights: `(rows,)`; None for equal weights.
        """
        if isinstance(scores, SeveralScores):
            each = zip(scores.parts.values(), self.by_part(predicted, target), strict=True)
            for own, (part, values, true) in each:
                part.measure_predictions(own, values, true, weights)
            return
        if self.kind == "class":
            mask, output = target != UNKNOWN, predicted.double().clamp(min=1e-38).log()
        else:
            mask = ~target.isnan().all(-1)
            output, target = (
                torch.from_numpy(self.in_metric_units(values.double().numpy())) for values in (predicted, target)
            )
        scores.update(output[mask], target[mask], None if weights is None else weights[mask])

    def unscaled(self, values: Tensor) -> Tensor:
        """Returns values of the targets in their own units."""
        return values if self.scaler is None else self.scaler.inverse_target(values)

    def finished(self, output: Tensor) -> Tensor:
        """Returns outputs as predictions: probabilities of classes, values in the units of the target."""
        if self.heads:
            spans = zip(self.parts, self.spans, strict=True)
            return torch.cat([part.finished(output[..., span]) for part, span in spans], dim=-1)
        return output.softmax(-1) if self.kind == "class" else self.unscaled(output)

    def in_metric_units(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns predictions or true values in the units of the metrics; given are those that `predict` returns."""
        is_scaled = self.classes is None and not self.own_units and self.scaler is not None
        return self.scaler.scale_target(values) if is_scaled and self.scaler is not None else values

    def gain(self, value: float, than: float) -> float:
        """Returns by what share `value` of the selection metric is closer to perfect than `than`; NaN gains nothing.

        Example:
            >>> Objective("class", 2, False, "accuracy", ("accuracy",), "cross_entropy").gain(0.95, 0.9)
            0.5
        """
        lower = self.metric in LOWER_IS_BETTER
        error, other = (value, than) if lower else (1 - value, 1 - than)
        share = (other - error) / other if other > 0 else 0.0
        return round(share, 12) if share == share else 0.0

    def deciding(self, data: Sequences) -> int:
        """Returns how many of these series the selection metric rests on: for a ranking, those of the rarest
        class.

        Example:
            >>> from chronode.data import from_list
            >>> rare = from_list([[1.0]] * 50, target=["ill"] * 10 + ["well"] * 40)
            >>> goal = Objective.for_data(rare)
            >>> goal.deciding(rare), goal.with_settings("auroc", None, rare).deciding(rare)
            (50, 10)
        """
        if self.metric not in RANKING or self.per_step:
            return len(data)
        counts = class_counts(data)
        return int(min(counts[counts > 0], default=0))

    def value_of(self, loss: float, metrics: Mapping[str, float]) -> float:
        """Returns the selection metric of these results."""
        return loss if self.metric == "loss" else metrics[self.metric]

    def better(self, value: float, than: float | None) -> bool:
        """Returns whether `value` of the selection metric is better; NaN never is."""
        if than is None or value != value:
            return value == value
        return value < than if self.metric in LOWER_IS_BETTER else value > than


def _bounded(gap: Tensor) -> Tensor:
    """Returns squares of errors, of large ones the line that continues the square."""
    size = gap.abs()
    return torch.where(size <= _LARGE_ERROR, gap.square(), _LARGE_ERROR * (2 * size - _LARGE_ERROR))


def _weighted(losses: Tensor, counts: Tensor, weights: Tensor | None) -> Loss:
    """Returns the sum of the losses and of what they count, each times its weight."""
    if weights is not None:
        losses, counts = losses * weights, counts * weights
    return Loss(losses.sum(), counts.sum().to(losses.dtype))


def _is_scaled(scaler: Scaler | None) -> bool:
    return scaler is not None and bool(scaler.targets) and any(std != 1 for std in scaler.target_std)


def _target(data: Sequences) -> Target:
    if data.target is None:
        raise SettingError(
            f"these series have no target: pass {named('target', ...)} when reading them.", argument="target"
        )
    return data.target


def class_counts(data: Sequences, *, weighted: bool = False) -> np.ndarray:
    """Returns the number of occurrences of each class, or their total weight."""
    target, weights = _target(data), data.target_weights() if weighted else None
    assert target.classes is not None
    labels = target.values[data.steps] if target.per_step else target.values
    known = labels != UNKNOWN
    return np.bincount(labels[known], None if weights is None else weights[known], minlength=len(target.classes))


def _constant_loss(train: Sequences) -> float:
    """Returns the mean loss of the same prediction for all series: the class frequencies, or the mean."""
    target = _target(train)
    if target.classes is not None:
        shares = class_counts(train, weighted=True) / max(class_counts(train, weighted=True).sum(), 1e-12)
        loss = -float((shares * np.log(np.maximum(shares, 1e-12))).sum())
    else:
        values = target.values[train.steps] if target.per_step else target.values
        loss = float(np.nanvar(values.astype(np.float64))) if target.known.any() else 1.0
    return loss if loss > 1e-9 else 1.0


def _rarer(data: Sequences) -> int:
    """Returns the number of the rarer of two classes; the second if they are equally frequent."""
    first, second = class_counts(data)
    return int(second <= first)


def _balanced(train: Sequences, classes: int) -> tuple[float, ...]:
    """Returns weights with which all classes have the same total weight."""
    counts = class_counts(train, weighted=True)
    least = 1 if train.weights is None else 1e-3
    return tuple((counts.sum() / (classes * np.maximum(counts, least))).tolist())
