"""Metrics by name: each collects the known targets of every batch and is computed once at the end."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from ..settings import one_of

Kind = TypeVar("Kind", bound="Metric")

KINDS = ("class", "value")
CLASS_METRICS = [
    *("accuracy", "balanced_accuracy", "f1", "sensitivity", "specificity"),
    *("auroc", "auprc", "min_se_ppv", "cross_entropy", "perplexity"),
]
VALUE_METRICS = ["mse", "rmse", "nrmse", "mae", "r2"]
RANKING = ("auroc", "auprc", "min_se_ppv")
"""Metrics of the ranking of examples by class probability."""
TWO_CLASSES = ("sensitivity", "specificity", "min_se_ppv")
"""Metrics that need two classes."""
ONE_SIDED = ("f1", "auprc", *TWO_CLASSES)
"""Metrics of two classes that depend on which of them is the positive one."""
LOWER_IS_BETTER = {"loss", "cross_entropy", "perplexity", "mse", "rmse", "nrmse", "mae"}
"""Metrics of which lower values are better."""


class Metric:
    """Base class for metrics; `register_metric` adds one, which `metric` of training, sweeps and estimators then knows.

    A metric collects batches and computes one number at the end. `chronode.testing.check_metric` checks the contract:

    - The number does not depend on how the examples are divided into batches, nor on their order.
    - Perfect predictions give 0 if lower values are better, otherwise 1. NaN means that it is not defined.
    - The tensors are not changed. They have no gradients and are on the CPU.
    - Weights of series are not known to it: all examples count equally.

    Args:
        num_outputs: Number of classes or of target columns.
        positive: Number of the positive class of two.

    Attributes:
        name: Short name.
        kind: "class" for metrics of classes, "value" for those of numbers.
        lower_is_better: Whether lower values are better.

    Example:
        >>> @register_metric
        ... class Within(Metric):
        ...     name, kind = "within_one", "value"
        ...     right = count = 0
        ...
        ...     def update(self, output, target):
        ...         known = ~target.isnan()
        ...         self.right += int(((output - target).abs()[known] <= 1).sum())
        ...         self.count += int(known.sum())
        ...
        ...     def compute(self):
        ...         return self.right / self.count if self.count else float("nan")
        >>> scores = Scores(("within_one",), 1)
        >>> scores.update(torch.tensor([[0.0], [5.0]]), torch.tensor([[0.5], [1.0]]))
        >>> scores.compute()
        {'within_one': 0.5}
    """

    name: ClassVar[str] = ""
    kind: ClassVar[str] = "class"
    lower_is_better: ClassVar[bool] = False

    def __init__(self, num_outputs: int, positive: int = 1):
        self.num_outputs, self.positive = num_outputs, positive

    def update(self, output: Tensor, target: Tensor) -> None:
        """Adds a batch.

        Args:
            output: Logits of the classes, or values, `(n, num_outputs)`.
            target: Numbers of the classes `(n,)`, or values `(n, num_outputs)`, NaN where unknown.
        """
        raise NotImplementedError

    def compute(self) -> float:
        """Returns the metric of all batches."""
        raise NotImplementedError


OWN_METRICS: dict[str, type[Metric]] = {}
"""Metrics that were added by `register_metric`."""


def register_metric(metric: type[Kind]) -> type[Kind]:
    """Makes training know a metric by its name; a decorator for subclasses of `Metric`."""
    name, names = metric.name, {"class": CLASS_METRICS, "value": VALUE_METRICS}[one_of("kind", metric.kind, KINDS)]
    before = OWN_METRICS.get(name)
    if not name or name == "loss" or (name in (*CLASS_METRICS, *VALUE_METRICS) and before is None):
        raise ValueError(f"{metric.__name__}.name={name!r} must be a new name.")
    if before is None:
        names.append(name)
    OWN_METRICS[name] = metric
    LOWER_IS_BETTER.update({name} if metric.lower_is_better else ())
    return metric


def mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns mean and sample standard deviation (None for a single value).

    Example:
        >>> mean_and_std([1.0, 2.0, 3.0])
        (2.0, 1.0)
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def labeled(metric: str, positive: str | None, targets: int = 1) -> str:
    """Returns the heading of a metric: with the positive class of two, if the metric depends on it.

    Args:
        metric: Name of the metric.
        positive: Positive one of two classes.
        targets: Number of targets that have metrics of their own, of which this one is over all.

    Example:
        >>> labeled("f1", "ill"), labeled("accuracy", "ill"), labeled("balanced_accuracy", None)
        ('f1 (ill)', 'accuracy', 'balanced accuracy')
        >>> labeled("rmse", None, 2), labeled("r2", None, 2)
        ('rmse (scaled)', 'r2 (mean)')
    """
    name = metric.replace("balanced_", "balanced ")
    if targets > 1 and metric in VALUE_METRICS:
        return f"{name} ({'mean' if metric == 'r2' else 'scaled'})"
    return f"{name} ({positive})" if positive is not None and metric in ONE_SIDED else name


class Scores:
    """Metrics accumulated over any number of batches.

    Sums are kept in float64; ranking metrics keep every probability.

    Args:
        names: Names from CLASS_METRICS (for logits and class numbers) or VALUE_METRICS (for values).
        num_outputs: Number of classes or target columns.
        positive: Number of the positive class of two.
        threshold: Probability from which the positive class is predicted; None for the more likely class.

    Example:
        >>> scores = Scores(("accuracy",), 2)
        >>> scores.update(torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.tensor([1, 1]))
        >>> scores.compute()
        {'accuracy': 0.5}
    """

    def __init__(self, names: tuple[str, ...], num_outputs: int, positive: int = 1, threshold: float | None = None):
        for name in TWO_CLASSES if num_outputs != 2 else ():
            if name in names:
                raise ValueError(f"the metric {name} needs two classes, got {num_outputs}.")
        self.names, self.count = names, 0
        groups: list[_Classes | _Ranking | _Values | _Own] = []
        groups += [_Own(OWN_METRICS[name](num_outputs, positive)) for name in names if name in OWN_METRICS]
        names = tuple(name for name in names if name not in OWN_METRICS)
        if any(name in CLASS_METRICS and name not in RANKING for name in names):
            groups.append(_Classes(num_outputs, positive, threshold))
        if any(name in RANKING for name in names):
            groups.append(_Ranking(positive))
        if any(name in VALUE_METRICS for name in names):
            groups.append(_Values(num_outputs))
        self._made = groups

    def update(self, output: Tensor, target: Tensor, weights: Tensor | None = None) -> None:
        """Adds `output (n, num_outputs)` with targets: `(n,)` known classes, or `(n, num_outputs)` with NaN if
        unknown, and weights `(n,)`, if they are not equal.
        """
        if not len(output):
            return
        self.count += len(output)
        output, target = output.detach().cpu(), target.cpu()
        weights = torch.ones(len(output), dtype=torch.float64) if weights is None else weights.cpu().double()
        for metrics in self._made:
            metrics.update(output, target, weights)

    def compute(self) -> dict[str, float]:
        """Returns the metrics of everything that was added; NaN if nothing was."""
        if not self.count:
            return dict.fromkeys(self.names, float("nan"))
        values = {name: value for metrics in self._made for name, value in metrics.compute(self.names).items()}
        return {name: values[name] for name in self.names}


class SeveralScores:
    """Metrics of several targets, by the names of target and metric.

    Args:
        parts: Metrics of each target by its name.

    Example:
        >>> scores = SeveralScores({"sick": Scores(("accuracy",), 2), "days": Scores(("mae",), 1)})
        >>> scores.parts["days"].update(torch.tensor([[1.0]]), torch.tensor([[3.0]]))
        >>> scores.compute()
        {'sick accuracy': nan, 'days mae': 2.0}
    """

    def __init__(self, parts: Mapping[str, Scores]):
        self.parts = dict(parts)

    @property
    def count(self) -> int:
        """Number of known targets."""
        return sum(scores.count for scores in self.parts.values())

    def compute(self) -> dict[str, float]:
        """Returns the metrics of everything that was added."""
        each = ((target, scores.compute()) for target, scores in self.parts.items())
        return {f"{target} {name}": value for target, metrics in each for name, value in metrics.items()}


class _Own:
    """A registered metric."""

    def __init__(self, metric: Metric):
        self.metric = metric

    def update(self, output: Tensor, target: Tensor, weights: Tensor) -> None:
        self.metric.update(output, target)

    def compute(self, names: Sequence[str]) -> dict[str, float]:
        return {self.metric.name: float(self.metric.compute())}


class _Classes:
    """Metrics of the predicted classes and of their log-probabilities."""

    def __init__(self, num_classes: int, positive: int, threshold: float | None):
        self.positive, self.threshold = positive, threshold
        # Counts per class rather than a confusion matrix, which would take 800 MB for 10,000 words.
        self.right, self.predicted, self.true = (torch.zeros(num_classes, dtype=torch.float64) for _ in range(3))
        self.loss = 0.0

    def update(self, output: Tensor, target: Tensor, weights: Tensor) -> None:
        predicted, classes = output.argmax(-1), len(self.true)
        if self.threshold is not None:
            above = output.double().softmax(-1)[:, self.positive] >= self.threshold
            predicted = torch.where(above, self.positive, 1 - self.positive)
        right = predicted == target
        self.right += torch.bincount(target[right], weights[right], minlength=classes)
        self.predicted += torch.bincount(predicted, weights, minlength=classes)
        self.true += torch.bincount(target, weights, minlength=classes)
        losses = torch.nn.functional.cross_entropy(output, target, reduction="none").double()
        self.loss += float((losses * weights).sum())

    def compute(self, names: Sequence[str]) -> dict[str, float]:
        right, total = self.right, float(self.true.sum())
        # F1 = 2 TP / (2 TP + FP + FN): of the positive of two classes, otherwise the mean over the classes that occur.
        involved, recall = self.predicted + self.true, right / self.true
        f1 = (2 * right / involved)[[self.positive]] if len(right) == 2 else (2 * right / involved)[involved > 0]
        of_two = {} if len(right) != 2 else {"sensitivity": self.positive, "specificity": 1 - self.positive}
        if not total:
            return dict.fromkeys(names, float("nan"))
        loss = self.loss / total
        return {
            "accuracy": float(right.sum()) / total,
            "balanced_accuracy": float(recall[self.true > 0].mean()),
            "f1": float(f1.nan_to_num(0.0).mean()),
            **{name: float(recall[number]) for name, number in of_two.items()},
            "cross_entropy": loss,
            "perplexity": math.exp(min(loss, 700.0)),
        }


class _Ranking:
    """Metrics of the ranking of examples by class probability."""

    def __init__(self, positive: int) -> None:
        self.positive = positive
        self.chances: list[Tensor] = []
        self.targets: list[Tensor] = []
        self.weights: list[Tensor] = []

    def update(self, output: Tensor, target: Tensor, weights: Tensor) -> None:
        self.chances.append(output.double().softmax(-1))  # float32 would tie probabilities that differ
        self.targets.append(target)
        self.weights.append(weights)

    def compute(self, names: Sequence[str]) -> dict[str, float]:
        chances, targets, weights = torch.cat(self.chances), torch.cat(self.targets), torch.cat(self.weights)
        numbers = [self.positive] if chances.shape[1] == 2 else range(chances.shape[1])
        # An area needs positive and negative examples.
        curves = [_Curve(chances[:, k], targets == k, weights) for k in numbers]
        curves = [curve for curve in curves if curve.defined]
        measures = {"auroc": _Curve.auroc, "auprc": _Curve.auprc, "min_se_ppv": _Curve.min_se_ppv}
        return {
            name: statistics.fmean(measures[name](curve) for curve in curves) if curves else float("nan")
            for name in measures
            if name in names
        }


class _Curve:
    """Weights of true and false positives at every threshold, from the highest probability down.

    Example:
        >>> chances, positive = torch.tensor([0.9, 0.4, 0.4, 0.1]), torch.tensor([True, True, False, False])
        >>> curve = _Curve(chances, positive, torch.ones(4))
        >>> curve.auroc(), curve.min_se_ppv()
        (0.875, 0.6666666666666666)
    """

    def __init__(self, chance: Tensor, positive: Tensor, weights: Tensor):
        order = chance.argsort(descending=True, stable=True)
        ends = torch.cat([chance[order].diff() != 0, torch.ones(1, dtype=torch.bool)])  # ties share a threshold
        self.true, self.false = ((weights * side)[order].double().cumsum(0)[ends] for side in (positive, ~positive))
        self.defined = bool(self.true[-1] > 0) and bool(self.false[-1] > 0)

    def auroc(self) -> float:
        """Returns the area under the curve of true positive rate over false positive rate."""
        start = torch.zeros(1, dtype=torch.float64)
        area = torch.trapezoid(torch.cat([start, self.true]), torch.cat([start, self.false]))
        return float(area / (self.true[-1] * self.false[-1]))

    def auprc(self) -> float:
        """Returns the average precision: precision at each threshold, weighted by the recall gained there."""
        gained = self.true.diff(prepend=torch.zeros(1, dtype=torch.float64)) / self.true[-1]
        return float((gained * self._precision).sum())

    def min_se_ppv(self) -> float:
        """Returns the largest minimum of sensitivity and positive predictive value over all thresholds."""
        return float(torch.minimum(self.true / self.true[-1], self._precision).max())

    @property
    def _precision(self) -> Tensor:
        return self.true / (self.true + self.false).clamp(min=1e-300)


class _Values:
    """Metrics of numbers; r2 uses only rows whose targets are all known."""

    def __init__(self, num_columns: int):
        self.count, self.absolute, self.square, self.target_square = 0.0, 0.0, 0.0, 0.0
        # Per column, over complete rows: squared errors, and mean and sum of squared deviations of the targets.
        self.rows, self.most = 0.0, 0  # weight and number of complete rows
        self.error, self.mean, self.spread = (torch.zeros(num_columns, dtype=torch.float64) for _ in range(3))

    def update(self, output: Tensor, target: Tensor, weights: Tensor) -> None:
        output, target = output.double(), target.double()
        mask = ~target.isnan()
        error, share = (output - target)[mask], weights[:, None].expand(target.shape)[mask]
        self.count += float(share.sum())
        self.absolute += float((share * error.abs()).sum())
        self.square += float((share * error.square()).sum())
        self.target_square += float((share * target[mask].square()).sum())
        whole = mask.all(-1) & (weights > 0)
        if whole.any():
            self._add_rows(output[whole], target[whole], weights[whole, None])

    def _add_rows(self, output: Tensor, target: Tensor, weights: Tensor) -> None:
        self.error += (weights * (output - target).square()).sum(0)
        count = float(weights.sum())
        mean = (weights * target).sum(0) / count
        shift, total = mean - self.mean, self.rows + count
        # Chan's update avoids the difference of two large sums.
        self.spread += (weights * (target - mean).square()).sum(0) + shift.square() * self.rows * count / total
        self.mean += shift * count / total
        self.rows, self.most = total, self.most + len(target)

    def compute(self, names: Sequence[str]) -> dict[str, float]:
        mse = self.square / self.count if self.count else float("nan")
        return {
            "mse": mse,
            "rmse": math.sqrt(mse),
            "nrmse": math.sqrt(self.square / max(self.target_square, 1e-30)),
            "mae": self.absolute / self.count if self.count else float("nan"),
            "r2": self._r2(),
        }

    def _r2(self) -> float:
        """Returns the mean over the columns; a constant column has 1 if it is predicted exactly, otherwise 0."""
        if self.most < 2:
            return float("nan")
        constant = self.spread == 0
        each = torch.where(constant, (self.error == 0).double(), 1 - self.error / self.spread)
        return float(each.mean())
