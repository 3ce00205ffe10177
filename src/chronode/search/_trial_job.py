"""One trial of a search, wherever it is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from .._plugins import load_plugin
from ..runs._config import Config
from ..runs._prepare import prepared_for
from ..runs._train import Listener, assemble_run
from ..training._events import Epoch, TrainingStopped, paced


@dataclass(frozen=True)
class TrialScore:
    """What came of a trial.

    Attributes:
        value: the best validation metric of all epochs.
        fault: why training could not go on; "" if it could.
    """

    value: float = math.nan
    fault: str = ""


@dataclass(frozen=True)
class TrialJob:
    """The training of a trial; the test part is not looked at.

    Attributes:
        number: of the trial.
        config: with the trial's settings.
        metric: that trials are judged by.
        plugins: that register the model.
    """

    number: int
    config: Config
    metric: str
    plugins: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The trial's number."""
        return str(self.number)

    def execute(self, state: Path | None, report: Listener) -> TrialScore:
        """Trains; every epoch is reported."""
        for name in self.plugins:
            load_plugin(name)
        try:
            fitted = assemble_run(self.config, prepared_for(self.config)).fit(on_event=paced(report))
        except TrainingStopped as error:
            return TrialScore(fault=str(error))
        if fitted.stopped == "interrupted":
            raise KeyboardInterrupt
        assert fitted.best is not None
        value = value_of(fitted.best, self.metric)
        if not math.isfinite(value):
            return TrialScore(fault=f"{self.metric} on the validation series is {value}.")
        return TrialScore(value)


def value_of(epoch: Epoch, metric: str) -> float:
    """The validation metric of an epoch."""
    return epoch.valid_loss if metric == "loss" else epoch.metrics[metric]
