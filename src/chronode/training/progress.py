"""What a run tells while it goes on, and why it may stop."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fitted import Fitted


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


class TrainingStopped(ValueError):
    """Training cannot go on; the message says where, why and what to try.

    Attributes:
        fitted: the model with the best weights so far (before the first epoch's end: those before the fault).
    """

    fitted: Fitted | None = None
