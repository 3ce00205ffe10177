"""A point on a circle: the input for measuring trajectory lengths, and a tiny task."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, from_numpy
from ...settings import whole
from ._parts import add, drawn


def circle(points: int = 100, phases: NDArray[np.float64] | None = None) -> Sequences:
    """Creates one turn: (sin t, cos t) at `points` times from 0 to 2π; the target of a step is the next point.

    Figs. 1 to 3 and Table 2 of the LTC paper measure the length of the state trajectory for this input.

    Args:
        points: Number of points of a series; the first and the last coincide.
        phases: `(N,)` initial phase of each series; a single series with phase 0 if None.

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


def _draw(points: int, count: int, rng: np.random.Generator) -> Sequences:
    return circle(points, rng.uniform(0, 2 * math.pi, size=count))


def _make(protocol: str, seed: int, *, points: int, train: int, valid: int, test: int) -> Parts:
    return drawn(partial(_draw, points), seed, train=train, valid=valid, test=test, renewed=False)


add("circle", _make)
