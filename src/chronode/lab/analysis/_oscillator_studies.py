"""Studies of UnICORNN that train models: learned time steps, weight norms, Δt and α, stacking, sub-sampling (Figs. 3
to 7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ...data import Parts, Sequences
from ...model import SequenceModel
from ...nn import Layer
from ...settings import one_of, whole
from ...storage import Result
from ._instrumented import as_layer
from ._learning import StudySetup
from ._oscillators import Array, cells_of

Progress = Callable[[int, int], None]


# ---- single runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EffectiveSteps(Result):
    """The effective time steps Δt σ(c).

    Attributes:
        delta_t: `(layers,)` largest possible step.
        steps: `(layers, H)` steps of the units, smallest first.
    """

    delta_t: Array
    steps: Array

    @property
    def spread(self) -> float:
        """Ratio of the largest possible step to the smallest step (28 for the psMNIST model of the paper)."""
        return float((self.delta_t[:, None] / self.steps).max())


def effective_steps(model: Layer | SequenceModel) -> EffectiveSteps:
    """Returns Δt σ(c) of each unit and layer of a (trained) UnICORNN.

    Example:
        >>> import chronode
        >>> effective_steps(chronode.create("unicornn", 3, 16, num_layers=2, delta_t=0.2)).steps.shape
        (2, 16)
    """
    cells = cells_of(as_layer(model, 1, 1, 0), "the effective time step")
    steps = torch.stack([(cell.delta_t * torch.sigmoid(cell.c)).detach().double() for cell in cells])
    return EffectiveSteps(np.array([float(cell.delta_t) for cell in cells]), steps.sort(-1).values.numpy())


def learned_steps(trial: StudySetup | None = None) -> EffectiveSteps:
    """Trains once and returns the learned time steps (Fig. 5).

    Example:
        >>> from chronode.training import Settings
        >>> few = {"train": 16, "valid": 8, "test": 8}
        >>> trial = StudySetup("bitstream", options=few, hidden_size=4, training=Settings(epochs=1))
        >>> learned_steps(trial).steps.shape
        (2, 4)
    """
    trial = trial or StudySetup()
    return effective_steps(trial.train(trial.load())[0].model)


@dataclass(frozen=True)
class WeightNorms(Result):
    """‖w‖∞ of every layer during training.

    Attributes:
        task: Name of the task.
        norms: `(runs, layers, epochs + 1)`, before training and after each epoch.
    """

    task: str
    norms: Array


def weight_norms(trial: StudySetup | None = None, *, progress: Progress | None = None) -> WeightNorms:
    """Records the largest |w| of each layer before training and after every epoch (Fig. 7).

    Example:
        >>> from chronode.training import Settings
        >>> few = {"train": 16, "valid": 8, "test": 8}
        >>> trial = StudySetup("bitstream", options=few, hidden_size=4, training=Settings(epochs=1))
        >>> weight_norms(trial).norms.shape
        (1, 2, 2)
    """
    trial = trial or StudySetup()
    parts, norms = trial.load(), []
    for run in range(trial.runs):
        history: list[list[float]] = []

        def watch(model: SequenceModel, history: list[list[float]] = history) -> None:
            history.append([float(cell.w.detach().abs().max()) for cell in cells_of(model.layer)])

        trial.train(parts, run, watch)
        norms.append(np.array(history).T)
        if progress:
            progress(run + 1, trial.runs)
    return WeightNorms(trial.definition.name, np.stack(norms))


# ---- comparisons -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyScores(Result):
    """Test scores over the values of a setting.

    Attributes:
        task: Name of the task.
        metric: Metric of the scores.
        over: The setting that was varied.
        values: Its values.
        kinds: Variants that are compared at each value.
        scores: `(kinds, values, runs)`.
    """

    task: str
    metric: str
    over: str
    values: tuple[float, ...]
    kinds: tuple[str, ...]
    scores: Array


@dataclass(frozen=True)
class Sensitivity(Result):
    """Scores over Δt and over α, each with the other at its value in the trial."""

    delta_t: StudyScores
    alpha: StudyScores


def sensitivity(
    trial: StudySetup | None = None,
    *,
    delta_t: Sequence[float] = (0.03, 0.1, 0.3, 0.6),
    alpha: Sequence[float] = (0.3, 1.0, 3.0, 10.0),
    progress: Progress | None = None,
) -> Sensitivity:
    """Measures how the score depends on Δt and α (Fig. 4).

    Example:
        >>> from chronode.training import Settings
        >>> few = {"train": 16, "valid": 8, "test": 8}
        >>> trial = StudySetup("bitstream", options=few, hidden_size=4, training=Settings(epochs=1))
        >>> sensitivity(trial, delta_t=[0.1], alpha=[1.0]).alpha.scores.shape
        (1, 1, 1)
    """
    trial = trial or StudySetup()
    parts = trial.load()
    counted = _counted(progress, trial.runs * (len(delta_t) + len(alpha)))
    scores = {
        name: _compared(trial, name, values, {"unicornn": lambda value, name=name: (parts, {name: value})}, counted)
        for name, values in (("delta_t", delta_t), ("alpha", alpha))
    }
    return Sensitivity(**scores)


STACKINGS = ("plain", "residual", "single-scale")


def stacking(
    trial: StudySetup | None = None,
    *,
    layers: Sequence[int] = (3, 4, 5, 6),
    kinds: Sequence[str] = STACKINGS,
    skip: int = 2,
    progress: Progress | None = None,
) -> StudyScores:
    """Compares plain stacking, residual stacking and untrained time scales (Fig. 6).

    Args:
        trial: The training to repeat.
        layers: Numbers of layers L; residual stacking needs more than `skip`.
        kinds: Any of "plain", "residual" and "single-scale" (c is not trained).
        skip: Number S of layers that a residual connection skips.
        progress: Called with (finished runs, all runs).

    Example:
        >>> from chronode.training import Settings
        >>> few = {"train": 16, "valid": 8, "test": 8}
        >>> trial = StudySetup("bitstream", options=few, hidden_size=4, training=Settings(epochs=1))
        >>> stacking(trial, layers=[3], kinds=["plain"]).scores.shape
        (1, 1, 1)
    """
    trial = trial or StudySetup()
    parts = trial.load()
    changes = {"plain": {}, "residual": {"residual": skip}, "single-scale": {"train_c": False}}
    ways = {
        one_of("kinds", kind, STACKINGS): lambda value, kind=kind: (parts, {"num_layers": value, **changes[kind]})
        for kind in kinds
    }
    return _compared(trial, "layers", layers, ways, _counted(progress, trial.runs * len(layers) * len(kinds)))


def subsampling(
    trial: StudySetup | None = None, *, entries: Sequence[int] = (8, 16, 32, 64), progress: Progress | None = None
) -> StudyScores:
    """Measures the score with only the last, or random, entries of every series (Fig. 3).

    Shorter series are used completely.

    Example:
        >>> from chronode.training import Settings
        >>> few = {"train": 16, "valid": 8, "test": 8}
        >>> trial = StudySetup("bitstream", options=few, hidden_size=4, training=Settings(epochs=1))
        >>> subsampling(trial, entries=[4]).kinds
        ('last entries', 'random entries')
    """
    trial = trial or StudySetup()
    parts = trial.load()

    def cut(select: Callable[[Sequences, int], Sequences], value: int) -> tuple[Parts, dict[str, Any]]:
        train, valid, test = (select(part, value) for part in (parts.train, parts.valid, parts.test))
        return replace(parts, train=train, valid=valid, test=test, fresh=None), {}

    ways = {
        "last entries": lambda value: cut(last_entries, value),
        "random entries": lambda value: cut(random_entries, value),
    }
    return _compared(trial, "entries", entries, ways, _counted(progress, trial.runs * len(entries) * len(ways)))


def last_entries(series: Sequences, count: int) -> Sequences:
    """Returns the last `count` steps of every series.

    Example:
        >>> from chronode.data import from_list
        >>> last_entries(from_list([[1.0, 2.0, 3.0], [4.0]], target=[0, 1]), 2).values[:, 0].tolist()
        [2.0, 3.0, 4.0]
    """
    lengths = _kept(series, count)
    return replace(series, starts=series.starts + series.lengths - lengths, lengths=lengths)


def random_entries(series: Sequences, count: int, seed: int = 0) -> Sequences:
    """Returns `count` randomly chosen steps of every series, in their order.

    Example:
        >>> from chronode.data import from_list
        >>> random_entries(from_list([[1.0, 2.0, 3.0, 4.0]], target=[0.5]), 2).values[:, 0].tolist()
        [3.0, 4.0]
    """
    lengths = _kept(series, count)
    rng = np.random.default_rng(seed)
    picked = [
        start + np.sort(rng.choice(length, kept, replace=False))
        for start, length, kept in zip(series.starts, series.lengths, lengths, strict=True)
    ]
    rows = np.concatenate(picked)
    times = None if series.base_times is None else series.base_times[rows]
    starts = lengths.cumsum() - lengths
    return replace(series, base_values=series.base_values[rows], base_times=times, starts=starts, lengths=lengths)


def _kept(series: Sequences, count: int) -> np.ndarray:
    whole("entries", count, at_least=1)
    if series.finish is not None or (series.target is not None and series.target.per_step):
        raise ValueError("sub-sampling needs stored series with one target each; use another task.")
    return np.minimum(series.lengths, count)


Way = Callable[[Any], tuple[Parts, dict[str, Any]]]


def _compared(
    trial: StudySetup, over: str, values: Sequence[Any], ways: Mapping[str, Way], done: Callable[[], None]
) -> StudyScores:
    """Trains each variant at each value; a variant returns the series and the changed settings."""
    scores = np.empty((len(ways), len(values), trial.runs))
    for i, way in enumerate(ways.values()):
        for j, value in enumerate(values):
            parts, changes = way(value)
            for run in range(trial.runs):
                scores[i, j, run] = trial.train(parts, run, **changes)[1]
                done()
    return StudyScores(trial.definition.name, trial.definition.metric, over, tuple(values), tuple(ways), scores)


def _counted(progress: Progress | None, total: int) -> Callable[[], None]:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total)

    return count
