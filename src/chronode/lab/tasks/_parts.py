"""Shared parts of tasks: their facts, published files, synthetic parts, and the splits of the papers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Scaler, Sequences, Target, split_by_time, windows
from ...settings import whole
from ...training import Sizes, Task, add_task

NAMES = ("train", "valid", "test")
BLOCKS = (0.75, 0.10, 0.15)
"""Fractions of the rows in training, validation and test, as used by the authors of LTC."""

Draw = Callable[[int, np.random.Generator], Sequences]


def add(name: str, make: Callable[..., Parts]) -> None:
    """Adds a task of `tasks.json`, which has its description, sizes, loss, metric, protocols and options."""
    facts: dict[str, Any] = dict(_facts()[name])
    for key in ("class_weights", "more_metrics"):
        facts |= {key: tuple(facts[key])} if key in facts else {}
    facts["sizes"] = Sizes(**facts["sizes"])
    add_task(Task(name=name, make=make, **facts))


@cache
def _facts() -> dict[str, dict[str, Any]]:
    return json.loads(Path(__file__).with_name("tasks.json").read_text(encoding="utf-8"))


def located(folder: Path, name: str) -> Path:
    """Returns the file or folder `name` in `folder` or in one of its subfolders (archives often have a top folder).

    Example:
        >>> import tempfile
        >>> top = Path(tempfile.mkdtemp())
        >>> (top / "archive").mkdir()
        >>> _ = (top / "archive" / "train.csv").write_text("")
        >>> located(top, "train.csv").relative_to(top).as_posix()
        'archive/train.csv'
    """
    if (folder / name).exists():
        return folder / name
    matches = sorted(folder.glob(f"*/{name}"))
    if not matches:
        raise ValueError(f"{folder}: {name} not found; is this the complete archive of the publisher?")
    return matches[0]


def equal_series(values: NDArray[np.float32], target: Target, channels: tuple[str, ...]) -> Sequences:
    """Creates series of equal length without times from `values (N, T, D)` without copying.

    Example:
        >>> target = Target(np.zeros((5, 1), dtype=np.float32))
        >>> equal_series(np.zeros((5, 4, 1), dtype=np.float32), target, ("x",))
        Sequences(5 series, 20 steps, 1 channels, target='target')
    """
    count, steps, width = values.shape
    ids = np.arange(count)
    return Sequences(
        base_values=values.reshape(-1, width),
        base_times=None,
        starts=ids * steps,
        lengths=np.full(count, steps),
        ids=ids,
        groups=ids,
        target=target,
        channels=channels,
    )


def drawn(draw: Draw, seed: int, *, train: int, valid: int, test: int, renewed: bool = True) -> Parts:
    """Creates parts with `draw(count, rng)`; every part and every epoch has its own random generator.

    Args:
        draw: Function that creates `count` series with a random generator.
        seed: Seed of all generators.
        train: Number of training series per epoch.
        valid: Number of validation series.
        test: Number of test series.
        renewed: Whether the training series are new every epoch (`Parts.fresh`).

    Example:
        >>> from chronode.lab.tasks.synthetic import adding
        >>> parts = drawn(partial(adding, length=10), seed=0, train=4, valid=2, test=2)
        >>> len(parts.train), bool((parts.fresh(1).values == parts.train.values).all())
        (4, False)
    """
    for name, count in (("train", train), ("valid", valid), ("test", test)):
        whole(name, count, at_least=1)
    train_part, valid_part, test_part = (partial(_part, draw, n, seed, i) for i, n in enumerate((train, valid, test)))
    return Parts(train_part(0), valid_part(0), test_part(0), fresh=train_part if renewed else None)


def _part(draw: Draw, count: int, seed: int, part: int, epoch: int) -> Sequences:
    return draw(count, np.random.default_rng((seed, part, epoch)))


def blocks(s: Sequences, length: int, strides: Sequence[int], fractions: Sequence[float] = BLOCKS) -> list[Sequences]:
    """Cuts windows from consecutive blocks of time: no row is in two parts.

    Args:
        s: The series.
        length: Steps of a window.
        strides: Stride of the windows of each part.
        fractions: Fractions of the rows in each part: training, validation and, unless it has its own file, test.

    Example:
        >>> from chronode.data import from_list
        >>> parts = blocks(from_list([np.arange(20.0)], ids=["day"]), 2, (1, 2), (0.7, 0.3))
        >>> [len(part) for part in parts], parts[1].ids.tolist()
        ([13, 3], ['day valid[0:2]', 'day valid[2:4]', 'day valid[4:6]'])
    """
    parts = []
    for name, part, stride in zip(NAMES, split_by_time(s, fractions, whole_groups=False), strides, strict=False):
        ids = np.char.add(part.ids.astype(str), f" {name}")
        parts.append(windows(replace(part, ids=ids, groups=ids.copy()), length, stride, lead="gap"))
    return parts


def range_windows(s: Sequences, length: int, stride: int) -> Sequences:
    """Cuts windows as in the code of the papers: `range(0, steps - length, stride)` are the first steps.

    The window at the very end of a series is therefore missing. The dt of the first step is the gap before it.

    Example:
        >>> from chronode.data import from_list
        >>> range_windows(from_list([np.arange(6.0)], ids=["a"]), 2, 2).ids.tolist()
        ['a[0:2]', 'a[2:4]']
    """
    longer = s[s.lengths > length]
    if not len(longer):
        raise ValueError(f"no series is longer than a window of {length} steps.")
    return windows(replace(longer, lengths=longer.lengths - 1), length, stride, lead="gap")


def shuffled(
    s: Sequences, seed: int, *, valid: float = 0.1, test: float = 0.15
) -> tuple[Sequences, Sequences, Sequences]:
    """Splits windows into (train, valid, test) as in the code of the papers: at random, separating overlapping ones."""
    order = np.random.RandomState(seed).permutation(len(s))
    first = int(valid * len(s))
    second = first + int(test * len(s))
    return s[order[second:]], s[order[:first]], s[order[first:second]]


def scaled(train: Sequences, valid: Sequences, test: Sequences, scaler: Scaler | None = None) -> Parts:
    """Scales the parts by `scaler`, or by the statistics of `train`."""
    scaler = Scaler.fit(train) if scaler is None else scaler
    return Parts(scaler.transform(train), scaler.transform(valid), scaler.transform(test), scaler=scaler)
