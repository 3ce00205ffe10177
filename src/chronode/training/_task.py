"""Definition of a task: its data, its splits, its target and its score."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data import Parts, Sequences
from ..settings import near, one_of, whole
from ..system import built_in

LOSSES = ("cross_entropy", "squared")
"""Losses of a task."""
METRICS = (
    "accuracy",
    "f1",
    "auroc",
    "auprc",
    "min_se_ppv",
    "cross_entropy",
    "perplexity",
    "mse",
    "rmse",
    "nrmse",
    "mae",
)
"""Metrics of a task."""
PROTOCOLS = ("clean", "paper")
"""Ways to divide the series of a task."""


@dataclass(frozen=True)
class Sizes:
    """Expected sizes, `clean` protocol: series of each part, steps of the longest, channels, classes."""

    train: int
    valid: int
    test: int
    steps: int
    channels: int
    classes: int | None = None


@dataclass(frozen=True)
class Task:
    """A named task; `load` returns its series.

    Attributes:
        name: Name on the command line.
        what: One-line description of inputs and target.
        make: `make(protocol, seed, **options)` reads or generates the series.
        sizes: Sizes with the default options.
        loss: One of LOSSES.
        metric: One of METRICS, computed on the test part.
        protocols: Descriptions of "clean" and "paper"; that of "paper" also names its leaks.
        options: Additional options of `load` with their defaults.
        data: Name of the data set in `chronode data list`; None for synthetic series.
        class_weights: Class weights of the loss; None for equal weights.
        more_metrics: Additional METRICS that are reported.
        own_units: Whether metrics of numbers are in the units of the target, although it is scaled for training.
    """

    name: str
    what: str
    make: Callable[..., Parts]
    sizes: Sizes
    loss: str
    metric: str
    protocols: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    data: str | None = None
    class_weights: tuple[float, ...] | None = None
    more_metrics: tuple[str, ...] = ()
    own_units: bool = False

    def __post_init__(self) -> None:
        one_of("loss", self.loss, LOSSES)
        for name in (self.metric, *self.more_metrics):
            one_of("metric", name, METRICS)

    def load(self, protocol: str = "clean", seed: int = 0, **options: Any) -> Parts:
        """Returns the series, split into parts.

        Args:
            protocol: "clean" (no group is in two parts, statistics of the training part only) or "paper" (as run by the
                authors, including leaks).
            seed: Random seed of synthetic series, splits and noise.
            options: Options of the task; see `options`.
        """
        one_of("protocol", protocol, PROTOCOLS)
        whole("seed", seed, at_least=0)
        for name in options:
            if name not in self.options:
                names = ", ".join(self.options) or "none"
                raise ValueError(
                    f"{self.name} has no option {name!r}; its options are {names}.{near(name, self.options)}"
                )
        parts = self.make(protocol, seed, **{**self.options, **options})
        if _equal(parts.valid, parts.test):
            raise ValueError(
                f"{self.name}, protocol {protocol!r}: the validation part is the test part, so every choice would leak."
            )
        return parts

    def read_options(self, given: list[str]) -> dict[str, Any]:
        """Parses NAME=VALUE texts with the types of the defaults of the task."""
        options: dict[str, Any] = {}
        for text in given:
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"--option {text!r} must be NAME=VALUE, such as length=100.")
            default = self.options.get(name)
            if isinstance(default, str) or default is None:
                options[name] = value
                continue
            try:
                options[name] = type(default)(json.loads(value))
            except (ValueError, TypeError):
                wanted = type(default).__name__
                raise ValueError(
                    f"--option {name}: {value!r} must have the type of the default {default!r} ({wanted})."
                ) from None
        return options


def _equal(one: Sequences, other: Sequences) -> bool:
    """Returns whether two parts have the same series."""
    if one is other:
        return True
    pairs = ((one.lengths, other.lengths), (one.ids, other.ids))
    return all(np.array_equal(*pair) for pair in pairs) and np.array_equal(one.values, other.values, equal_nan=True)


_tasks: dict[str, Task] = {}


def add_task(task: Task) -> Task:
    """Registers a task under its name; rejects a name that is already used."""
    if task.name in _tasks:
        raise ValueError(f"the task {task.name!r} already exists.")
    _tasks[task.name] = task
    return task


def tasks() -> dict[str, Task]:
    """Returns all tasks by name.

    Example:
        >>> from chronode.lab.tasks import tasks
        >>> parts = tasks()["bitstream"].load(train=100, valid=10, test=10)
        >>> parts.train
        Sequences(100 series, 975 steps, 1 channels, target='parity')
    """
    built_in("tasks")
    return dict(sorted(_tasks.items()))


def find_task(name: str) -> Task:
    """Returns the task of the given name; otherwise raises a ValueError that lists similar names."""
    registered = tasks()
    if name not in registered:
        raise ValueError(
            f"there is no task {name!r}.{near(str(name).lower(), registered)} `chronode tasks` lists all tasks."
        )
    return registered[name]
