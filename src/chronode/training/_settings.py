"""Settings: how to train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .._checks import number, one_of, whole
from .._schema import parse

OPTIMIZERS = ("adam", "adamw", "rmsprop", "sgd")
SCHEDULES = ("constant", "step", "plateau", "cosine")
AVERAGES = ("none", "ema", "swa")
ACCELERATORS = ("cpu", "gpu", "auto")
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true")
PRECISIONS = ("32", "bf16")


@dataclass(frozen=True)
class Settings:
    """How to train; the same settings and data give the same weights, bit for bit, on the same machine.

    Attributes:
        epochs: passes over the training series, at most.
        steps: optimiser steps, at most; None for no limit.
        batch_size: series per step; with several devices, of all of them together.
        optimizer: "adam", "adamw", "rmsprop" or "sgd".
        learning_rate: before the schedule.
        weight_decay: the optimiser's.
        momentum: of "sgd" and "rmsprop".
        smoothing: of "rmsprop": how much of its mean square gradient stays at each step. Torch's own default is 0.99;
            the inventors, and Keras, have 0.9.
        schedule: "constant"; "step" (times `drop_factor` after each of `drop_epochs`); "plateau" (times `drop_factor`
            when `plateau_patience` epochs brought nothing better); "cosine" (falls to 0 at the end).
        drop_epochs: of "step".
        drop_factor: of "step" and "plateau".
        plateau_patience: of "plateau".
        warmup_epochs: the rate rises from 0 over so many epochs (0.5 is half an epoch), whatever the schedule.
        clip: the largest norm of all gradients together; 0 for any.
        average: "none"; "ema" (running mean of the weights of all steps); "swa" (mean of the weights at the ends of
            epochs). The mean is what is validated and kept.
        average_decay: of "ema".
        average_start: of "swa": the first epoch that counts, from 1.
        early_stop: stop after so many epochs without a better validation metric; 0 never.
        metric: to choose by on the validation series (of equal epochs the one with the lower loss); None: the
            task's, or the target's default; or "loss".
        seed: of the weights, the order of batches, dropout and sub-sampling.
        tbptt: truncated back-propagation: series are cut into pieces of so many steps, gradients end at the cuts, the
            state goes on; a step of the optimiser per piece. 0: whole series.
        subsample: keep each step of a series with this probability, anew in every epoch; the time of those left out
            goes to the next one kept.
        class_weights: of the loss: "balanced", or one per class; None: the task's, or equal ones.
        threads: of torch on the CPU; None: one for small batches (more would only wait), else torch's own number.
        accelerator: Lightning's: "cpu", "gpu" or "auto".
        devices: how many.
        strategy: Lightning's: "auto", "ddp", ...
        precision: "32" or "bf16" (mixed).

    Example:
        >>> settings = Settings(epochs=5, schedule="step", drop_epochs=(3,))
        >>> Settings.from_dict(settings.as_dict()) == settings
        True
    """

    epochs: int = 20
    steps: int | None = None
    batch_size: int = 64
    optimizer: str = "adam"
    learning_rate: float = 5e-3
    weight_decay: float = 0.0
    momentum: float = 0.0
    smoothing: float = 0.99
    schedule: str = "constant"
    drop_epochs: tuple[int, ...] = ()
    drop_factor: float = 0.5
    plateau_patience: int = 5
    warmup_epochs: float = 0.0
    clip: float = 1.0
    average: str = "none"
    average_decay: float = 0.999
    average_start: int = 1
    early_stop: int = 0
    metric: str | None = None
    seed: int = 0
    tbptt: int = 0
    subsample: float = 1.0
    class_weights: str | tuple[float, ...] | None = None
    threads: int | None = None
    accelerator: str = "cpu"
    devices: int = 1
    strategy: str = "auto"
    precision: str = "32"

    def __post_init__(self) -> None:
        for name, least in (
            *(("epochs", 1), ("batch_size", 1), ("plateau_patience", 1), ("average_start", 1), ("devices", 1)),
            *(("early_stop", 0), ("seed", 0), ("tbptt", 0)),
        ):
            whole(name, getattr(self, name), at_least=least)
        for name in ("steps", "threads"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), at_least=1)
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
        """Settings that would silently do nothing without another."""
        if (self.schedule == "step") != bool(self.drop_epochs):
            raise ValueError('schedule="step" and drop_epochs=(...) go together: give both or none.')
        if self.momentum and self.optimizer not in ("sgd", "rmsprop"):
            raise ValueError(f'momentum goes with optimizer="sgd" or "rmsprop", not with {self.optimizer!r}.')
        if self.smoothing != Settings.smoothing and self.optimizer != "rmsprop":
            raise ValueError(f'smoothing goes with optimizer="rmsprop", not with {self.optimizer!r}.')
        if self.average == "swa" and self.average_start > self.epochs:
            raise ValueError(f"average_start={self.average_start} is after the last epoch, {self.epochs}.")
        if self.tbptt and self.devices > 1:
            raise ValueError("tbptt takes several steps per batch, which several devices cannot share: use devices=1.")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Settings:
        """The settings that `as_dict` told; those left out have their defaults."""
        return parse(cls, told)


_CHOICES = {
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "average": AVERAGES,
    "accelerator": ACCELERATORS,
    "strategy": STRATEGIES,
    "precision": PRECISIONS,
}
