"""Error messages of training, with the place and advice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..data import Batch
from ..settings import named
from ._events import Diverged, TrainingStopped
from ._settings import Settings

if TYPE_CHECKING:
    from ._loop import Training

EXPLODED = 1e4
"""A validation loss of this many times the initial one counts as an explosion; no run recovers from it."""

LOOK_EVERY = 20
"""Batches between two checks of the loss on a GPU: each check waits for the device."""


def not_finite(run: Training, loss: Tensor, batch: Batch) -> Diverged:
    """Returns the error for a batch whose loss or gradient is not finite."""
    ids = [str(run.batches.data.ids[row]) for row in batch.rows[:5].tolist()]
    more = f", ... ({len(batch.rows)} in all)" if len(batch.rows) > 5 else ""
    gap = 1.0 if batch.dt is None else float(batch.dt.max())
    what = "the loss" if not torch.isfinite(loss) else "a gradient"
    place = f"epoch {run.place.epoch + 1}, batch {run.place.batch + 1}, step {run.place.step + 1}"
    if run.device.type == "cpu":
        where = f"{place} (series {', '.join(ids)}{more}); the previous weights are kept"
    else:
        where = f"{place}, or in the previous {LOOK_EVERY - 1} batches"
    return Diverged(
        f"{what} is not finite at {where}. "
        f"Try a {named('learning_rate')} below {run.settings.learning_rate:g}, {_clip(run.settings)}, "
        f"{named('warmup_epochs', 1)}, or "
        f"look for extreme values in these series (scale the channels, and dt: the longest gap here is {gap:g})."
    )


def exploded(loss: float, untrained: float | None) -> bool:
    """Returns whether a validation loss is not finite, or far larger than that of the untrained model."""
    if untrained is None or not math.isfinite(untrained):
        return False
    return not loss <= EXPLODED * max(untrained, 0.01)


def explosion(run: Training, loss: float) -> Diverged:
    """Returns the error for a validation loss that has exploded."""
    rate = run.settings.learning_rate
    return Diverged(
        f"the loss has exploded: it is {loss:.2g} on the validation part after epoch {run.place.epoch}, but was "
        f"{run.untrained_loss:.2g} before training; the weights of epoch {run.best_epoch} are kept. "
        f"{named('learning_rate', rate)} is probably too high: try {rate / 100:g}, {_clip(run.settings)} or "
        f"{named('warmup_epochs', 1)}."
    )


def out_of_memory(run: Training) -> TrainingStopped:
    """Returns the error for a batch that does not fit into memory."""
    s = run.settings
    cures = [f"{named('batch_size', max(1, s.batch_size // 2))} (it is {s.batch_size})"] if s.batch_size > 1 else []
    if run.model.layer.memory != "low":
        cures.append(f"{named('settings', {'memory': 'low'})} (slower, recomputes intermediate results)")
    if not s.tbptt:
        cures.append(f"{named('tbptt', 100)} for long series")
    place = f"epoch {run.place.epoch + 1}, batch {run.place.batch + 1}"
    return TrainingStopped(f"out of memory at {place}: try {', or '.join(cures)}.")


def _clip(settings: Settings) -> str:
    return f"a smaller {named('clip')}" if settings.clip else named("clip", 1.0)
