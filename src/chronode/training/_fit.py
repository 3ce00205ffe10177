"""fit: trains a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..data import Parts, Scaler, Sequences
from ..model import ModelSpec, SequenceModel
from ..model.start import StartFit
from ._assembly import assemble
from ._events import Event, Saves
from ._objective import Objective
from ._settings import Settings
from ._task import Task
from ._trained import Trained


def fit(
    data: str | Task | Parts | Sequences,
    model: str | ModelSpec | SequenceModel = "mmrnn",
    settings: Settings | None = None,
    *,
    start: str | StartFit = "none",
    valid: Sequences | None = None,
    objective: Objective | None = None,
    scaler: Scaler | None = None,
    protocol: str = "clean",
    options: Mapping[str, Any] | None = None,
    on_event: Callable[[Event], None] | None = None,
    store: Saves | None = None,
    resume: bool = False,
    save_minutes: float = 5.0,
) -> Trained:
    """Trains a model and returns it with the best weights by validation.

    Args:
        data: Name of a task, a Task, its Parts, or your own training series.
        model: Name of a model (with default sizes), a ModelSpec, or a SequenceModel to train further.
        settings: Training settings.
        start: "linear": a linear model is fitted first, and the network learns the residual; "summaries": the same with
            features that can be updated step by step, for live data and export; "stacked": several linear models and
            gradient boosting; "none": no linear model.
        valid: Validation series for your own training series; by default a share of the groups is held out.
        objective: Loss and metrics; by default those of the task, or the standard ones for the target.
        scaler: Scaler that was applied to your own series; metrics and predictions are then in the units of the target
            (the metrics of a task are in the units of the task).
        protocol: Protocol of a task: "clean" or "paper".
        options: Options of a task.
        on_event: Called with BatchDone, EpochDone and Note during training.
        store: Storage of the state of the run, to resume after a crash (`chronode.runs._checkpoints.Store`).
        resume: Whether to resume from the state in `store`; without a state, training starts from the beginning.
        save_minutes: Interval of saving within an epoch; the end of every epoch is saved.

    Raises:
        TrainingStopped: The loss is not finite or has exploded, or memory is exhausted; `error.fitted` is the best
            model.

    Example:
        >>> from chronode.lab.tasks.bitstream import bitstream
        >>> spec = ModelSpec.for_data(bitstream(8, seed=0), "mmrnn", hidden_size=8)
        >>> fitted = fit(bitstream(256, seed=0, longest=4), spec, Settings(epochs=2))
        >>> [epoch.number for epoch in fitted.history], list(fitted.evaluate(bitstream(64, seed=1)))[:3]
        ([1, 2], ['loss', 'accuracy', 'f1'])
    """
    fields: dict[str, Any] = {"valid": valid, "objective": objective, "scaler": scaler}
    assembly = assemble(data, model, settings, start=start, protocol=protocol, options=options, **fields)
    return assembly.fit(on_event=on_event, store=store, resume=resume, save_minutes=save_minutes)
