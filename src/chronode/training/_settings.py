"""Training settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..settings import SettingError, declared, flag, named, number, one_of, option, whole
from ..storage import parse

OPTIMIZERS = ("adam", "adamw", "rmsprop", "sgd")
SCHEDULES = ("constant", "step", "plateau", "cosine")
AVERAGES = ("none", "ema", "swa")
ACCELERATORS = ("cpu", "gpu", "auto")
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true")
PRECISIONS = ("32", "bf16")
STARTS = ("none", "linear", "summaries", "stacked")
"""Models that a network can start from."""
AUTO = "auto"
"""Stands for an automatic choice in place of the name of a model."""

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@declared
@dataclass(frozen=True)
class Settings:
    """Training settings; the same settings and data give identical weights on the same machine.

    Attributes:
        epochs: Maximum number of passes over the training series.
        steps: Maximum number of optimizer steps; no limit by default.
        batch_size: Series per optimizer step, over all devices.
        optimizer: "adam", "adamw", "rmsprop" or "sgd".
        learning_rate: Learning rate before the schedule.
        weight_decay: Weight decay of the optimizer.
        momentum: Momentum (sgd and rmsprop only).
        smoothing: Share of the mean square gradient that is kept at each step (rmsprop only). The default of PyTorch is
            0.99, that of Keras 0.9.
        schedule: "constant"; "step" (times `drop_factor` after each of `drop_epochs`); "plateau" (times `drop_factor`
            after `plateau_patience` epochs without improvement); "cosine" (falls to 0 at the end).
        drop_epochs: Epochs after which the rate drops (schedule step only).
        drop_factor: Factor of a drop (schedules step and plateau only).
        plateau_patience: Epochs without improvement before a drop (schedule plateau only).
        warmup_epochs: Epochs over which the rate rises from 0 (0.5 is half an epoch), with any schedule.
        clip: Largest norm of all gradients together; 0 for no limit.
        average: Average of the weights that is validated and kept: "none", "ema" (running mean over all steps) or "swa"
            (mean over the ends of epochs).
        average_decay: Decay of the running mean (average ema only).
        average_start: First epoch that counts, from 1 (average swa only).
        early_stop: Epochs without improvement on the validation part before training stops; 0 for never.
        metric: Metric on the validation part that chooses the best epoch, or "loss"; by default that of the task or of
            the kind of target. Among equal epochs the one with the lower loss is chosen.
        refit: Whether to train on the training and validation series together and keep the weights of the last epoch;
            `chronode train` and the estimators choose the number of epochs by cross-validation first. By default if
            the model is chosen automatically and there are fewer than 500 series.
        seed: Random seed for data, weights, batch order, dropout and sub-sampling.
        tbptt: Steps per piece for truncated backpropagation through time: gradients end at the cuts, the state is
            carried over, and each piece is an optimizer step. 0 for whole series.
        subsample: Probability with which each step of a series is kept, drawn again in every epoch; the time of dropped
            steps goes to the next one kept.
        class_weights: Class weights of the loss: "balanced", or one per class; by default those of the task, or equal.
        threads: Threads of PyTorch on the CPU; by default one for small batches, otherwise the default of PyTorch.
        accelerator: "cpu", "gpu" or "auto".
        devices: Number of devices.
        strategy: Strategy for several devices: "auto", "ddp" or "ddp_find_unused_parameters_true".
        precision: "32" or "bf16" (mixed).

    Example:
        >>> settings = Settings(epochs=5, schedule="step", drop_epochs=(3,))
        >>> Settings.from_dict(settings.as_dict()) == settings
        True
    """

    epochs: int = option(20, "Training", 50)
    steps: int | None = option(None, "Training", 1000)
    batch_size: int = option(64, "Training", 32)
    optimizer: str = option("adam", "Training", "adamw")
    learning_rate: float = option(5e-3, "Training", "1e-3", "--learning-rate", "--lr")
    weight_decay: float = option(0.0, "Training", 0.01)
    momentum: float = option(0.0, "Training", 0.9)
    smoothing: float = option(0.99, "Training", 0.9)
    schedule: str = option("constant", "Training", "cosine")
    drop_epochs: tuple[int, ...] = option((), "Training", "10,20")
    drop_factor: float = option(0.5, "Training", 0.1)
    plateau_patience: int = option(5, "Training", 3)
    warmup_epochs: float = option(0.0, "Training", 1)
    clip: float = option(1.0, "Training", 0.5)
    average: str = option("none", "Training", "ema")
    average_decay: float = option(0.999, "Training", 0.99)
    average_start: int = option(1, "Training", 10)
    early_stop: int = option(0, "Training", 5)
    metric: str | None = option(None, "Training", "auroc")
    refit: bool | None = option(None, "Training", "--refit")
    seed: int = option(0, "Training", 1)
    tbptt: int = option(0, "Training", 100)
    subsample: float = option(1.0, "Training", 0.5)
    class_weights: str | tuple[float, ...] | None = option(None, "Training", "balanced")
    threads: int | None = option(None, "Training", 2)
    accelerator: str = option("cpu", "Training", "gpu")
    devices: int = option(1, "Training", 2)
    strategy: str = option("auto", "Training", "ddp")
    precision: str = option("32", "Training", "bf16")

    def __post_init__(self) -> None:
        for name, least in (
            *(
                ("epochs", 0 if self.refit else 1),
                ("batch_size", 1),
                ("plateau_patience", 1),
                ("average_start", 1),
                ("devices", 1),
            ),
            *(("early_stop", 0), ("seed", 0), ("tbptt", 0)),
        ):
            whole(name, getattr(self, name), at_least=least)
        for name in ("steps", "threads"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), at_least=1)
        if self.refit is not None:
            flag("refit", self.refit)
        number("learning_rate", self.learning_rate, above=0, below=1e6)
        for name in ("weight_decay", "clip", "warmup_epochs"):
            number(name, getattr(self, name), at_least=0)
        for name in ("momentum", "smoothing", "average_decay"):
            number(name, getattr(self, name), at_least=0, below=1)
        number("drop_factor", self.drop_factor, above=0, below=1)
        number("subsample", self.subsample, above=0)
        if self.subsample > 1:
            raise ValueError(f"subsample is the share of steps to keep, at most 1; got {self.subsample}.")
        for name, options in _CHOICES.items():
            one_of(name, getattr(self, name), options)
        self._check_lists()
        self._check_pairs()

    def _check_lists(self) -> None:
        object.__setattr__(self, "drop_epochs", tuple(whole("drop_epochs", e, at_least=1) for e in self.drop_epochs))
        if isinstance(self.class_weights, str):
            one_of("class_weights", self.class_weights, ("balanced",))
        elif self.class_weights is not None:
            weights = tuple(number("class_weights", weight, at_least=0) for weight in self.class_weights)
            object.__setattr__(self, "class_weights", weights)

    def _check_pairs(self) -> None:
        """Rejects settings that have no effect without another one."""
        if (self.schedule == "step") != bool(self.drop_epochs):
            raise SettingError(
                f"{named('schedule', 'step')} and {named('drop_epochs', ...)} must be given together.",
                argument="schedule",
            )
        if self.momentum and self.optimizer not in ("sgd", "rmsprop"):
            raise SettingError(
                f"{named('momentum')} needs {named('optimizer', 'sgd')} or 'rmsprop', got {self.optimizer!r}.",
                argument="momentum",
            )
        if self.smoothing != Settings.smoothing and self.optimizer != "rmsprop":
            raise SettingError(
                f"{named('smoothing')} needs {named('optimizer', 'rmsprop')}, got {self.optimizer!r}.",
                argument="smoothing",
            )
        if self.average == "swa" and self.average_start > self.epochs:
            raise SettingError(
                f"{named('average_start', self.average_start)} is after the last epoch, {self.epochs}.",
                argument="average_start",
            )
        if self.tbptt and self.devices > 1:
            raise SettingError(
                f"{named('tbptt')} takes several steps per batch, which is not supported on several devices: use "
                f"{named('devices', 1)}.",
                argument="tbptt",
            )

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings as plain data for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Settings:
        """Returns the settings that `as_dict` described; missing ones have their defaults."""
        return parse(cls, description)


_CHOICES = {
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "average": AVERAGES,
    "accelerator": ACCELERATORS,
    "strategy": STRATEGIES,
    "precision": PRECISIONS,
}


def seconds_of(duration: str | float, name: str = "budget", *, zero: bool = False) -> float:
    """Returns a duration such as "90s", "2m" or "1h" in seconds; `name`: its setting; `zero`: whether it may be 0.

    Example:
        >>> seconds_of("2m"), seconds_of("1.5h"), seconds_of(30)
        (120.0, 5400.0, 30.0)
    """
    if not isinstance(duration, str):
        return number(name, duration, above=0)
    parts = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([smh]?)\s*", duration)
    if parts is None or not (zero or float(parts[1])):
        raise SettingError(f"{named(name, duration)} is not a duration such as 90s, 2m or 1h.", argument=name)
    return float(parts[1]) * _SECONDS[parts[2]]
