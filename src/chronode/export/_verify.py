"""Compares an export with the original model on a file of the user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..data import Sequences
from ..runs import Trained
from ..training._loaders import evaluation_batches
from ._reference import Series
from ._window import Graph

_MOST_STEPS = 2**18


class Runner(Protocol):
    """Runs an export."""

    def run(self, graph: Graph, series: Series) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step."""
        ...


@dataclass(frozen=True)
class Verification:
    """How well the predictions of an export agree with those of chronode.

    Attributes:
        difference: The largest difference of probabilities, or of values in the target's own units.
        count: Number of compared predictions.
        series: Number of series.
        same_class: Share of predictions with the same most likely class; None for values.
    """

    difference: float
    count: int
    series: int
    same_class: float | None

    def text(self) -> str:
        """The result in one line."""
        same = "" if self.same_class is None else f"; same class in {100 * self.same_class:.4g}% of them"
        return f"largest difference {self.difference:.3g} in {self.count:,} predictions ({self.series:,} series){same}"


def verify(graph: Graph, runner: Runner, trained: Trained, source: str) -> Verification:
    """Compares an export, on the raw values of a file, with `trained.predict`."""
    raw, scaled = _raw(trained, source), trained.series(source, labelled=False, anyway=True)
    expected = trained.predict(scaled).values
    per_step = trained.model.layer.outputs == "all"
    worst, count, same = 0.0, 0, 0
    # The windows that end at all steps are run.
    for batch in evaluation_batches(raw, _MOST_STEPS // max(1, graph.deployment.window)):
        x = batch.x.float().numpy()
        seen = np.ones(x.shape, bool) if batch.observed is None else batch.observed.numpy()
        dt = np.ones(x.shape[:2], np.float32) if batch.dt is None else batch.dt.float().numpy()
        found = runner.run(graph, Series(x, seen, dt))
        for row, length, predictions in zip(batch.rows.tolist(), batch.lengths.tolist(), found, strict=True):
            own = predictions[:length] if per_step else predictions[length - 1 : length]
            wanted = np.atleast_2d(expected[row])
            worst = max(worst, float(np.abs(own - wanted).max()))
            count += len(own)
            same += int((own.argmax(-1) == wanted.argmax(-1)).sum())
    return Verification(worst, count, len(raw), same / count if graph.deployment.classes else None)


def _raw(trained: Trained, source: str) -> Sequences:
    """Returns the raw series, in the units of the file."""
    if trained.reading is None:
        return trained.series(source, labelled=False)
    return replace(trained.reading, scaler=None).read(source, labelled=False, anyway=True)
