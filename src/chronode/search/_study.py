"""Optuna's side of a search: the study in SQLite, what a trial draws, and what is read back of it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from ._ranges import Between, Range

PRUNERS = ("median", "hyperband", "none")
_SECONDS_FOR_THE_FILE = 60


@dataclass(frozen=True)
class Trial:
    """One training of a search.

    Attributes:
        number: from 0.
        state: "complete", "pruned" (it was no good, or ended in a fault), "fail" (it was interrupted) or "running".
        value: the best validation metric of all epochs; None unless complete.
        settings: what was tried.
        epochs: that were trained.
        seconds: that it took; None while it runs.
        fault: why it could not go on.
    """

    number: int
    state: str
    value: float | None
    settings: dict[str, Any]
    epochs: int
    seconds: float | None
    fault: str = ""


def open_study(file: Path, *, lower_is_better: bool, pruner: str, epochs: int) -> optuna.Study:
    """The study in a file; a new one if there is none."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruners = {
        "median": optuna.pruners.MedianPruner(n_warmup_steps=epochs // 10),
        "hyperband": optuna.pruners.HyperbandPruner(max_resource=max(2, epochs)),
        "none": optuna.pruners.NopPruner(),
    }
    # Other processes may be writing: wait for them.
    patient = {"connect_args": {"timeout": _SECONDS_FOR_THE_FILE}}
    return optuna.create_study(
        study_name="search",
        storage=optuna.storages.RDBStorage(f"sqlite:///{file}", engine_kwargs=patient),
        direction="minimize" if lower_is_better else "maximize",
        pruner=pruners[pruner],
        load_if_exists=True,
    )


def sampler_for(seed: int, trial: int) -> optuna.samplers.BaseSampler:
    """Seeded anew for every trial, so that it does not matter which process draws it, or whether one was stopped."""
    drawn = int(np.random.SeedSequence([seed, trial]).generate_state(1)[0])
    return optuna.samplers.TPESampler(seed=drawn)


def suggest(trial: optuna.Trial, name: str, told: Range) -> Any:
    """A value of the range."""
    if not isinstance(told, Between):
        return trial.suggest_categorical(name, told.choices)
    if isinstance(told.low, int) and isinstance(told.high, int):
        return trial.suggest_int(name, told.low, told.high, log=told.log)
    return trial.suggest_float(name, told.low, told.high, log=told.log)


def as_trial(told: optuna.trial.FrozenTrial) -> Trial:
    """What Optuna knows of a trial."""
    seconds = None if told.duration is None else told.duration.total_seconds()
    value = told.value if told.state.name == "COMPLETE" else None
    about = (told.number, told.state.name.lower(), value, dict(told.params))
    return Trial(*about, len(told.intermediate_values), seconds, told.user_attrs.get("fault", ""))


def importances(study: optuna.Study) -> dict[str, float]:
    """How much each setting decides whether a trial is among the best."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return optuna.importance.get_param_importances(study, evaluator=evaluator)
