"""A point on a circle: the input whose path through a network is measured, and a tiny task."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .._checks import whole
from ..data import Sequences, from_numpy
from ._drawn import drawn
from ._task import Parts, Sizes, Task, add


def circle(points: int = 100, phases: NDArray[np.float64] | None = None) -> Sequences:
    """Once around: (sin t, cos t) at `points` times from 0 to 2π; the target of a step is the next point.

    LTC's Figs 1 to 3 and Table 2 measure how long the path of a network's states is while it sees this.

    Args:
        points: of a series, the first and the last being the same place.
        phases: `(N,)` where each series begins; one that begins at 0 if None.

    Example:
        >>> batch = circle(5).batch()
        >>> batch.x[0].round().int().tolist()
        [[0, 1], [1, 0], [0, -1], [-1, 0], [0, 1]]
        >>> round(batch.dt.sum().item() / math.pi, 3)
        2.0
    """
    whole("points", points, at_least=2)
    phases = np.zeros(1) if phases is None else np.asarray(phases, dtype=np.float64)
    gap = 2 * math.pi / (points - 1)
    angle = phases[:, None] + gap * np.arange(points + 1)
    path = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    gaps = np.full((len(phases), points), gap)
    gaps[:, 0] = 0
    return from_numpy(
        path[:, :-1],
        order="NTD",
        dt=gaps,
        target=path[:, 1:],
        per_step=True,
        channels=["sin", "cos"],
        target_names=["next sin", "next cos"],
    )


def _draw(points: int, count: int, dice: np.random.Generator) -> Sequences:
    return circle(points, dice.uniform(0, 2 * math.pi, size=count))


def _make(protocol: str, seed: int, *, points: int, train: int, valid: int, test: int) -> Parts:
    return drawn(partial(_draw, points), seed, train=train, valid=valid, test=test, renewed=False)


add(
    Task(
        name="circle",
        what="Next point on a circle; LTC's input for trajectory lengths",
        make=_make,
        sizes=Sizes(train=64, valid=16, test=16, steps=100, channels=2),
        loss="squared",
        metric="mse",
        protocols={
            "clean": "circles that begin at phases drawn by seed",
            "paper": "the same; the paper trains nothing on it and feeds one circle from phase 0: circle()",
        },
        options={"points": 100, "train": 64, "valid": 16, "test": 16},
    )
)
