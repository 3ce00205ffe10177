"""Job of one trial of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ..runs import Config, assemble_run, prepared_for
from ..system import load_plugin
from ..training import Epoch, Listener, TrainingStopped, paced


@dataclass(frozen=True)
class TrialScore:
    """Result of a trial.

    Attributes:
        value: Best validation metric of all epochs.
        fault: Reason for a failure; "" if there was none.
    """

    value: float = math.nan
    fault: str = ""


@dataclass(frozen=True)
class TrialJob:
    """Training of a trial; the test part is not used.

    Attributes:
        number: Number of the trial.
        config: Config with the settings of the trial.
        metric: Validation metric of the trials.
        plugins: Plugins that register the model.
    """

    number: int
    config: Config
    metric: str
    plugins: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The number of the trial."""
        return str(self.number)

    def execute(self, state: Path | None, report: Listener) -> TrialScore:
        """Trains and reports every epoch."""
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
    """Returns the validation metric of an epoch."""
    return epoch.valid_loss if metric == "loss" else epoch.metrics[metric]
