"""Inputs of `fit`: series and a model, converted to one form and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import Parts, Scaler, Sequences, concat, hold_out
from ..model import ModelSpec, SequenceModel, check_symbols, count_symbols
from ..settings import SettingError, SettingTypeError, named
from ..system import device_for
from ._objective import Objective, class_counts
from ._settings import Settings
from ._task import Task, find_task

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
    valid = valid.labeled().with_classes(train.classes)
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
        what = "classes" if goal.kind == "class" else "values"
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
    if settings.tbptt and static:
        raise SettingError(
            f"{named('tbptt')} cannot train a model with static values: omit "
            f"{named('static', ...)} or {named('tbptt')}.",
            argument="tbptt",
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
        >>> optimizer_steps(parts, Settings(epochs=10, batch_size=64)), optimizer_steps(parts, Settings(steps=7))
        (30, 7)
    """
    per_epoch = -(-len(parts.train) // settings.batch_size)
    if settings.tbptt:
        per_epoch *= -(-int(parts.train.lengths.max()) // settings.tbptt)
    steps = settings.epochs * per_epoch
    return steps if settings.steps is None else min(steps, settings.steps)


def _few_steps(parts: Parts, settings: Settings) -> tuple[str, ...]:
    steps = optimizer_steps(parts, settings)
    if steps >= FEW_STEPS or settings.refit:  # then the number of epochs was chosen by cross-validation
        return ()
    cures = ["more epochs"]
    if settings.batch_size > 1 and len(parts.train) > 1:
        cures.append(f"a smaller {named('batch_size')}")
    if parts.train.target is not None and parts.train.target.per_step and parts.train.lengths.max() > LONG:
        cures.append(f"windows of the series ({named('window', LONG)})")
    counted = f"{steps} optimizer step{'s' if steps != 1 else ''}"
    return (f"this training takes {counted}; most models need several hundred: use {', or '.join(cures)}.",)


def _absent_classes(goal: Objective, parts: Parts, settings: Settings) -> tuple[str, ...]:
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
