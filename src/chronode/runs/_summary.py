"""Content of summary.json and config.json in a run folder: the result of a run, and its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..nn import models
from ..settings import error_at, one_of
from ..storage import parse
from ._config import Config

if TYPE_CHECKING:
    from ._folder import Run

OUTCOMES = ("finished", "stopped", "interrupted", "failed")
Scores = dict[str, float | None]


@dataclass(frozen=True)
class StartSummary:
    """Validation metric of the linear start alone, and the best epoch of the network after it.

    Attributes:
        features: Input features of the linear model.
        metric: Metric that selects epochs.
        valid: Its value for the linear start alone.
        network: Its best value of all epochs; None if they were not validated.
        epoch: That epoch.
        chance: The gain, as a share, that an epoch has to exceed to replace the linear start.
        title: Model and features, as among the baselines; empty in runs of earlier versions.
    """

    features: str
    metric: str
    valid: float | None
    network: float | None = None
    epoch: int | None = None
    chance: float | None = None
    title: str = ""


@dataclass(frozen=True)
class RaceSummary:
    """The race that chose the model; see `chronode.judge._race.Race.as_dict`."""

    metric: str
    judged: str
    reason: str
    chosen: Scores
    entries: list[dict[str, str | float | None]]


@dataclass(frozen=True)
class TargetSummary:
    """Metrics of one of several targets on the test part, in its own units.

    Attributes:
        test: Those of the model.
        baselines: Those of the baselines.
        positive: Positive one of two classes.
    """

    test: Scores
    baselines: dict[str, Scores] = field(default_factory=dict)
    positive: str | None = None


@dataclass(frozen=True)
class Summary:
    """Fields of summary.json that chronode reads; a number is None if it is not finite.

    Attributes:
        status: One of OUTCOMES.
        model: Title of the model, such as "linear start + mmrnn"; empty in runs of earlier versions.
        baseline: Baseline that was handed out because it was better on the validation part; empty for the model itself.
        positive: Positive one of two classes.
        stopped: Reason for the end of training.
        epochs: Number of epochs.
        best_epoch: Epoch of the weights.
        metric: Metric by which it was chosen.
        valid: Metrics on the validation part.
        test: Metrics on the test part; empty if it was not tested.
        baselines: Metrics of the baselines on the test part.
        targets: Metrics of each target by name, if there are several; the others are then over all scaled targets.
        parameters: Number of trained parameters.
        seconds: Training time.
        notes: Remarks for the user.
        fault: Reason for a failure.
        start: Result of the linear start alone; None without one.
        race: The race that chose the model; None if there was none.
    """

    status: str
    model: str = ""
    baseline: str = ""
    positive: str | None = None
    stopped: str = ""
    epochs: int | None = None
    best_epoch: int | None = None
    metric: str = ""
    valid: Scores = field(default_factory=dict)
    test: Scores = field(default_factory=dict)
    baselines: dict[str, Scores] = field(default_factory=dict)
    targets: dict[str, TargetSummary] = field(default_factory=dict)
    parameters: int | None = None
    seconds: float | None = None
    notes: list[str] = field(default_factory=list)
    fault: str = ""
    start: StartSummary | None = None
    race: RaceSummary | None = None

    def __post_init__(self) -> None:
        one_of("status", self.status, OUTCOMES)


def read_summary(content: Mapping[str, Any], place: str) -> Summary:
    """Returns the fields of summary.json that chronode reads; errors begin with `place`."""
    names = {field.name for field in fields(Summary)}
    try:
        return parse(Summary, {name: value for name, value in content.items() if name in names})
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def config_of(run: Run) -> Config:
    """Returns the config of a run."""
    return config_from(run.config, run.path / "config.json")


def config_from(content: Mapping[str, Any], place: str | Path) -> Config:
    """Returns the config in config.json; errors begin with `place`."""
    try:
        return Config.from_dict({name: section for name, section in content.items() if name != "baseline"})
    except (ValueError, TypeError) as error:
        raise error_at(place, error) from error


def check_registered(run: Run, model: str) -> None:
    """Refuses a run whose model is of a plugin that is not loaded; nothing is imported because a run folder says so."""
    if model not in models():
        files = str(run.environment.get("plugins") or "FILE.py")
        options = " ".join(f"--plugin {name}" for name in files.split(", "))
        raise ValueError(
            f"{run.path} has the model {model!r}, which is not registered: import the module that registers it, "
            f"or name it on the command line: {options}"
        )
