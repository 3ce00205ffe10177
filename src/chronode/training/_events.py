"""What a run tells while it goes on, where it is kept, and why it may stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .._checks import whole

if TYPE_CHECKING:
    from torch import Tensor

    from ._fitted import Fitted


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training series gave.

    Attributes:
        number: from 1.
        loss: mean over the training batches, while the weights changed.
        valid_loss: on the validation series.
        metrics: on the validation series.
        rate: the learning rate at the end.
        seconds: of training, without the validation.
    """

    number: int
    loss: float
    valid_loss: float
    metrics: dict[str, float] = field(default_factory=dict)
    rate: float = 0.0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class BatchDone:
    """A batch was learnt: in epoch `epoch` (from 1) `batch` of `batches` are done, `step` optimiser steps in all."""

    epoch: int
    batch: int
    batches: int
    step: int
    loss: float


@dataclass(frozen=True)
class EpochDone:
    """An epoch was learnt and measured; `best` says whether it is the best so far."""

    epoch: Epoch
    best: bool


@dataclass(frozen=True)
class Note:
    """Something about the data that the user should know."""

    text: str


Event = BatchDone | EpochDone | Note
"""What `on_event` of `fit` is called with."""


def paced(on_event: Callable[[Event], None], seconds: float = 0.2) -> Callable[[Event], None]:
    """Passes all events on, but batches only if the last one was some time ago: for events that go a long way.

    Example:
        >>> seen = []
        >>> tell = paced(seen.append, seconds=1000)
        >>> for batch in range(3):
        ...     tell(BatchDone(1, batch + 1, 3, batch + 1, 0.5))
        >>> tell(Note("done"))
        >>> [type(event).__name__ for event in seen]
        ['BatchDone', 'Note']
    """
    last = -math.inf

    def tell(event: Event) -> None:
        nonlocal last
        now = time.monotonic()
        if not isinstance(event, BatchDone) or now - last > seconds:
            last = now if isinstance(event, BatchDone) else last
            on_event(event)

    return tell


@dataclass(frozen=True)
class SavedPlateau:
    """The state of a `Schedule`: how often the rate fell, and the epochs since something better came."""

    drops: int
    waited: int


@dataclass(frozen=True)
class SavedFacts:
    """The facts of a checkpoint: all but the tensors that the rest of a run depends on."""

    epoch: int
    batch: int
    step: int
    best_epoch: int
    best_value: float | None
    stopped: str | None
    schedule: SavedPlateau
    history: list[Epoch]
    seconds: float
    cpu_seconds: float
    epoch_seconds: float
    about: dict[str, Any] | None
    untrained_loss: float | None = None
    start: Epoch | None = None

    def __post_init__(self) -> None:
        for name in ("epoch", "batch", "step", "best_epoch"):
            whole(name, getattr(self, name), at_least=0)
        if len(self.history) != self.epoch or self.best_epoch > self.epoch:
            told = f"epoch {self.epoch}, best_epoch {self.best_epoch}, {len(self.history)} epochs in history"
            raise ValueError(f"epoch, best_epoch and history do not fit together: {told}.")


class Saves(Protocol):
    """Where a run is kept: `save` must write or copy the tensors before it returns."""

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Keeps the state of a run."""

    def latest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The last state kept; None if there is none."""


class Ends(NamedTuple):
    """What a run is connected to."""

    on_event: Callable[[Event], None] | None = None
    store: Saves | None = None
    save_seconds: float = 300.0
    about: dict[str, Any] | None = None


class Interrupted(Exception):
    """The user asked to stop; raised between two batches only, so that the state is whole."""


class TrainingStopped(ValueError):
    """Training cannot go on; the message says where, why and what to try.

    Attributes:
        fitted: the model with the best weights so far (before the first epoch's end: those before the fault).
    """

    fitted: Fitted | None = None


class Diverged(TrainingStopped):
    """The loss or a gradient is not finite, or the loss has exploded."""
