"""Trials of a search: the Optuna study in its SQLite file, the sampling of settings, and the training of one trial."""

from __future__ import annotations

import math
import sqlite3
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from ..runs import Config, assemble_run, prepared_for
from ..system import load_plugin
from ..training import Epoch, Listener, TrainingStopped, paced
from ._ranges import Between, Range

PRUNERS = ("median", "hyperband", "none")
_SECONDS_FOR_THE_FILE = 60


@dataclass(frozen=True)
class Trial:
    """Trial of a search.

    Attributes:
        number: Number of the trial, from 0.
        state: "complete", "pruned" (bad or failed), "fail" (interrupted) or "running".
        value: Best validation metric of all epochs; None unless complete.
        settings: Settings of the trial.
        epochs: Number of epochs.
        seconds: Duration; None while it is running.
        fault: Reason for a failure.
    """

    number: int
    state: str
    value: float | None
    settings: dict[str, Any]
    epochs: int
    seconds: float | None
    fault: str = ""


def open_study(file: Path, *, lower_is_better: bool, pruner: str, epochs: int) -> optuna.Study:
    """Opens the study in a file, or creates a new one."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruners = {
        "median": optuna.pruners.MedianPruner(n_warmup_steps=epochs // 10),
        "hyperband": optuna.pruners.HyperbandPruner(max_resource=max(2, epochs)),
        "none": optuna.pruners.NopPruner(),
    }

    def connect() -> sqlite3.Connection:
        """Opens the file itself: in a URL, the characters ?, %, # and braces of its path have another meaning."""
        return sqlite3.connect(file, timeout=_SECONDS_FOR_THE_FILE, check_same_thread=False)

    return optuna.create_study(
        study_name="search",
        storage=optuna.storages.RDBStorage("sqlite:///study", engine_kwargs={"creator": connect}),
        direction="minimize" if lower_is_better else "maximize",
        pruner=pruners[pruner],
        load_if_exists=True,
    )


def sampler_for(seed: int, trial: int) -> optuna.samplers.BaseSampler:
    """Returns a sampler seeded for each trial, so that the result does not depend on processes or interruptions."""
    drawn = int(np.random.SeedSequence([seed, trial]).generate_state(1)[0])
    return optuna.samplers.TPESampler(seed=drawn)


def suggest(trial: optuna.Trial, name: str, values: Range) -> Any:
    """Samples a value of the range."""
    if not isinstance(values, Between):
        return trial.suggest_categorical(name, values.choices)
    if isinstance(values.low, int) and isinstance(values.high, int):
        return trial.suggest_int(name, values.low, values.high, log=values.log)
    return trial.suggest_float(name, values.low, values.high, log=values.log)


def as_trial(frozen: optuna.trial.FrozenTrial) -> Trial:
    """Converts a trial of Optuna."""
    seconds = None if frozen.duration is None else frozen.duration.total_seconds()
    value = frozen.value if frozen.state.name == "COMPLETE" else None
    return Trial(
        number=frozen.number,
        state=frozen.state.name.lower(),
        value=value,
        settings=dict(frozen.params),
        epochs=len(frozen.intermediate_values),
        seconds=seconds,
        fault=frozen.user_attrs.get("fault", ""),
    )


def importances(study: optuna.Study) -> dict[str, float]:
    """Returns the importance of each setting for being among the best trials."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return optuna.importance.get_param_importances(study, evaluator=evaluator)


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

    def execute(self, state: Path | None, report: Listener) -> tuple[float, str]:
        """Trains, reports every epoch and returns (best validation metric of all epochs, reason for a failure)."""
        for name in self.plugins:
            load_plugin(name)
        try:
            fitted = assemble_run(self.config, prepared_for(self.config)).fit(on_event=paced(report))
        except TrainingStopped as error:
            return math.nan, str(error)
        if fitted.stopped == "interrupted":
            raise KeyboardInterrupt
        assert fitted.best is not None
        value = value_of(fitted.best, self.metric)
        return value, "" if math.isfinite(value) else f"{self.metric} on the validation series is {value}."


def value_of(epoch: Epoch, metric: str) -> float:
    """Returns the validation metric of an epoch."""
    return epoch.valid_loss if metric == "loss" else epoch.metrics[metric]
