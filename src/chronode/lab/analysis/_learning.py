"""Learning curves of several models on one task (iRNN Fig. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...storage import Result
from ...training import BatchDone, Event, Settings, assemble
from ..tasks import find_task
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
