"""`assemble`: prepares a run from a task or series: series, objective and network, checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..data import Parts, Scaler, Sequences
from ..model import ModelSpec, SequenceModel
from ..model.start import StartFit
from ..settings import number, one_of
from ._calibration import calibrate
from ._events import Event, Hooks, Note, Saves
from ._fallback import not_worse_than_naive
from ._inputs import check_fits, network_for, notes_on, parts_of, together
from ._objective import Objective
from ._settings import STARTS, Settings
from ._start import add_start, refit_start
from ._task import Task
from ._trained import Trained


@dataclass(frozen=True)
class Assembly:
    """A run that is ready to start.

    Attributes:
        parts: Training, validation and test series.
        objective: Objective of the training.
        network: Network to train; it is trained in place, so an assembly is used once.
        settings: Training settings.
        notes: Remarks on the data and the settings for the user.
        linear: The linear start, as it was fitted; None for a network alone.
        random: State of the random numbers after initializing the network, used by the training loop.
        forecast: Whether the target continues channels: it is then never forecast worse than by the last value.
    """

    parts: Parts
    objective: Objective
    network: SequenceModel
    settings: Settings
    notes: tuple[str, ...]
    linear: StartFit | None
    random: Tensor
    forecast: bool = False

    def fit(
        self,
        *,
        on_event: Callable[[Event], None] | None = None,
        store: Saves | None = None,
        resume: bool = False,
        save_minutes: float = 5.0,
    ) -> Trained:
        """Trains; the arguments are those of `chronode.training.fit`."""
        from ._runner import train

        if resume and store is None:
            raise ValueError("resume=True needs store=..., which holds the state of the run.")
        hooks = Hooks(on_event, store, 60 * number("save_minutes", save_minutes, at_least=0))
        with _own_random_numbers(self.settings.seed):
            torch.set_rng_state(self.random)
            if on_event is not None:
                for note in self.notes:
                    on_event(Note(note))
            # Outputs of the linear start belong to certain series, not to those drawn again in every epoch.
            held_out = None if self.linear is None or self.parts.fresh is not None else self.linear.held_out
            about = {"resume": resume, "notes": self.notes, "started": held_out}
            fitted = train(self.network, self.objective, self.settings, self.parts, hooks, **about)
        fitted, linear = not_worse_than_naive(fitted, self.parts, self.linear, per_step=self.forecast)
        if on_event is not None:
            for note in fitted.notes[len(self.notes) :]:
                on_event(Note(note))
        if fitted.model.margins is not None and len(self.parts.valid):
            alone = None if linear is None or fitted.best_epoch or self.parts.fresh is not None else linear.held_out
            calibrate(fitted.model, self.parts, alone)
        if linear is not None and self._refits_start(fitted):
            refit_start(fitted.model, linear, self.parts)
        return fitted

    def _refits_start(self, fitted: Trained) -> bool:
        """Returns whether the linear start is fitted to the validation series too: that of a forecast, and one that no
        epoch improved on, which is a linear model and no more.
        """
        if self.linear is None or self.settings.refit or not len(self.parts.valid) or fitted.record.baseline:
            return False
        return self.linear.relative is not None or fitted.best_epoch == 0


def assemble(
    data: str | Task | Parts | Sequences,
    model: str | ModelSpec | SequenceModel = "mmrnn",
    settings: Settings | None = None,
    *,
    network: Mapping[str, Any] | None = None,
    start: str | StartFit = "none",
    valid: Sequences | None = None,
    objective: Objective | None = None,
    scaler: Scaler | None = None,
    protocol: str = "clean",
    options: Mapping[str, Any] | None = None,
    forecast: bool | None = None,
) -> Assembly:
    """Loads the series, builds the network and checks that they fit each other; nothing is trained yet.

    The arguments are those of `chronode.training.fit`; `network` has the sizes and settings of a model that is given by
    its name, as for `ModelSpec.for_data`, and `start` may be a linear model that was fitted to these series before.
    `forecast` tells whether a target at every step is a forecast; by default if it is one of your own series.

    Example:
        >>> few = {"train": 64, "valid": 16, "test": 16}
        >>> assembly = assemble("bitstream", "gru", Settings(epochs=1), network={"hidden_size": 4}, options=few)
        >>> fitted = assembly.fit()
        >>> fitted.model is assembly.network, sorted(fitted.evaluate(assembly.parts.test))
        (True, ['accuracy', 'loss'])
    """
    settings = settings or Settings()
    if isinstance(start, str):
        one_of("start", start, STARTS)
    parts, usual = gather(data, settings.seed, valid=valid, scaler=scaler, protocol=protocol, options=options)
    if settings.refit:
        parts = replace(parts, train=together(parts.train, parts.valid))
    goal = (objective or usual()).with_settings(settings.metric, settings.class_weights, parts.train)
    if goal.scaler is None and parts.scaler is not None:  # predictions have the units of the target, metrics do not
        goal = replace(goal, scaler=parts.scaler, own_units=False)
    with _own_random_numbers(settings.seed):
        built = network_for(model, parts, network or {})
        linear = None if start == "none" else add_start(built, parts, settings, start)
        if linear is None and built.relative is not None and not isinstance(model, SequenceModel):
            built.relative.fit_floor(parts.train)
        check_fits(built, goal, parts, settings)
        notes = (*notes_on(goal, parts, settings), *([linear.note] if linear is not None and linear.note else []))
        forecast = isinstance(data, Sequences) if forecast is None else forecast
        return Assembly(parts, goal, built, settings, notes, linear, torch.get_rng_state(), forecast)


def gather(
    data: str | Task | Parts | Sequences,
    seed: int,
    *,
    valid: Sequences | None = None,
    scaler: Scaler | None = None,
    protocol: str = "clean",
    options: Mapping[str, Any] | None = None,
) -> tuple[Parts, Callable[[], Objective]]:
    """Returns the series, and what makes their usual objective: that of the task, or of the kind of target."""
    task, parts = parts_of(data, valid, scaler, protocol, options or {}, seed)
    own = parts.scaler if task or isinstance(data, Sequences) else None
    usual = partial(Objective.for_task, task) if task else Objective.for_data
    return parts, partial(usual, parts.train, scaler=own)


@contextmanager
def _own_random_numbers(seed: int) -> Iterator[None]:
    """Nothing that the caller draws afterwards depends on what is drawn in the block."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
