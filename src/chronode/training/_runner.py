"""A training run from start to end: the loop over epochs, threads, Ctrl-C, and error messages."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import MISSING, fields, replace
from typing import Any

import torch
from torch import Tensor

from .. import compiler
from ..data import Parts, Sequences
from ..model import ModelSpec, SequenceModel
from ..storage import parse
from ..system import device_for, flushed, patient, threads
from ._crew import Crew, Helpers, device_of, leading
from ._events import Hooks, Interrupted, Note, SavedFacts, TrainingStopped, restore, under
from ._loaders import Place, TrainingBatches
from ._loop import Training
from ._objective import Objective
from ._schedule import make_optimizer, notes_on_setbacks, out_of_memory
from ._settings import MAY_CHANGE, Settings
from ._trained import Record, Trained

# Settings that a resumed run may change: they affect when or where it trains, not the result up to that point.
# A rule of thumb: with fewer multiplications per batch, a second thread mostly waits.
_SMALL_WORK = 5e7
_NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory")


def train(
    network: SequenceModel,
    objective: Objective,
    settings: Settings,
    parts: Parts,
    hooks: Hooks,
    *,
    resume: bool,
    notes: tuple[str, ...],
    started: Tensor | None = None,
    valid_started: Tensor | None = None,
    helpers: Helpers | None = None,
) -> Trained:
    """Trains `network` in place; see `fit`. `started` are outputs of the linear start for the training series, and
    `valid_started` for the validation series, by default its own. `helpers` starts the processes of other devices.
    """
    batches = TrainingBatches(parts, settings, Place())
    saved = hooks.store.latest() if resume and hooks.store is not None else None
    compiled = _compiles(network, settings, parts.train, hooks) if saved is None else _compiled_before(saved[1])
    hooks = hooks._replace(about=_about(network, settings, parts.train) | ({"compiled": True} if compiled else {}))
    facts = None if saved is None else _facts(hooks, saved[1])
    if saved is not None:
        network = network.with_settings_of(under("model", saved[0]))
    compiler.use(network, compiled if settings.accelerator == "cpu" else None)  # a GPU's kernels are not built
    run = Training(network, objective, settings, batches, parts.valid, hooks, started, valid_started)
    if saved is not None and facts is not None:
        _restore(run, saved[0], facts)
    try:
        if not settings.epochs and not settings.refit:
            run.measure_untrained()
        if run.place.batch or run.decide() is None:
            count = _wanted_threads(settings, network, parts.train)
            with threads(count), patient(), flushed(), _stops_when_asked(run):
                _learn(run, helpers, saved)
    except Interrupted:
        run.stopped = "interrupted"
        run.save()
    except TrainingStopped as error:
        error.fitted = _trained(run, notes)
        raise
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(phrase in str(error).lower() for phrase in _NO_MEMORY):
            raise
        fault = out_of_memory(run)
        fault.fitted = _trained(run, notes)
        raise fault from error
    finally:
        if not compiled:
            compiler.use(network, None)  # decided for the work of this training, not for that to come
    return _trained(run, notes)


def _learn(run: Training, helpers: Helpers | None, saved: Any) -> None:
    """Trains on one device, or on several together with other processes, which begin with the same state."""
    device, size = device_for(run.settings.accelerator), run.settings.devices
    if size == 1:
        return _loop(run, device, Crew())
    from ._local_helpers import LocalHelpers

    parts = replace(run.batches.parts, test=run.batches.parts.train[:0])
    work = (run.model, run.objective, run.settings, parts, saved, run.started)
    with leading(helpers or LocalHelpers(), size, work, device) as crew:
        _loop(run, device_of(device, 0), crew)


def train_along(
    network: SequenceModel,
    objective: Objective,
    settings: Settings,
    parts: Parts,
    saved: tuple[dict[str, Tensor], dict[str, Any]] | None,
    started: Tensor | None,
    *,
    crew: Crew,
    device: torch.device,
) -> None:
    """Trains in a process that another has started: its share of every batch, without saving and validating."""
    nothing = torch.zeros(0)  # in place of outputs for the validation part
    batches = TrainingBatches(parts, settings, Place())
    run = Training(network, objective, settings, batches, parts.valid[:0], Hooks(), started, nothing)
    if saved is not None:
        restore(run, saved[0], parse(SavedFacts, saved[1], "checkpoint"))
    with threads(_wanted_threads(settings, network, parts.train)), flushed():
        _loop(run, device, crew)


def _loop(run: Training, device: torch.device, crew: Crew) -> None:
    """Trains on a device until the run is over."""
    settings = run.settings
    run.model.to(device).train()
    if run.averaged is not None:
        run.averaged.to(device)
    run.begin(make_optimizer(run.model, settings), device, crew)
    bf16 = settings.precision == "bf16"
    over = False
    while not over:
        for batch in run.batches:
            with torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext():
                run.step(batch)
        over = run.end_epoch()


def _trained(run: Training, notes: tuple[str, ...]) -> Trained:
    if run.best:
        run.model.load_state_dict(run.best)
    run.model.zero_grad(set_to_none=True)
    record = Record(
        history=tuple(run.history),
        best_epoch=run.best_epoch,
        stopped=run.stopped or "fault",
        seconds=run.seconds,
        cpu_seconds=run.cpu_seconds,
        steps=run.place.step,
        notes=(*notes, *notes_on_setbacks(run)),
        start=run.start,
        chance=None if run.start is None else run.chance,
        settings=run.settings,
    )
    return Trained(run.model.eval(), run.objective, record=record)


# ---- compiling ---------------------------------------------------------------------------------------------


def _compiles(network: SequenceModel, settings: Settings, train: Sequences, hooks: Hooks) -> bool:
    """Decides whether the cells run compiled, once before the first batch, because rounding depends on it."""
    if settings.accelerator != "cpu" or settings.devices > 1 or settings.precision != "32":
        return False
    batches = -(-len(train) // settings.batch) * settings.epochs
    batches = batches if settings.steps is None else min(batches, settings.steps)
    decision = compiler.plan(network, steps=int(batches * float(train.lengths.mean())))
    if (decision.compiled or decision.failed) and hooks.on_event is not None:
        hooks.on_event(Note(f"{network.layer.cell_class.__name__}: {decision.text}."))
    return decision.compiled


def _compiled_before(facts: dict[str, Any]) -> bool:
    """Returns whether a resumed run was started with compiled cells."""
    settings = facts.get("about")
    return isinstance(settings, dict) and settings.get("compiled") is True


# ---- resuming ----------------------------------------------------------------------------------------------


def _about(network: SequenceModel, settings: Settings, train: Sequences) -> dict[str, Any]:
    """Returns everything that must be unchanged when a run resumes."""
    facts: dict[str, Any] = {name: value for name, value in settings.as_dict().items() if name not in MAY_CHANGE}
    facts |= {f"model {k}": v for k, v in (network.spec.as_dict() if network.spec else {}).items()}
    facts |= {"training series": len(train), "training steps": int(train.lengths.sum())}
    return json.loads(json.dumps(facts, default=str))  # tuples become lists, as in a saved run


def _facts(hooks: Hooks, saved: dict[str, Any]) -> SavedFacts:
    """Parses the data of a checkpoint; rejects those of another run and damaged ones."""
    facts: SavedFacts = parse(SavedFacts, saved, f"{_place(hooks)}: checkpoint")
    _check_same(facts.about or {}, hooks.about)
    return facts


def _restore(run: Training, tensors: dict[str, Tensor], facts: SavedFacts) -> None:
    """Restores a saved state whose tensors must match the model."""
    try:
        restore(run, tensors, facts)
    except (KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{_place(run.hooks)}: the checkpoint does not match the model: {reason}") from error


def _place(hooks: Hooks) -> str:
    return str(getattr(hooks.store, "folder", "the saved run"))


def _check_same(there: dict[str, Any], here: dict[str, Any] | None) -> None:
    here = here or {}
    spec = {f"model {field.name}": field.default for field in fields(ModelSpec) if field.default is not MISSING}
    defaults = json.loads(json.dumps(Settings().completed(0).as_dict() | spec))  # tuples become lists
    before = defaults | there  # a setting that did not exist then had the effect of its default
    differing = [name for name in {**there, **here} if before.get(name) != here.get(name)]
    if differing:
        changes = "; ".join(f"{name}: saved {there.get(name)!r}, now {here.get(name)!r}" for name in differing)
        raise ValueError(
            f"the saved run has different settings ({changes}); use its settings, or start a new run without resume."
        )


# ---- around the run ----------------------------------------------------------------------------------------


def _wanted_threads(settings: Settings, network: SequenceModel, train: Sequences) -> int | None:
    """Returns the number of threads for this run; None for the usual one."""
    width = network.layer.hidden_size**2 * network.layer.num_layers
    work = settings.batch * float(train.lengths.mean()) * width
    usual = None if settings.devices == 1 else max(1, torch.get_num_threads() // settings.devices)
    return settings.threads or (1 if work < _SMALL_WORK else usual)


@contextmanager
def _stops_when_asked(run: Training) -> Iterator[None]:
    """Stops the run after the current batch on the first Ctrl-C (or SIGTERM); a second one has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: object) -> None:
        run.stop_wanted = True
        restore()

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        restore()
