"""Optimizer and learning rate of a run, whether it still improves, and the faults that stop it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..data import Batch, Sequences
from ..model import SequenceModel
from ..settings import named
from ..system import without_compiler
from ._events import Diverged, Epoch, TrainingStopped
from ._objective import Objective
from ._settings import Settings

if TYPE_CHECKING:
    from ._loop import Training


SOLVED = 1e-3
"""Mean loss of classes on the validation part below which further epochs do not matter."""
MOST_SETBACKS = 6
"""A run whose gradients are not finite more often than this ends."""


class Schedule:
    """Learning rate at any point of a run: warm-up times the schedule of the settings.

    Args:
        settings: Training settings.
        epochs: Length of the run in epochs (a step limit may end it within an epoch).

    Example:
        >>> schedule = Schedule(Settings(learning_rate=1.0, schedule="cosine", epochs=4, warmup_epochs=1), 4)
        >>> [round(schedule.rate(at), 3) for at in (0.0, 0.5, 2.0, 4.0)]
        [0.0, 0.481, 0.5, 0.0]
    """

    def __init__(self, settings: Settings, epochs: float):
        self.settings = settings
        self.epochs = epochs
        self.drops = 0
        self.waited = 0
        self.setbacks = 0

    def rate(self, at: float) -> float:
        """Returns the learning rate after `at` epochs."""
        s = self.settings
        warm = min(1.0, at / s.warmup_epochs) if s.warmup_epochs else 1.0
        if s.schedule == "cosine":
            shape = 0.5 * (1 + math.cos(math.pi * min(1.0, at / self.epochs)))
        elif s.schedule == "step":
            shape = s.drop_factor ** sum(at >= epoch for epoch in s.drop_epochs)
        else:
            shape = s.drop_factor**self.drops
        return s.learning_rate * warm * shape * 0.5**self.setbacks

    def epoch_ended(self, better: bool) -> None:
        """Counts the epochs without improvement; with "plateau", too many lower the rate."""
        self.waited = 0 if better else self.waited + 1
        if self.settings.schedule == "plateau" and self.waited >= self.settings.plateau_patience:
            self.drops += 1
            self.waited = 0

    def set_back(self) -> bool:
        """Halves the rate from here on; returns whether it was allowed once more."""
        self.setbacks += 1
        return self.setbacks <= MOST_SETBACKS

    def facts(self) -> dict[str, Any]:
        """Returns the state for a resumed run."""
        return {"drops": self.drops, "waited": self.waited, "setbacks": self.setbacks}

    def restore(self, facts: dict[str, Any]) -> None:
        """Restores the state from `facts`."""
        self.drops, self.waited, self.setbacks = facts["drops"], facts["waited"], facts["setbacks"]


def make_optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Returns the optimizer of the trained parameters; the model must already be on its device."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    options: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer in ("sgd", "rmsprop"):
        options["momentum"] = settings.momentum
    if settings.optimizer == "rmsprop":
        options["alpha"] = settings.smoothing
    makers = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    makers |= {"sgd": torch.optim.SGD, "rmsprop": torch.optim.RMSprop}
    return without_compiler(makers[settings.optimizer])(parameters, **options)


_CLEARLY = 1e-3


def chance_of(model: SequenceModel, objective: Objective, valid: Sequences) -> float:
    """Returns the gain, as a share, that chance allows with the validation targets that do not overlap."""
    if model.relative is None:
        return max(1, objective.deciding(valid)) ** -0.5
    horizon = objective.num_outputs / len(model.relative.channels)
    return max(1.0, len(valid) / horizon) ** -0.5


def last_progress(objective: Objective, start: Epoch, history: Sequence[Epoch]) -> int:
    """Returns the last epoch that improved clearly on the linear start and on all epochs before it; 0 if none did.

    Either the loss is lower or the metric is closer to perfect, by at least one part in a thousand.

    Example:
        >>> goal = Objective("class", 2, False, "loss", ("accuracy",), "cross_entropy")
        >>> history = [Epoch(n, 0.5, loss, {}) for n, loss in enumerate((0.41, 0.42, 0.39, 0.38999), start=1)]
        >>> last_progress(goal, Epoch(0, 0.5, 0.42, {}), history), last_progress(goal, Epoch(0, 0.5, 0.3, {}), history)
        (3, 0)
    """
    last, lowest, best = 0, start.valid_loss, objective.value_of(start.valid_loss, start.metrics)
    for epoch in history:
        value = objective.value_of(epoch.valid_loss, epoch.metrics)
        falls, rises = epoch.valid_loss < (1 - _CLEARLY) * lowest, objective.gain(value, best) > _CLEARLY
        last = epoch.number if falls or rises else last
        lowest, best = epoch.valid_loss if falls else lowest, value if rises else best
    return last


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


def notes_on_setbacks(run: Training) -> tuple[str, ...]:
    """Returns a note on the steps that were taken back because a gradient was not finite."""
    count, rate = run.schedule.setbacks, run.settings.learning_rate
    if not 0 < count <= MOST_SETBACKS:
        return ()
    times = "once" if count == 1 else f"{count} times"
    return (
        f"a gradient was not finite {times}: training went on from the best weights before it, in the end with "
        f"{rate * 0.5**count:.2g} instead of {named('learning_rate', rate)}.",
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
    cures = [f"{named('batch_size', max(1, s.batch // 2))} (it is {s.batch})"] if s.batch > 1 else []
    if run.model.layer.memory != "low":
        cures.append(f"{named('settings', {'memory': 'low'})} (slower, recomputes intermediate results)")
    if not s.tbptt:
        cures.append(f"{named('tbptt', 100)} for long series")
    place = f"epoch {run.place.epoch + 1}, batch {run.place.batch + 1}"
    return TrainingStopped(f"out of memory at {place}: try {', or '.join(cures)}.")


def _clip(settings: Settings) -> str:
    return f"a smaller {named('clip')}" if settings.clip else named("clip", 1.0)
