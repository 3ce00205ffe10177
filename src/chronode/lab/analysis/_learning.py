"""Short runs of several models: learning curves, scores of a study, and the time of a batch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...data import Parts
from ...model import SequenceModel
from ...nn import create
from ...settings import whole
from ...storage import Result
from ...training import BatchDone, EpochDone, Event, Objective, Settings, Trained, assemble
from ..tasks import Task, find_task
from ..tasks.synthetic import NAIVE, memoryless


@dataclass(frozen=True)
class LearningCurves(Result):
    """The training loss of several models after every step.

    Attributes:
        task: Name of the task.
        options: Options of the task.
        models: Names of the models.
        losses: `(models, steps)` loss of each batch, before its optimizer step.
        naive: Loss of always predicting the mean target; None if unknown.
    """

    task: str
    options: dict[str, Any]
    models: tuple[str, ...]
    losses: NDArray[np.float64]
    naive: float | None


def learning_curves(
    task: str = "adding",
    models: Sequence[str] = ("irnn", "lstm", "fastrnn", "antisymmetric"),
    *,
    steps: int = 200,
    hidden_size: int = 128,
    options: Mapping[str, Any] | None = None,
    training: Settings | None = None,
) -> LearningCurves:
    """Trains each model on the same batches and records the loss of every step.

    Args:
        task: Name of a task.
        models: Registered names.
        steps: Number of optimizer steps.
        hidden_size: Units H.
        options: Options of the task, such as {"length": 750}.
        training: Training settings; steps and epochs are overridden.

    Example:
        >>> few = {"length": 5, "train": 32, "valid": 8, "test": 8}
        >>> learning_curves("adding", ["gru"], steps=3, hidden_size=4, options=few).losses.shape
        (1, 3)
    """
    options, training = dict(options or {}), training or Settings(batch_size=128)
    parts = find_task(task).load("clean", training.seed, **options)
    epochs = -(-steps // max(1, len(parts.train) // (training.batch_size or 128)))
    settings = replace(training, steps=steps, epochs=epochs)
    curves = []
    for name in models:
        losses: list[float] = []

        def keep(event: Event, losses: list[float] = losses) -> None:
            if isinstance(event, BatchDone):
                losses.append(event.loss)

        assemble(task, name, settings, network={"hidden_size": hidden_size}, options=options).fit(on_event=keep)
        curves.append(losses[:steps])
    return LearningCurves(task, options, tuple(models), np.array(curves), _naive(task, **options))


def _naive(task: str, length: int = 200, **_: Any) -> float | None:
    return {"adding": NAIVE, "copy": memoryless(length)}.get(task)


TORCH_LSTM = "torch.nn.LSTM"


@dataclass(frozen=True)
class Speed(Result):
    """Median seconds of a forward and backward pass on this machine.

    Attributes:
        models: Names of the models.
        lengths: Length T of each column.
        batch: Sequences per batch.
        hidden_size: Units H.
        seconds: `(models, lengths)` median seconds.
    """

    models: tuple[str, ...]
    lengths: tuple[int, ...]
    batch: int
    hidden_size: int
    seconds: NDArray[np.float64]


def training_speed(
    models: Sequence[str] = ("unicornn", TORCH_LSTM, "sru", "indrnn"),
    lengths: Sequence[int] = (500, 1000, 2000),
    *,
    batch: int = 32,
    hidden_size: int = 64,
    layers: int = 2,
    repeats: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> Speed:
    """Times each model; "torch.nn.LSTM" is the LSTM of PyTorch with one layer, as in the paper.

    Args:
        models: Registered names, or "torch.nn.LSTM".
        lengths: Sequence lengths.
        batch: Sequences per batch.
        hidden_size: Units H.
        layers: Number of layers of all models except "torch.nn.LSTM".
        repeats: Number of rounds; the median is reported.
        progress: Called with (finished timings, total timings).

    Example:
        >>> training_speed(["unicornn"], [10, 20], batch=2, hidden_size=4, repeats=1).seconds.shape
        (1, 2)
    """
    seconds = np.empty((len(models), len(lengths)))
    for i, name in enumerate(models):
        for j, length in enumerate(lengths):
            layer = (
                create(name, 1, hidden_size, layers)
                if name != TORCH_LSTM
                else torch.nn.LSTM(1, hidden_size, batch_first=True)
            )
            x = torch.randn(batch, length, 1)
            times = []
            for _ in range(repeats + 1):
                start = time.perf_counter()
                layer(x)[0].sum().backward()
                times.append(time.perf_counter() - start)
            seconds[i, j] = statistics.median(times[1:])  # the first one warms up caches and allocators
            if progress:
                progress(i * len(lengths) + j + 1, seconds.size)
    return Speed(tuple(models), tuple(lengths), batch, hidden_size, seconds)


@dataclass(frozen=True)
class StudySetup:
    """Training that a study repeats with changed settings.

    Attributes:
        task: Name of a task, or a Task.
        protocol: Protocol of the task.
        options: Options of the task.
        hidden_size: Units per layer.
        num_layers: Number of layers.
        settings: Settings of UnICORNN and its layer: delta_t, alpha, dropout, ...
        training: Training settings; the seed is that of the first run.
        runs: Number of runs of each kind with different seeds; the data are the same.
    """

    task: str | Task = "digits-seq"
    protocol: str = "clean"
    options: Mapping[str, Any] = field(default_factory=dict)
    hidden_size: int = 32
    num_layers: int = 2
    settings: Mapping[str, Any] = field(default_factory=lambda: {"delta_t": 0.3})
    training: Settings = field(default_factory=lambda: Settings(epochs=10, learning_rate=1e-2))
    runs: int = 1

    def __post_init__(self) -> None:
        whole("runs", self.runs, at_least=1)

    @property
    def definition(self) -> Task:
        """The task."""
        return find_task(self.task) if isinstance(self.task, str) else self.task

    def load(self) -> Parts:
        """Loads the series of the task."""
        return self.definition.load(self.protocol, self.training.seed, **self.options)

    def train(
        self, parts: Parts, run: int = 0, watch: Callable[[SequenceModel], None] | None = None, **changes: Any
    ) -> tuple[Trained, float]:
        """Trains once and returns the metric of the task on the test part.

        Args:
            parts: The series.
            run: Number of the run.
            watch: Called with the model before training and after every epoch.
            changes: Changes to `settings` or `num_layers`.
        """
        network = {"num_layers": self.num_layers, **self.settings, **changes}
        settings = replace(self.training, seed=self.training.seed + run)
        sizes = {"hidden_size": self.hidden_size, **network}
        objective = Objective.for_task(self.definition, parts.train, scaler=parts.scaler)
        assembly = assemble(parts, "unicornn", settings, network=sizes, objective=objective)
        if watch is not None:
            watch(assembly.network)

        def on_event(event: Event) -> None:
            if watch is not None and isinstance(event, EpochDone):
                watch(assembly.network)

        fitted = assembly.fit(on_event=on_event)
        return fitted, fitted.evaluate(parts.test)[self.definition.metric]
