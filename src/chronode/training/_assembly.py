"""`assemble`: prepares a run from a task or series: series, objective and network, checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import Parts, Scaler, Sequences, concat, hold_out
from ..model import ModelSpec, SequenceModel, check_symbols, count_symbols
from ..model.start import StartFit
from ..settings import SettingError, SettingTypeError, named, number, one_of
from ..system import device_for
from ._calibration import calibrate
from ._crew import Helpers, WorkerLost
from ._events import Event, Hooks, Note, Saves
from ._objective import Objective, class_counts
from ._settings import STARTS, Settings
from ._start import add_start, check_share, joined, not_worse_than_naive, refit_start
from ._task import Task, find_task
from ._trained import Trained

_ATTEMPTS = 4
"""Times that a training on several devices is started if its processes are lost."""


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
        helpers: Helpers | None = None,
    ) -> Trained:
        """Trains; the arguments are those of `chronode.training.fit`, and who starts the processes of other devices."""
        if resume and store is None:
            raise ValueError("resume=True needs store=..., which holds the state of the run.")
        hooks = Hooks(on_event, store, 60 * number("save_minutes", save_minutes, at_least=0))
        share = self.settings.share
        with _own_random_numbers(self.settings.seed):
            torch.set_rng_state(self.random)
            if on_event is not None:
                for note in self.notes:
                    on_event(Note(note))
            options: dict[str, Any] = {"resume": resume, "notes": self.notes}
            if self.linear is not None and share is None:
                # Outputs of the linear start belong to certain series, not to those drawn again in every epoch.
                options["started"] = None if self.parts.fresh is not None else self.linear.held_out
                options["valid_started"] = self.linear.held_out_valid
            fitted = self._trained(hooks, helpers=helpers, **options)
        if self.linear is not None and share is not None and fitted.best_epoch:
            fitted = joined(fitted, self.parts, self.linear, share)
        fitted, linear = not_worse_than_naive(fitted, self.parts, self.linear, per_step=self.forecast)
        if on_event is not None:
            for note in fitted.notes[len(self.notes) :]:
                on_event(Note(note))
        if fitted.model.margins is not None and len(self.parts.valid):
            alone = None if linear is None or fitted.best_epoch or self.parts.fresh is not None else linear.held_out
            calibrate(fitted.model, self.parts, alone)
        if linear is not None and self._refits_start(fitted):
            refit_start(fitted.model, linear, self.parts, 1.0 if fitted.record.joined is None else 1.0 - (share or 0.0))
        return fitted

    def _trained(self, hooks: Hooks, **about: Any) -> Trained:
        """Trains; with several devices, again from the last checkpoint after a process was lost."""
        from ._runner import train

        arguments = (self.network, self.objective, self.settings, self.parts, hooks)
        if self.settings.devices == 1:
            return train(*arguments, **about)
        before = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return train(*arguments, **about)
            except WorkerLost as lost:
                if attempt == _ATTEMPTS:
                    raise
                if hooks.on_event is not None:
                    hooks.on_event(Note(f"{lost}; training continues from the last checkpoint."))
            self.network.load_state_dict(before)
            torch.set_rng_state(self.random)
            about["resume"] = hooks.store is not None
        raise AssertionError

    def _refits_start(self, fitted: Trained) -> bool:
        """Returns whether the linear start is fitted to the validation series too: that of a forecast, one that no
        epoch improved on, and one whose out-of-fold outputs the network was trained with.
        """
        if self.linear is None or self.settings.refit or not len(self.parts.valid) or fitted.record.baseline:
            return False
        if self.parts.train.is_stored:  # it was fitted to a sample
            return False
        out_of_fold = self.linear.held_out is not None and self.parts.fresh is None
        return self.linear.relative is not None or fitted.best_epoch == 0 or out_of_fold


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
    check_share(settings, start)
    if settings.epochs == 0 and start == "none" and not isinstance(model, SequenceModel) and not settings.refit:
        raise SettingError(
            f"{named('epochs', 0)} leaves the network untrained: use {named('start', 'linear')} for the linear model "
            f"alone, or at least {named('epochs', 1)}.",
            argument="epochs",
        )
    parts, usual = gather(data, settings.seed, valid=valid, scaler=scaler, protocol=protocol, options=options)
    spec = model.spec if isinstance(model, SequenceModel) else model if isinstance(model, ModelSpec) else None
    settings = completed(settings, parts, windows=spec is not None and spec.relative is not None)
    if settings.refit and parts.valid is not parts.train:
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


def completed(settings: Settings, parts: Parts, *, windows: bool = False) -> Settings:
    """Returns the settings with the defaults that suit the series; see `Settings.completed`."""
    held_out = 0 if windows or parts.valid is parts.train else len(parts.valid)
    return settings.completed(len(parts.train) + held_out, windows=windows)


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
    fitted = parts.scaler if task or isinstance(data, Sequences) else None
    usual = partial(Objective.for_task, task) if task else Objective.for_data
    return parts, partial(usual, parts.train, scaler=fitted)


@contextmanager
def _own_random_numbers(seed: int) -> Iterator[None]:
    """Nothing that the caller draws afterwards depends on what is drawn in the block."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


FEW_STEPS = 300
"""A note is shown for fewer optimizer steps, which are rarely enough."""
LONG = 200
"""Steps of a window that are suggested for longer series with a target at every step."""


def parts_of(
    data: str | Task | Parts | Sequences,
    valid: Sequences | None,
    scaler: Scaler | None,
    protocol: str,
    options: Mapping[str, Any],
    seed: int,
) -> tuple[Task | None, Parts]:
    """Returns the training and validation series, and their task."""
    task = find_task(data) if isinstance(data, str) else data if isinstance(data, Task) else None
    if not isinstance(data, Sequences):
        for name, given in (("valid", valid), ("scaler", scaler)):
            if given is not None:
                raise ValueError(f"{name} can only be given with your own series, not with a task.")
    elif protocol != "clean" or options:
        raise ValueError("protocol and options can only be given with a task, not with your own series.")
    if task is not None:
        return task, task.load(protocol, seed, **options)
    if isinstance(data, Parts):
        return None, data
    if not isinstance(data, Sequences):
        raise TypeError(f"data must be a task, its Parts or Sequences, got {type(data).__name__}.")
    train = data.labeled()
    if not len(train):
        raise ValueError("there is nothing to learn from: no series has a target.")
    if valid is None:
        train, valid = hold_out(train, seed=seed)
    valid = valid.labeled().with_classes(train.class_names)
    if not len(valid):
        raise ValueError("no validation series has a target, so the best epoch cannot be chosen.")
    return None, Parts(train, valid, valid, scaler)


def together(train: Sequences, valid: Sequences) -> Sequences:
    """Returns the training and validation series as one, ordered by id: however they were divided, the result is the
    same.

    Example:
        >>> from chronode.data import from_list
        >>> together(from_list([[1.0], [3.0]], ids=[1, 3]), from_list([[2.0]], ids=[2])).values[:, 0].tolist()
        [1.0, 2.0, 3.0]
    """
    whole = concat([train, valid])
    whole = whole[np.argsort(whole.ids, kind="stable")]
    steps, target = whole.steps, whole.target
    times = None if whole.base_times is None else whole.base_times[steps]
    if target is not None and target.per_step:
        target = target.take(steps)
    starts = np.cumsum(whole.lengths) - whole.lengths
    return replace(whole, base_values=whole.base_values[steps], base_times=times, starts=starts, target=target)


def network_for(model: str | ModelSpec | SequenceModel, parts: Parts, sizes: Mapping[str, Any]) -> SequenceModel:
    """Returns the model to train; a model given by name is built in these sizes for all parts of the data."""
    if isinstance(model, SequenceModel):
        return model
    if isinstance(model, str):
        model = spec_for(parts, model, **sizes)
    if not isinstance(model, ModelSpec):
        raise SettingTypeError(
            f"{named('model')} must be a name, a ModelSpec or a SequenceModel, got {type(model).__name__}.",
            argument="model",
        )
    return SequenceModel.build(model, parts.vectors)


def spec_for(parts: Parts, model: str, **settings: Any) -> ModelSpec:
    """Returns the spec of a model that fits all parts of the data; `settings` are those of `ModelSpec.for_data`.

    Example:
        >>> from chronode.lab.tasks import tasks
        >>> parts = tasks()["bitstream"].load(train=4, valid=4, test=4)
        >>> spec_for(parts, "gru", hidden_size=8).num_outputs
        2
    """
    every = (parts.train, parts.valid, parts.test)
    fields: dict[str, Any] = {"missing": any(part.has_missing for part in every)}
    if parts.train.base_values.dtype.kind != "f":
        fields["symbols"] = max(count_symbols(part) for part in every)
    if parts.vectors is not None:
        fields["embedding_size"] = parts.vectors.shape[1]
    return ModelSpec.for_data(parts.train, model, **{**fields, **settings})


def check_fits(network: SequenceModel, goal: Objective, parts: Parts, settings: Settings) -> None:
    """Checks that model, target, settings and machine match, before training starts."""
    device_for(settings.accelerator)
    outputs = network.head.out_features
    if outputs != goal.num_outputs:
        what = {"class": "classes", "value": "values", "several": "outputs"}[goal.kind]
        raise ValueError(f"the model has num_outputs={outputs}, but the target has {goal.num_outputs} {what}.")
    wanted = "all" if goal.per_step else "last"
    if network.per_step != goal.per_step:
        what = "every step" if goal.per_step else "the whole series"
        cure = f"build the model with {named('per_step', goal.per_step)} and its layer with outputs={wanted!r}"
        raise ValueError(f"the target belongs to {what}: {cure}.")
    channels = network.layer.input_size if network.embedding is None else 1
    if channels != parts.train.num_channels:
        raise ValueError(f"the model has input_size={channels}, but the data have {parts.train.num_channels} channels.")
    static = 0 if network.modulation is None else network.modulation.in_features
    if static != parts.train.num_static:
        raise SettingError(
            f"the model has {named('static', static)}, but the data have {parts.train.num_static} static values.",
            argument="static",
        )
    if settings.tbptt and network.pool != "last":
        raise ValueError(f"tbptt cannot train a model with pool={network.pool!r}: omit pool or tbptt.")
    if network.others and settings.tbptt:
        raise SettingError(
            f"an ensemble cannot be trained with {named('tbptt')}: omit {named('ensemble', ...)} or {named('tbptt')}.",
            argument="ensemble",
        )
    if settings.tbptt and static:
        raise SettingError(
            f"{named('tbptt')} cannot train a model with static values: omit "
            f"{named('static', ...)} or {named('tbptt')}.",
            argument="tbptt",
        )
    if settings.jitter and (network.embedding is not None or network.relative is not None):
        what = "symbols" if network.embedding is not None else "forecasts, whose targets it would not change"
        raise SettingError(f"{named('jitter')} cannot be used with {what}: omit it.", argument="jitter")
    if settings.shift and goal.per_step:
        raise SettingError(
            f"{named('shift')} cannot be used with a target at every step, which it would not move: omit it.",
            argument="shift",
        )
    if parts.valid.channels != parts.train.channels:
        names = f"{', '.join(parts.train.channels)} in training, {', '.join(parts.valid.channels)} in validation"
        raise ValueError(f"the channels differ: {names}.")
    check_symbols(network, parts.train)
    check_symbols(network, parts.valid)
    if not network.layer.missing and (parts.train.has_missing or parts.valid.has_missing):
        raise SettingError(
            f"values are missing in these series: build the model with {named('missing', True)}.", argument="missing"
        )
    if settings.tbptt and not goal.per_step and (network.start is not None or network.relative is not None):
        raise SettingError(
            f"{named('tbptt')} cannot train a model with a linear start, which sees whole series: use "
            f"{named('start', 'none')}.",
            argument="start",
        )
    if settings.tbptt and network.layer.bidirectional:
        raise ValueError("tbptt does not support a bidirectional layer, which needs the whole series at once.")


def notes_on(goal: Objective, parts: Parts, settings: Settings) -> tuple[str, ...]:
    """Returns remarks about the data and the settings for the user."""
    return (*_absent_classes(goal, parts, settings), *_few_steps(parts, settings))


def optimizer_steps(parts: Parts, settings: Settings) -> int:
    """Returns the number of optimizer steps of a run that does not stop early.

    Example:
        >>> from chronode.lab.tasks import tasks
        >>> parts = tasks()["bitstream"].load(train=130, valid=4, test=4)
        >>> [optimizer_steps(parts, Settings(epochs=10, batch_size=64, steps=steps)) for steps in (None, 7)]
        [30, 7]
    """
    per_epoch = -(-len(parts.train) // settings.batch)
    if settings.tbptt:
        per_epoch *= -(-int(parts.train.lengths.max()) // settings.tbptt)
    steps = settings.epochs * per_epoch
    return steps if settings.steps is None else min(steps, settings.steps)


def _few_steps(parts: Parts, settings: Settings) -> tuple[str, ...]:
    steps = optimizer_steps(parts, settings)
    # With a refit, the number of epochs was chosen by cross-validation; without epochs, there is no network to train.
    if steps >= FEW_STEPS or settings.refit or not settings.epochs:
        return ()
    cures = ["more epochs"]
    if settings.batch > 1 and len(parts.train) > 1:
        cures.append(f"a smaller {named('batch_size')}")
    if parts.train.target is not None and parts.train.target.per_step and parts.train.lengths.max() > LONG:
        cures.append(f"windows of the series ({named('window', LONG)})")
    counted = f"{steps} optimizer step{'s' if steps != 1 else ''}"
    return (f"this training takes {counted}; most models need several hundred: use {', or '.join(cures)}.",)


def _absent_classes(goal: Objective, parts: Parts, settings: Settings) -> tuple[str, ...]:
    if goal.heads:
        series = zip(*(part.by_target for part in (parts.train, parts.valid, parts.test)), strict=True)
        pairs = zip(goal.parts, series, strict=True)
        each = [(part, replace(parts, train=one[0], valid=one[1], test=one[2])) for part, one in pairs]
        return tuple(note for part, own in each for note in _absent_classes(part, own, settings))
    if goal.classes is None:
        return ()
    notes = []
    for part, series, effect in (
        ("training", parts.train, "the model cannot learn it"),
        ("validation", None if settings.refit else parts.valid, "the choice of the best epoch does not depend on it"),
        ("test", None if parts.test is parts.valid else parts.test, "the metrics say nothing about it"),
    ):
        if series is None or not len(series) or series.classes != goal.classes:
            continue
        counts = class_counts(series).tolist()
        gone = [name for name, count in zip(goal.classes, counts, strict=True) if not count]
        if gone:
            shown = ", ".join(map(repr, gone[:5])) + (", ..." if len(gone) > 5 else "")
            notes.append(f"no {part} series has the class {shown}: {effect}.")
    return tuple(notes)
