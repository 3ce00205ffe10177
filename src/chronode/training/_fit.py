"""fit: the one way to train a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from .._checks import number, one_of
from .._model import ModelSpec, SequenceModel
from ..data import Scaler, Sequences
from ..tasks._task import Parts, Task
from ._events import Ends, Event, Note, Saves
from ._fitted import Fitted
from ._inputs import check_fits, network_for, notes_on, parts_of
from ._objective import Objective
from ._settings import Settings
from ._start import STARTS, with_start


def fit(
    data: str | Task | Parts | Sequences,
    model: str | ModelSpec | SequenceModel = "mmrnn",
    settings: Settings | None = None,
    *,
    start: str = "none",
    valid: Sequences | None = None,
    objective: Objective | None = None,
    scaler: Scaler | None = None,
    protocol: str = "clean",
    options: Mapping[str, Any] | None = None,
    on_event: Callable[[Event], None] | None = None,
    store: Saves | None = None,
    resume: bool = False,
    save_minutes: float = 5.0,
) -> Fitted:
    """Trains a model and gives it back with its best weights by validation.

    Args:
        data: the name of a task, a Task, its Parts, or the training series of your own.
        model: a model's name (with the usual sizes), a ModelSpec, or a SequenceModel to train further.
        settings: how to train.
        start: "linear": a linear model is fitted first, and the network learns what it leaves; "none": the network
            alone.
        valid: with series of your own: what to choose by; None: a share of the groups is set aside.
        objective: loss and metrics; None: the task's, or the usual ones for the target.
        scaler: what your own series went through; metrics and predictions are then in the target's own units
            (a task's metrics are in the task's units).
        protocol: of a task: "clean" or "paper".
        options: of a task.
        on_event: called with BatchDone, EpochDone and Note as training goes on.
        store: where to keep the state of the run, to go on after a crash (`chronode.runs._checkpoints.Store`).
        resume: go on from what `store` has; from the start if it has nothing.
        save_minutes: how often to save within an epoch; every epoch's end is saved.

    Raises:
        TrainingStopped: the loss is not finite or has exploded, or memory is full; `error.fitted` is the best model.

    Example:
        >>> from chronode.tasks.bitstream import bitstream
        >>> spec = ModelSpec.for_data(bitstream(8, seed=0), "mmrnn", hidden_size=8)
        >>> fitted = fit(bitstream(256, seed=0, longest=4), spec, Settings(epochs=2))
        >>> [epoch.number for epoch in fitted.history], sorted(fitted.evaluate(bitstream(64, seed=1)))
        ([1, 2], ['accuracy', 'auroc', 'f1', 'loss'])
    """
    from ._runner import train

    settings = settings or Settings()
    if resume and store is None:
        raise ValueError("resume=True needs store=...: where the state of the run was kept.")
    ends = Ends(on_event, store, 60 * number("save_minutes", save_minutes, at_least=0))
    task, parts = parts_of(data, valid, scaler, protocol, options or {}, settings.seed)
    if objective is None:
        own = parts.scaler if task or isinstance(data, Sequences) else None
        usual = partial(Objective.for_task, task) if task else Objective.for_data
        objective = usual(parts.train, scaler=own)
    objective = objective.with_settings(settings.metric, settings.class_weights, parts.train)
    # Nothing that the caller draws afterwards depends on what was drawn in here.
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(settings.seed)
        network, started = network_for(model, parts), None
        if one_of("start", start, STARTS) == "linear":
            network, started = with_start(network, parts, settings)
        check_fits(network, objective, parts, settings)
        notes = notes_on(objective, parts, settings)
        if on_event is not None:
            for note in notes:
                on_event(Note(note))
        return train(network, objective, settings, parts, ends, resume=resume, notes=notes, started=started)
