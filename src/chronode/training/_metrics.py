"""Metrics by name, on torchmetrics: each is fed what is known of every batch and computed once at the end."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torchmetrics import Metric

CLASS_METRICS = ("accuracy", "f1", "auroc", "auprc", "min_se_ppv", "cross_entropy", "perplexity")
VALUE_METRICS = ("mse", "rmse", "nrmse", "mae", "r2")
_RANKING = ("auroc", "auprc", "min_se_ppv")
"""Metrics of how the classes' probabilities order the examples."""
LOWER_IS_BETTER = frozenset({"loss", "cross_entropy", "perplexity", "mse", "rmse", "nrmse", "mae"})


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (of the sample; None of one value).

    Example:
        >>> mean_and_spread([1.0, 2.0, 3.0])
        (2.0, 1.0)
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


class Scores:
    """Metrics over any number of batches, as if all had been one.

    Args:
        names: of CLASS_METRICS (fed with logits and class numbers) or VALUE_METRICS (fed with values).
        num_outputs: classes or target columns.

    Example:
        >>> scores = Scores(("accuracy",), 2)
        >>> scores.update(torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.tensor([1, 1]))
        >>> scores.compute()
        {'accuracy': 0.5}
    """

    def __init__(self, names: tuple[str, ...], num_outputs: int):
        self.metrics = {name: _make(name, num_outputs) for name in names}
        self.count = 0
        self.seen = torch.zeros(num_outputs, dtype=torch.int64)

    def update(self, output: Tensor, target: Tensor) -> None:
        """Adds `output (n, num_outputs)` with known targets: `(n,)` classes, or `(n, num_outputs)` with NaN holes."""
        if not len(output):
            return
        self.count += len(output)
        output, target = output.detach().cpu(), target.cpu()
        if not target.dtype.is_floating_point:
            self.seen += torch.bincount(target, minlength=len(self.seen))
        for name, metric in self.metrics.items():
            metric.update(*_fed(name, output, target))

    def compute(self) -> dict[str, float]:
        """The metrics of all that was added; NaN where nothing was."""
        if not self.count:
            return dict.fromkeys(self.metrics, float("nan"))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="torchmetrics")
            return {name: self._value(name, metric) for name, metric in self.metrics.items()}

    def _value(self, name: str, metric: Metric) -> float:
        if name == "r2" and self.count < 2:
            return float("nan")
        if name == "perplexity":
            return math.exp(min(float(metric.compute()), 700.0))
        if name == "nrmse":
            return math.sqrt(float(metric.compute()))
        if name in _RANKING:
            # torchmetrics counts classes that do not occur as 0; an area needs examples on both sides.
            occurs = (self.seen > 0) & (self.seen < self.seen.sum())
            if name == "min_se_ppv":
                precision, recall, _ = metric.compute()
                return float(torch.minimum(precision, recall).max()) if occurs.any() else float("nan")
            areas = metric.compute().expand(len(occurs))
            return float(areas[occurs].mean())
        return float(metric.compute())


def _fed(name: str, output: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    """What the metric of that name takes."""
    if name in ("cross_entropy", "perplexity"):
        return (torch.nn.functional.cross_entropy(output, target, reduction="none"),)
    if name in ("accuracy", "f1"):
        return output.argmax(-1), target
    if name in _RANKING:
        chances = output.double().softmax(-1)  # float32 makes ties of chances that differ
        return (chances[:, 1] if chances.shape[1] == 2 else chances), target
    output, target, known = output.double(), target.double(), ~target.isnan()
    if name == "r2":
        rows = known.all(-1)
        return output[rows], target[rows]
    if name == "nrmse":  # the mean of the squared errors, weighted so that the targets' squares divide their sum
        total = target[known].square().sum().clamp(min=1e-30)
        return (output[known] - target[known]).square().sum() / total, total
    return output[known], target[known]


def _make(name: str, num_outputs: int) -> Metric:
    import torchmetrics.classification as by_class
    import torchmetrics.regression as by_value
    from torchmetrics.aggregation import MeanMetric

    # Every process measures all series, so nothing is gathered.
    alone: dict[str, Any] = {"sync_on_compute": False}
    unchecked: dict[str, Any] = {**alone, "validate_args": False}
    binary = num_outputs == 2
    made: Metric
    if name == "accuracy":
        made = by_class.MulticlassAccuracy(num_outputs, average="micro", **unchecked)
    elif name == "f1":
        made = by_class.BinaryF1Score(**unchecked) if binary else by_class.MulticlassF1Score(num_outputs, **unchecked)
    elif name == "auroc":
        areas = by_class.MulticlassAUROC(num_outputs, average="none", **unchecked)
        made = by_class.BinaryAUROC(**unchecked) if binary else areas
    elif name == "auprc":
        areas = by_class.MulticlassAveragePrecision(num_outputs, average="none", **unchecked)
        made = by_class.BinaryAveragePrecision(**unchecked) if binary else areas
    elif name == "min_se_ppv":
        if not binary:
            raise ValueError(f"the metric min_se_ppv needs two classes, not {num_outputs}.")
        made = by_class.BinaryPrecisionRecallCurve(**unchecked)
    elif name in ("cross_entropy", "perplexity", "nrmse"):
        made = MeanMetric(**alone)
    elif name in ("mse", "rmse"):
        made = by_value.MeanSquaredError(squared=name == "mse", **alone)
    elif name == "mae":
        made = by_value.MeanAbsoluteError(**alone)
    else:
        made = by_value.R2Score(**alone)
    # Sums over many batches need more digits than the model has.
    return made.set_dtype(torch.float64)
