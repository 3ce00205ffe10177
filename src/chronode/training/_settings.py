"""Training settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..settings import SettingError, check_declared, declared, named, number, one_of, option, whole
from ..storage import parse

STARTS = ("none", "linear", "summaries", "stacked")
"""Models that a network can start from."""
MAY_CHANGE = ("epochs", "steps", "early_stop", "threads", "accelerator", "devices")
"""Training settings that a resumed run may change."""
WITHOUT_EFFECT = ("strategy",)
"""Settings of earlier versions that are accepted, and do nothing."""
AUTO = "auto"
"""Stands for an automatic choice in place of the name of a model."""

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LARGE_BATCHES = 1_000  # series


@declared
@dataclass(frozen=True)
class Settings:
    """Training settings; the same settings and data give identical weights on the same machine.

    Attributes:
        epochs: Maximum number of passes over the training series; 0 for the linear start alone, which is what a
            forecast of a single short series is by default.
        steps: Maximum number of optimizer steps; no limit by default.
        batch_size: Series per optimizer step, over all devices; by default 16, or 64 from 1,000 series on, and for
            forecasts as many windows as give about 100 steps in an epoch, from 4 to 16.
        optimizer: "adam", "adamw", "rmsprop" or "sgd".
        learning_rate: Learning rate before the schedule.
        weight_decay: Weight decay of the optimizer; 0 by default.
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
        average: Average of the weights that is validated and kept: "none" (the default), "ema" (running mean over all
            steps) or "swa" (mean over the ends of epochs).
        average_decay: Decay of the running mean (average ema only); 0.999 by default.
        average_start: First epoch that counts, from 1 (average swa only).
        early_stop: Epochs without improvement on the validation part before training stops; 0 for never. By default
            20, and 10 for forecasts.
        metric: Metric on the validation part that chooses the best epoch, or "loss"; by default that of the task, and
            for your own data the loss, or "auroc" if a class is rare. Among equal epochs the one with the lower loss is
            chosen.
        share: Share of the network in a weighted mean with its start, between 0 and 1: both are then fitted apart from
            each other. By default the network learns what the start leaves, or a race of models chooses.
        refit: Whether to train on the training and validation series together and keep the weights of the last epoch;
            `chronode train` and the estimators choose the number of epochs by cross-validation first. By default if
            the model is chosen automatically and there are fewer than 500 series.
        seed: Random seed for data, weights, batch order, dropout and sub-sampling.
        tbptt: Steps per piece for truncated backpropagation through time: gradients end at the cuts, the state is
            carried over, and each piece is an optimizer step. 0 for whole series.
        subsample: Probability with which each step of a series is kept, drawn again in every epoch; the time of dropped
            steps goes to the next one kept.
        jitter: Standard deviation of a random shift and of a random relative gain of every channel of a training
            series, drawn again in every epoch: for sensors that differ from person to person or from place to place.
            It is relative to scaled values, and 0 by default.
        shift: Most steps by which a training series is moved forward or back, drawn again in every epoch, while its
            first or last step is repeated: for events that may be anywhere in a window. 0 by default.
        class_weights: Class weights of the loss: "balanced", or one per class; by default those of the task, or equal.
        threads: Threads of PyTorch on the CPU; by default one for small batches, otherwise the default of PyTorch.
        accelerator: "cpu", "gpu" or "auto".
        devices: Number of devices, or of processes on the CPU, that take a share of every batch and add up their
            gradients.
        precision: "32" or "bf16" (mixed).

    Example:
        >>> settings = Settings(epochs=5, schedule="step", drop_epochs=(3,))
        >>> Settings.from_dict(settings.as_dict()) == settings
        True
    """

    epochs: int = option(50, "Training", 20, at_least=0)
    steps: int | None = option(None, "Training", 1000, at_least=1)
    batch_size: int | None = option(None, "Training", 32, at_least=1)
    optimizer: str = option("adam", "Training", "adamw", choices=("adam", "adamw", "rmsprop", "sgd"))
    learning_rate: float = option(5e-3, "Training", "1e-3", "--learning-rate", "--lr", above=0, below=1e6)
    weight_decay: float | None = option(None, "Training", 0.01, at_least=0)
    momentum: float = option(0.0, "Training", 0.9, at_least=0, below=1)
    smoothing: float = option(0.99, "Training", 0.9, at_least=0, below=1)
    schedule: str = option("constant", "Training", "cosine", choices=("constant", "step", "plateau", "cosine"))
    drop_epochs: tuple[int, ...] = option((), "Training", "10,20")
    drop_factor: float = option(0.5, "Training", 0.1, above=0, below=1)
    plateau_patience: int = option(5, "Training", 3, at_least=1)
    warmup_epochs: float = option(0.0, "Training", 1, at_least=0)
    clip: float = option(1.0, "Training", 0.5, at_least=0)
    average: str | None = option(None, "Training", "ema", choices=("none", "ema", "swa"))
    average_decay: float | None = option(None, "Training", 0.99, at_least=0, below=1)
    average_start: int = option(1, "Training", 10, at_least=1)
    early_stop: int | None = option(None, "Training", 5, at_least=0)
    metric: str | None = option(None, "Training", "auroc")
    share: float | None = option(None, "Training", 0.5, above=0, below=1)
    refit: bool | None = option(None, "Training", "--refit")
    seed: int = option(0, "Training", 1, at_least=0)
    tbptt: int = option(0, "Training", 100, at_least=0)
    subsample: float = option(1.0, "Training", 0.5, above=0, at_most=1)
    jitter: float = option(0.0, "Training", 0.2, at_least=0)
    shift: int = option(0, "Training", 5, at_least=0)
    class_weights: str | tuple[float, ...] | None = option(None, "Training", "balanced")
    threads: int | None = option(None, "Training", 2, at_least=1)
    accelerator: str = option("cpu", "Training", "gpu", choices=("cpu", "gpu", "auto"))
    devices: int = option(1, "Training", 2, at_least=1)
    precision: str = option("32", "Training", "bf16", choices=("32", "bf16"))

    def __post_init__(self) -> None:
        check_declared(self)
        self._check_lists()
        self._check_pairs()

    def completed(self, series: int, *, windows: bool = False) -> Settings:
        """Returns the settings with the defaults that depend on the data in place of None.

        Args:
            series: Number of series for training and validation, or of training windows.
            windows: Whether they are windows of a forecast.

        Example:
            >>> [Settings().completed(series).batch_size for series in (80, 2000)]
            [16, 64]
            >>> [Settings().completed(count, windows=True).batch_size for count in (50, 800, 5000)]
            [4, 8, 16]
        """
        usual: dict[str, Any] = {"weight_decay": 0.0, "average": "none", "average_decay": 0.999}
        usual |= {"batch_size": 64 if series >= _LARGE_BATCHES else 16, "early_stop": 20}
        if windows:  # about 100 optimizer steps in an epoch
            usual |= {"batch_size": min(max(series // 100, 4), 16), "early_stop": 10}
        return replace(self, **{name: value for name, value in usual.items() if getattr(self, name) is None})

    @property
    def free(self) -> set[str]:
        """Names of the settings that the user left open, which a race may choose."""
        return {name for name, value in asdict(self).items() if value is None}

    @property
    def batch(self) -> int:
        """Series per optimizer step, of completed settings."""
        assert self.batch_size is not None
        return self.batch_size

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
        return parse(cls, {name: value for name, value in description.items() if name not in WITHOUT_EFFECT})


def seconds_of(duration: str | float, name: str = "budget", *, zero: bool = False) -> float:
    """Returns a duration such as "90s", "2m" or "1h" in seconds; `name`: its setting; `zero`: whether it may be 0.

    Example:
        >>> seconds_of("2m"), seconds_of("1.5h"), seconds_of(30)
        (120.0, 5400.0, 30.0)
    """
    if not isinstance(duration, str):
        return number(name, duration, above=0)
    parts = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*([smh]?)\s*", duration)
    if parts is None or not (zero or float(parts[1])):
        raise SettingError(f"{named(name, duration)} is not a duration such as 90s, 2m or 1h.", argument=name)
    return float(parts[1]) * _SECONDS[parts[2]]
