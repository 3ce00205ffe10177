"""Learning rate schedule of a run."""

from __future__ import annotations

import math
from typing import Any

from ._settings import Settings


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
        return s.learning_rate * warm * shape

    def epoch_ended(self, better: bool) -> None:
        """Counts the epochs without improvement; with "plateau", too many lower the rate."""
        self.waited = 0 if better else self.waited + 1
        if self.settings.schedule == "plateau" and self.waited >= self.settings.plateau_patience:
            self.drops += 1
            self.waited = 0

    def facts(self) -> dict[str, Any]:
        """Returns the state for a resumed run."""
        return {"drops": self.drops, "waited": self.waited}

    def restore(self, facts: dict[str, Any]) -> None:
        """Restores the state from `facts`."""
        self.drops, self.waited = facts["drops"], facts["waited"]
