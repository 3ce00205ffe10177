"""Why a training cannot go on, with the place and what to try."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..data import Batch
from ._events import Diverged, TrainingStopped
from ._settings import Settings

if TYPE_CHECKING:
    from ._module import Training

EXPLODED = 1e4
"""A validation loss this many times the one before training is an explosion; no run comes back from there."""

LOOK_EVERY = 20
"""Batches, on a GPU, between two looks at the loss: each waits until the device is done."""


def not_finite(run: Training, loss: Tensor, batch: Batch) -> Diverged:
    """The loss or a gradient of a batch is not finite."""
    ids = [str(run.batches.data.ids[row]) for row in batch.rows[:5].tolist()]
    more = f", ... ({len(batch.rows)} in all)" if len(batch.rows) > 5 else ""
    gap = 1.0 if batch.dt is None else float(batch.dt.max())
    what = "the loss" if not torch.isfinite(loss) else "a gradient"
    place = f"epoch {run.place.epoch + 1}, batch {run.place.batch + 1}, step {run.place.step + 1}"
    if run.device.type == "cpu":
        where = f"{place} (series {', '.join(ids)}{more}); the weights before it are kept"
    else:
        where = f"{place}, or in the {LOOK_EVERY - 1} batches before it"
    return Diverged(
        f"{what} is not finite at {where}. "
        f"Try a lower learning_rate than {run.settings.learning_rate:g}, {_clip(run.settings)}, warmup_epochs=1, or "
        f"look for extreme values in these series (scale the channels, and dt: the longest gap here is {gap:g})."
    )


def exploded(loss: float, untrained: float | None) -> bool:
    """Whether a validation loss is not finite, or far larger than that of the untrained model."""
    if untrained is None or not math.isfinite(untrained):
        return False
    return not loss <= EXPLODED * max(untrained, 0.01)


def explosion(run: Training, loss: float) -> Diverged:
    """The validation loss has exploded."""
    rate = run.settings.learning_rate
    return Diverged(
        f"the loss has exploded: {loss:.2g} on the validation part after epoch {run.place.epoch}, "
        f"{run.untrained_loss:.2g} before training; the weights of epoch {run.best_epoch} are kept. "
        f"learning_rate={rate:g} is probably too high: try {rate / 100:g}, {_clip(run.settings)} or warmup_epochs=1."
    )


def out_of_memory(run: Training) -> TrainingStopped:
    """A batch does not fit into the memory."""
    s = run.settings
    cures = [f"batch_size={max(1, s.batch_size // 2)} (it is {s.batch_size})"] if s.batch_size > 1 else []
    if run.model.layer.memory != "low":
        cures.append('memory="low" in the model\'s settings (slower, recomputes instead of keeping)')
    if not s.tbptt:
        cures.append("tbptt=100 for long series")
    place = f"epoch {run.place.epoch + 1}, batch {run.place.batch + 1}"
    return TrainingStopped(f"out of memory at {place}: try {', or '.join(cures)}.")


def _clip(settings: Settings) -> str:
    return "a smaller clip" if settings.clip else "clip=1.0"
