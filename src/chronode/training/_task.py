"""Definition of a task: its data, its splits, its target and its score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Scaler, Sequences
from ..settings import near, one_of, whole

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
        train: Training series.
        valid: Validation series.
        test: Test series.
        scaler: Scaler applied to the values, fitted on `train`; None if they are not scaled.
        fresh: For synthetic tasks: returns the training series of epoch 0, 1, ...; `train` is that of epoch 0.
        vectors: `(symbols, size)` initial word vectors, with NaN rows for words without a vector.
    """

    train: Sequences
    valid: Sequences
    test: Sequences
    scaler: Scaler | None = None
    fresh: Callable[[int], Sequences] | None = None
    vectors: NDArray[np.float32] | None = None


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
                known = ", ".join(self.options) or "none"
                raise ValueError(
                    f"{self.name} has no option {name!r}; its options are {known}.{near(name, self.options)}"
                )
        parts = self.make(protocol, seed, **{**self.options, **options})
        if _equal(parts.valid, parts.test):
            raise ValueError(
                f"{self.name}, protocol {protocol!r}: the validation part is the test part, so every choice would leak."
            )
        return parts


def _equal(one: Sequences, other: Sequences) -> bool:
    """Returns whether two parts have the same series."""
    if one is other:
        return True
    pairs = ((one.lengths, other.lengths), (one.ids, other.ids))
    return all(np.array_equal(*pair) for pair in pairs) and np.array_equal(one.values, other.values, equal_nan=True)


_tasks: dict[str, Task] = {}


def add(task: Task) -> Task:
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
    return dict(sorted(_tasks.items()))


def find_task(name: str) -> Task:
    """Returns the task of the given name; otherwise raises a ValueError that lists similar names."""
    if name not in _tasks:
        raise ValueError(
            f"there is no task {name!r}.{near(str(name).lower(), _tasks)} `chronode tasks` lists all tasks."
        )
    return _tasks[name]
