"""What a task is: where its series come from, how they are divided, what is learnt and how it is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import near, one_of, whole
from ..data import Scaler, Sequences

LOSSES = ("cross_entropy", "squared")
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
PROTOCOLS = ("clean", "paper")


@dataclass(frozen=True)
class Parts:
    """The series of a task.

    Attributes:
        train: to learn from.
        valid: to choose by.
        test: to report.
        scaler: what the values went through, fitted on `train`; None if they are as they came.
        fresh: for made-up tasks: the training series of epoch 0, 1, ...; `train` is that of epoch 0.
        vectors: `(symbols, size)` word vectors to begin with, NaN rows for words that have none.
    """

    train: Sequences
    valid: Sequences
    test: Sequences
    scaler: Scaler | None = None
    fresh: Callable[[int], Sequences] | None = None
    vectors: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Sizes:
    """The publisher's counts, `clean` protocol: series of each part, steps of the longest, channels, classes."""

    train: int
    valid: int
    test: int
    steps: int
    channels: int
    classes: int | None = None


@dataclass(frozen=True)
class Task:
    """A named task; `load` gives its series.

    Attributes:
        name: what the command line takes.
        what: one line: what is seen, what is to be said.
        make: `make(protocol, seed, **options)` reads or makes the series.
        sizes: with the default options.
        loss: one of LOSSES.
        metric: one of METRICS, computed on the test part.
        protocols: for "clean" and "paper" what is done; of "paper" also what leaks.
        options: what `load` takes besides, with the defaults.
        data: the data set's name in `chronode data list`; None if the series are made here.
        class_weights: of the loss; None for equal ones.
        more_metrics: others of METRICS that are reported besides.
        own_units: metrics of numbers are in the target's own units, though it is scaled for training.
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
        """The series, divided.

        Args:
            protocol: "clean" (no group crosses, statistics of the training part only) or "paper" (what the authors
                ran, leaks included).
            seed: of what is drawn: made-up series, random splits, noise.
            options: the task's own; see `options`.
        """
        one_of("protocol", protocol, PROTOCOLS)
        whole("seed", seed, at_least=0)
        for name in options:
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise ValueError(f"{self.name} has no option {name!r}: it has {known}.{near(name, self.options)}")
        return self.make(protocol, seed, **{**self.options, **options})


_tasks: dict[str, Task] = {}


def add(task: Task) -> Task:
    """Adds a task under its name; the name of another is an error."""
    if task.name in _tasks:
        raise ValueError(f"the task {task.name!r} is there already.")
    _tasks[task.name] = task
    return task


def tasks() -> dict[str, Task]:
    """All tasks by name.

    Example:
        >>> from chronode.tasks import tasks
        >>> parts = tasks()["bitstream"].load(train=100, valid=10, test=10)
        >>> parts.train
        Sequences(100 series, 975 steps, 1 channels, target='parity')
    """
    return dict(sorted(_tasks.items()))


def find(name: str) -> Task:
    """The task of that name; a ValueError that lists the near ones if there is none."""
    if name not in _tasks:
        raise ValueError(f"there is no task {name!r}.{near(str(name).lower(), _tasks)} `chronode tasks` lists all.")
    return _tasks[name]
