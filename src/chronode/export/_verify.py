"""Compares an export with the original model on a file of the user."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import Batch, Sequences
from ..training import Scores, Trained, evaluation_batches
from ._deployment import Graph, Series

_MOST_STEPS = 2**18
_MOST_WINDOWS = 200  # of a forecast; each step of a window runs the network over all steps before


class Runner(Protocol):
    """Runs an export."""

    def run(self, graph: Graph, series: Series) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step."""
        ...


@dataclass(frozen=True)
class Verification:
    """Agreement of the predictions of an export with those of chronode, whose weights are not rounded.

    Attributes:
        difference: The largest difference of probabilities, or of values in the target's own units; infinite if a
            prediction is not a number.
        count: Number of compared predictions.
        series: Number of series, or of windows of a forecast.
        same_class: Share of predictions with the same most likely class; None for values.
        metrics: For files with targets, each metric of the export and of chronode.
    """

    difference: float
    count: int
    series: int
    same_class: float | None
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)

    def text(self) -> str:
        """The result in one line, and one for the metrics."""
        same = "" if self.same_class is None else f"; same class in {100 * self.same_class:.4g}% of them"
        line = f"largest difference {self.difference:.3g} in {self.count:,} predictions ({self.series:,} series){same}"
        metrics = [f"{name} {exported:.4g} (chronode {other:.4g})" for name, (exported, other) in self.metrics.items()]
        return f"{line}\n{', '.join(metrics)}" if metrics else line


def verify(graph: Graph, runner: Runner, trained: Trained, source: str) -> Verification:
    """Compares an export, on the raw values of a file, with `trained.predict`."""
    raw, scaled = _series(trained, source)
    expected = trained.predict(scaled).values
    per_step = trained.model.per_step
    own_scores, scores = trained.objective.scores(), trained.objective.scores()
    worst, count, same = 0.0, 0, 0
    # The windows that end at all steps are run.
    for batch in evaluation_batches(raw, _MOST_STEPS // max(1, graph.deployment.window)):
        x = batch.x.float().numpy()
        observed = np.ones(x.shape, bool) if batch.observed is None else batch.observed.numpy()
        dt = np.ones(x.shape[:2], np.float32) if batch.dt is None else batch.dt.float().numpy()
        outputs = runner.run(graph, Series(x, observed, dt))
        for index, (row, length) in enumerate(zip(batch.rows.tolist(), batch.lengths.tolist(), strict=True)):
            predicted = outputs[index, :length] if per_step else outputs[index, length - 1 : length]
            wanted = np.atleast_2d(expected[row])
            away = float(np.abs(predicted - wanted).max())
            worst = max(worst, away if away == away else np.inf)
            count += len(predicted)
            same += int((predicted.argmax(-1) == wanted.argmax(-1)).sum())
            _measure(own_scores, predicted, batch, index)
            _measure(scores, wanted, batch, index)
    pairs = {} if raw.target is None else {n: (own_scores.compute()[n], v) for n, v in scores.compute().items()}
    return Verification(worst, count, len(raw), same / count if graph.deployment.classes else None, pairs)


def _measure(scores: Scores, predictions: NDArray[np.float32], batch: Batch, index: int) -> None:
    """Adds the predictions of a series to metrics, where targets are known."""
    if batch.target is None:
        return
    output, target = torch.from_numpy(predictions), batch.target[index]
    if target.dtype == torch.int64:
        target = target.reshape(-1)[: len(output)]
        has_target = target >= 0
        output = output.clamp(min=1e-30).log()
    else:
        target = target.reshape(-1, output.shape[1])[: len(output)].double()
        has_target, output = ~target.isnan().all(-1), output.double()
    scores.update(output[has_target], target[has_target])


def _series(trained: Trained, source: str) -> tuple[Sequences, Sequences]:
    """Returns the series in the units of the file, and scaled; with targets if the file has them."""
    reading, classes = trained.reading, trained.objective.classes
    if reading is None:
        own = trained.series(source, labeled=False)
        return own, own
    pair = (replace(reading, scaler=None), reading)
    try:
        found = [own.read(source, labeled=True, anyway=True) for own in pair]
        if len(found[0]) == 0:
            raise ValueError
    except ValueError:  # no targets here, or too few steps for a forecast; an error in the file itself comes again
        found = [own.read(source, labeled=False, anyway=True) for own in pair]
    if reading.window and len(found[0]) > _MOST_WINDOWS:
        rows = np.linspace(0, len(found[0]) - 1, _MOST_WINDOWS).round().astype(np.int64)
        found = [own[rows] for own in found]
    if found[0].target is not None:
        found[0] = found[0].with_classes(classes)
    return found[0], found[1]
