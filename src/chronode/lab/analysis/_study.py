"""StudySetup: a training of UnICORNN that studies repeat with changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...data import Parts
from ...model import SequenceModel
from ...settings import whole
from ...training import EpochDone, Event, Objective, Settings, Trained, assemble
from ..tasks import Task, find_task


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
