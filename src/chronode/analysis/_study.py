"""Trial: one training of a UnICORNN, to be repeated with something changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .._checks import whole
from .._model import SequenceModel
from ..tasks import Parts, Task, find
from ..training import EpochDone, Event, Fitted, Objective, Settings
from ..training._assembly import assemble


@dataclass(frozen=True)
class Trial:
    """What a study trains, again and again with something changed.

    Attributes:
        task: a task's name, or a Task.
        protocol: of the task.
        options: of the task.
        hidden_size: units a layer.
        num_layers: layers.
        settings: of UnICORNN and its layer: delta_t, alpha, dropout, ...
        training: how to train; the seed is that of the first run.
        runs: trainings of each kind, which differ in their seed; the data stay the same.
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
    def found(self) -> Task:
        """The task itself."""
        return find(self.task) if isinstance(self.task, str) else self.task

    def load(self) -> Parts:
        """The task's series."""
        return self.found.load(self.protocol, self.training.seed, **self.options)

    def train(
        self, parts: Parts, run: int = 0, watch: Callable[[SequenceModel], None] | None = None, **changes: Any
    ) -> tuple[Fitted, float]:
        """One training, and the task's metric on the test part.

        Args:
            parts: the series.
            run: which of the runs.
            watch: called with the model before training and after every epoch.
            changes: of `settings`, or `num_layers`.
        """
        told = {"num_layers": self.num_layers, **self.settings, **changes}
        settings = replace(self.training, seed=self.training.seed + run)
        sizes = {"hidden_size": self.hidden_size, **told}
        objective = Objective.for_task(self.found, parts.train, scaler=parts.scaler)
        assembly = assemble(parts, "unicornn", settings, network=sizes, objective=objective)
        if watch is not None:
            watch(assembly.network)

        def on_event(event: Event) -> None:
            if watch is not None and isinstance(event, EpochDone):
                watch(assembly.network)

        fitted = assembly.fit(on_event=on_event)
        return fitted, fitted.evaluate(parts.test)[self.found.metric]
