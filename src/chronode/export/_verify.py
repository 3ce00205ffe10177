"""Comparison of exports with the model: on random irregular series, on a file of the user, and after rounding."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import Batch, Sequences
from ..model import Link, SequenceModel
from ..model.start import Summaries
from ..training import Objective, Scores, SeveralScores, Trained, evaluation_batches, labeled
from ._deployment import Deployment, Graph, Series

_MOST_STEPS = 2**18
_MOST_WINDOWS = 200  # of a forecast; each step of a window runs the network over all steps before
_MOST_OF_SPREAD = 0.3
"""Rounding that accounts for a tenth of the variance of the predictions has changed what the model predicts."""


def irregular(deployment: Deployment, batch: int, steps: int, seed: int = 0) -> Series:
    """Draws series: random walks around the training means, random gaps, and missing values if allowed."""
    rng, size = np.random.default_rng(seed), len(deployment.channels)
    scaler = deployment.scaler
    values = np.empty((batch, steps, size))
    value = np.zeros((batch, size))
    for step in range(steps):
        value = 0.8 * value + 0.6 * rng.normal(size=(batch, size))
        values[:, step] = value
    if scaler is not None:
        values = scaler.inverse_values(values)
    missing = 0.3 if deployment.missing else 0.0
    dt = deployment.gap * rng.exponential(size=(batch, steps))
    dt[:, 0] = 0.0
    observed = rng.random(values.shape) >= missing
    return Series(values.astype(np.float32), observed, dt.astype(np.float32))


def predictions(deployment: Deployment, series: Series, *, double: bool = False) -> NDArray[Any]:
    """Returns the predictions `(B, T, K)` of the model itself after each step."""
    scaler, dtype = deployment.scaler, torch.float64 if double else torch.float32
    model = _predicting_every_step(deployment.model)
    model = model.double() if double else model
    x, observed, dt = map(torch.from_numpy, series)
    values = torch.where(observed, x, 0).double()
    if scaler is not None:
        mean, std = (torch.tensor(numbers, dtype=torch.float64) for numbers in (scaler.mean, scaler.std))
        shaped = [scaler.shaped(i, column) for i, column in enumerate(np.moveaxis(values.numpy(), -1, 0))]
        values = (torch.from_numpy(np.stack(shaped, axis=-1)) - mean) / std
    scaled = torch.where(observed, values, 0).to(dtype)
    gaps = dt.double()
    if deployment.has_times:
        gaps = torch.cat([torch.zeros_like(gaps[:, :1]), gaps[:, 1:]], dim=1)
    if scaler is not None:
        gaps = (gaps if scaler.gaps is None else torch.from_numpy(scaler.gaps(gaps.numpy()))) / scaler.dt
    gaps = gaps.to(dtype)
    with torch.no_grad():
        times = {"dt": gaps, **({"observed": observed} if deployment.missing else {})}
        if deployment.window:
            y = _window_outputs(model, deployment.window, scaled, times)
        else:
            y = model(scaled, **times) if model.pooling is None else model.run(scaled, None, **times)[0]
    parts = zip(deployment.links, y.split([link.size for link in deployment.links], dim=-1), strict=True)
    return torch.cat([_linked(link, part) for link, part in parts], dim=-1).numpy()


def _linked(link: Link, y: torch.Tensor) -> torch.Tensor:
    """Returns outputs as predictions, by the scaler itself."""
    if link.classes:
        return y.softmax(-1)
    return y if link.scaler is None else link.scaler.inverse_target(y)


def _window_outputs(model: SequenceModel, window: int, x: torch.Tensor, times: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns the outputs `(B, T, K)` for the windows that end at each step."""
    outputs = []
    for end in range(1, x.shape[1] + 1):
        part = slice(max(0, end - window), end)
        arguments = {name: values[:, part].clone() for name, values in times.items()}
        arguments["dt"][:, 0] = 0  # a window begins at its first step
        outputs.append(model(x[:, part], **arguments))
    return torch.stack(outputs, dim=1)


def _predicting_every_step(model: SequenceModel) -> SequenceModel:
    model = copy.deepcopy(model)
    if model.relative is None:
        model.layer.outputs = "all"
    for start in () if model.start is None else model.start.starts:
        if isinstance(start.features, Summaries):
            start.features.every_step = True
    return model


def tolerances(deployment: Deployment) -> NDArray[np.float64]:
    """Returns the allowed difference of an export for each output: 1e-5, for values times the target's deviation."""
    return np.concatenate([_tolerances(link) for link in deployment.links])


def _tolerances(link: Link) -> NDArray[np.float64]:
    target = link.scaler
    if target is None or not link.scales:
        return np.full(link.size, 1e-5)
    scale = np.array(target.target_std)
    for output, shape in enumerate(target.target_shapes):
        if shape.offset is not None:  # an exponential multiplies errors by its value
            scale[output] *= np.exp(target.target_mean[output] + 3 * target.target_std[output])
    return 1e-5 * scale


@dataclass(frozen=True)
class Rounding:
    """The effect of rounding on predictions.

    Attributes:
        original: `(steps, K)` predictions of the model.
        rounded: `(steps, K)` predictions with the rounded weights.
        tolerances: `(K,)` differences that floating-point arithmetic alone may cause.
        classes: Whether the predictions are class probabilities.
    """

    original: NDArray[np.float32]
    rounded: NDArray[np.float32]
    tolerances: NDArray[np.float64]
    classes: bool

    @property
    def difference(self) -> float:
        """The largest difference."""
        return float(np.abs(self.rounded - self.original).max())

    @property
    def limits(self) -> NDArray[np.float64]:
        """The allowed mean squared difference of each output."""
        spread = np.asarray(self.original, np.float64).std(axis=0)
        return (self.tolerances + _MOST_OF_SPREAD * spread) ** 2

    @property
    def shares(self) -> NDArray[np.float64]:
        """The root mean square of the differences of each output, as a share of the spread of its predictions."""
        squares = (np.asarray(self.rounded, np.float64) - self.original) ** 2
        return _MOST_OF_SPREAD * np.sqrt(squares.mean(axis=0) / self.limits)

    @property
    def is_small(self) -> bool:
        """Whether the predictions are still those of the model."""
        return bool((self.shares <= _MOST_OF_SPREAD).all())

    def text(self) -> str:
        """The effect in one line."""
        parts = [f"largest difference from float32 {self.difference:.3g}"]
        parts.append(f"root mean square {100 * self.shares.max():.2g}% of the spread of the predictions")
        if self.classes:
            same = (self.original.argmax(-1) == self.rounded.argmax(-1)).mean()
            parts.append(f"same class in {100 * same:.4g}% of {len(self.original):,}")
        return ", ".join(parts) + ("" if self.is_small else ": too much, use float32 (`make check` fails)")


# ---- on a file of the user --------------------------------------------------------------------------------


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
        positive: Positive one of two classes.
        targets: Number of targets that the metrics are over.
    """

    difference: float
    count: int
    series: int
    same_class: float | None
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)
    positive: str | None = None
    targets: int = 1

    def text(self) -> str:
        """The result in one line, and one for the metrics."""
        same = "" if self.same_class is None else f"; same class in {100 * self.same_class:.4g}% of them"
        line = f"largest difference {self.difference:.3g} in {self.count:,} predictions ({self.series:,} series){same}"
        metrics = [
            f"{labeled(name, self.positive, self.targets)} {exported:.4g} (chronode {other:.4g})"
            for name, (exported, other) in self.metrics.items()
        ]
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
            for found, values in ((own_scores, predicted), (scores, wanted)):
                _measure(trained.objective, found, values, batch, index)
    pairs = {} if raw.target is None else {n: (own_scores.compute()[n], v) for n, v in scores.compute().items()}
    same_class = same / count if graph.deployment.classes else None
    about = trained.objective
    return Verification(worst, count, len(raw), same_class, pairs, about.positive, len(about.targets))


def _measure(
    objective: Objective, scores: Scores | SeveralScores, predictions: NDArray[np.float32], batch: Batch, index: int
) -> None:
    """Adds the predictions of a series to metrics, where targets are known."""
    if batch.target is None:
        return
    target = batch.target[index]
    rows = target.reshape(-1) if target.dtype == torch.int64 else target.reshape(-1, target.shape[-1])
    objective.measure_predictions(scores, torch.from_numpy(predictions), rows[: len(predictions)])


def _series(trained: Trained, source: str) -> tuple[Sequences, Sequences]:
    """Returns the series in the units of the file, and scaled; with targets if the file has them."""
    reading, classes = trained.reading, trained.objective.class_names
    if reading is None:
        one = trained.series(source, labeled=False)
        return one, one
    pair = (replace(reading, scaler=None), reading)
    try:
        pieces = [one.read(source, labeled=True, anyway=True) for one in pair]
        if len(pieces[0]) == 0:
            raise ValueError
    except ValueError:  # no targets here, or too few steps for a forecast; an error in the file itself comes again
        pieces = [one.read(source, labeled=False, anyway=True) for one in pair]
    if reading.window and len(pieces[0]) > _MOST_WINDOWS:
        rows = np.linspace(0, len(pieces[0]) - 1, _MOST_WINDOWS).round().astype(np.int64)
        pieces = [one[rows] for one in pieces]
    if pieces[0].target is not None:
        pieces[0] = pieces[0].with_classes(classes)
    return pieces[0], pieces[1]
