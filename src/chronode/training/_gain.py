"""Gain of a network on its linear start: the margin that chance allows, and whether it still improves."""

from __future__ import annotations

from collections.abc import Sequence

from ..data import Sequences
from ..model import SequenceModel
from ._events import Epoch
from ._objective import Objective

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
