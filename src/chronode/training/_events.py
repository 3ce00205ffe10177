"""Events of a training, and its complete state as tensors and plain data, which a checkpoint holds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor
from torch.optim import Optimizer

from ..settings import whole

if TYPE_CHECKING:
    from torch import Tensor

    from ._loop import Training
    from ._trained import Trained


@dataclass(frozen=True)
class Epoch:
    """Results of one pass over the training series.

    Attributes:
        number: Number of the epoch, from 1.
        loss: Mean loss over the training batches, while the weights changed.
        valid_loss: Loss on the validation series.
        metrics: Metrics on the validation series.
        rate: Learning rate at the end of the epoch.
        seconds: Training time without validation.
    """

    number: int
    loss: float
    valid_loss: float
    metrics: dict[str, float] = field(default_factory=dict)
    rate: float = 0.0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the epoch as plain data for JSON."""
        return asdict(self)

    def as_row(self) -> dict[str, Any]:
        """Returns the numbers as a line of metrics.jsonl."""
        numbers = {"epoch": self.number, "loss": self.loss, "valid_loss": self.valid_loss, **self.metrics}
        return {**numbers, "rate": self.rate, "seconds": self.seconds}


@dataclass(frozen=True)
class BatchDone:
    """A batch is done: `batch` of `batches` in epoch `epoch` (from 1), `step` optimizer steps in total."""

    epoch: int
    batch: int
    batches: int
    step: int
    loss: float

    @property
    def epochs_done(self) -> float:
        """Number of epochs that are done, with the fraction of this one."""
        return self.epoch - 1 + self.batch / self.batches


@dataclass(frozen=True)
class EpochDone:
    """An epoch is trained and validated; `best` tells whether it is the best so far."""

    epoch: Epoch
    best: bool

    def line(self, epochs: int) -> str:
        """Returns all numbers in one line; `epochs` is the maximum number of epochs."""
        epoch = self.epoch
        numbers = {"loss": epoch.loss, "valid loss": epoch.valid_loss, **epoch.metrics}
        scores = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        return f"epoch {epoch.number}/{epochs}  {scores}{'  (best)' if self.best else ''}"


@dataclass(frozen=True)
class Note:
    """Remark about the data for the user."""

    text: str


Event = BatchDone | EpochDone | Note
"""The argument of `on_event` of `fit`."""

Listener = Callable[[Event], None]
"""The type of `on_event`."""


def paced(on_event: Callable[[Event], None], seconds: float = 0.2) -> Callable[[Event], None]:
    """Passes all events on, but batches only if the last one was some time ago: for events that go a long way.

    Example:
        >>> seen = []
        >>> listen = paced(seen.append, seconds=1000)
        >>> for batch in range(3):
        ...     listen(BatchDone(1, batch + 1, 3, batch + 1, 0.5))
        >>> listen(Note("done"))
        >>> [type(event).__name__ for event in seen]
        ['BatchDone', 'Note']
    """
    last = -math.inf

    def listen(event: Event) -> None:
        nonlocal last
        now = time.monotonic()
        if not isinstance(event, BatchDone) or now - last > seconds:
            last = now if isinstance(event, BatchDone) else last
            on_event(event)

    return listen


@dataclass(frozen=True)
class SavedPlateau:
    """State of a `Schedule`: the number of drops of the rate, the epochs since the last improvement, and how often the
    run was set back.
    """

    drops: int
    waited: int
    setbacks: int = 0


@dataclass(frozen=True)
class SavedFacts:
    """Everything in a checkpoint that the rest of a run depends on, except the tensors."""

    epoch: int
    batch: int
    step: int
    best_epoch: int
    best_value: float | None
    stopped: str | None
    schedule: SavedPlateau
    history: list[Epoch]
    seconds: float
    epoch_seconds: float
    about: dict[str, Any] | None
    cpu_seconds: float = 0.0
    untrained_loss: float | None = None
    start: Epoch | None = None

    def __post_init__(self) -> None:
        for name in ("epoch", "batch", "step", "best_epoch"):
            whole(name, getattr(self, name), at_least=0)
        if len(self.history) != self.epoch or self.best_epoch > self.epoch:
            values = f"epoch {self.epoch}, best_epoch {self.best_epoch}, {len(self.history)} epochs in history"
            raise ValueError(f"epoch, best_epoch and history do not match: {values}.")


class Saves(Protocol):
    """Storage of the state of a run: `save` must write or copy the tensors before it returns."""

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Stores the state of a run."""

    def latest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Returns the last stored state; None if there is none."""


class Hooks(NamedTuple):
    """Callbacks and storage of a run."""

    on_event: Callable[[Event], None] | None = None
    store: Saves | None = None
    save_seconds: float = 300.0
    about: dict[str, Any] | None = None


class Interrupted(Exception):
    """The user asked to stop; only raised between two batches, so that the state is consistent."""


class TrainingStopped(ValueError):
    """Training cannot continue; the message contains the place, the cause and advice.

    Attributes:
        fitted: The model with the best weights so far (before the end of the first epoch: those before the error).
    """

    fitted: Trained | None = None


class Diverged(TrainingStopped):
    """The loss or a gradient is not finite, or the loss has exploded."""


def state_of(run: Training) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns everything the rest of the run depends on: tensors by name, and plain data for JSON."""
    tensors = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
    if run.averaged is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in run.averaged.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in run.best.items()}
    for index, parts in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": part for name, part in parts.items() if part is not None}
    tensors["sums"] = run.sums
    facts = {name: getattr(run.place, name) for name in ("epoch", "batch", "step")}
    facts |= {name: getattr(run, name) for name in ("best_epoch", "best_value", "stopped", "untrained_loss")}
    if run.start is not None:
        facts["start"] = run.start.as_dict()
    facts |= {"schedule": run.schedule.facts(), "history": [epoch.as_dict() for epoch in run.history]}
    facts |= {name: getattr(run, name) for name in ("seconds", "cpu_seconds", "epoch_seconds")}
    facts |= {"about": run.hooks.about}
    return tensors, facts


def restore(run: Training, tensors: dict[str, Tensor], facts: SavedFacts) -> None:
    """Resumes from the result of `state_of`; must be called before `Training.begin`."""
    run.model.load_state_dict(under("model", tensors))
    if run.averaged is not None:
        run.averaged.load_state_dict(under("average", tensors))
    run.best = under("best", tensors)
    run.sums.copy_(tensors["sums"])
    for name in ("epoch", "batch", "step"):
        setattr(run.place, name, getattr(facts, name))
    for name in ("best_epoch", "best_value", "stopped", "seconds", "cpu_seconds", "epoch_seconds", "history"):
        setattr(run, name, getattr(facts, name))
    run.untrained_loss, run.start = facts.untrained_loss, facts.start
    run.schedule.restore(asdict(facts.schedule))
    run.pending = under("optimizer", tensors)


def restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Gives an optimizer the state in the tensors named optimizer.INDEX.NAME, without the first part of the names."""
    parts: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, part = name.split(".", 1)
        parts.setdefault(int(index), {})[part] = tensor
    optimizer.load_state_dict({"state": parts, "param_groups": optimizer.state_dict()["param_groups"]})


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors whose names begin with `prefix` and a dot, without the prefix."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}
