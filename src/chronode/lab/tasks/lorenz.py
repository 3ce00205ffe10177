"""Lorenz 96: prediction of a later state of a system that is calm or chaotic, depending on its force."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, Target
from ...settings import number, whole
from ._parts import add, drawn, equal_series

DIMENSIONS = 5
STEP = 0.01
AHEAD = 25


def slope(x: NDArray[np.float64], force: float) -> NDArray[np.float64]:
    """Returns x_j' = (x_{j+1} - x_{j-2}) x_{j-1} - x_j + F along the last axis, which is a ring."""
    width = x.shape[-1]
    j = np.arange(width)
    # Negative indices close the ring, much faster than np.roll.
    return (x[..., j + 1 - width] - x[..., j - 2]) * x[..., j - 1] - x + force


def trajectory(start: NDArray[np.float64], force: float, steps: int, step: float = STEP) -> NDArray[np.float64]:
    """Integrates states `(N, steps, D)` from `start (N, D)` by the classical Runge-Kutta method of order 4.

    For a force of 8 and steps of 0.01, the error of each step is below 2e-5.

    Example:
        >>> rest = np.full((1, 5), 8.0)
        >>> bool((trajectory(rest, force=8.0, steps=100) == 8).all())
        True
    """
    x = np.array(start, dtype=np.float64)
    path = np.empty((len(x), steps, x.shape[1]))
    for t in range(steps):
        path[:, t] = x
        k1 = slope(x, force)
        k2 = slope(x + step / 2 * k1, force)
        k3 = slope(x + step / 2 * k2, force)
        k4 = slope(x + step * k3, force)
        x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return path


def lorenz96(
    count: int, rng: np.random.Generator, *, force: float = 8.0, length: int = 2000, ahead: int = AHEAD
) -> Sequences:
    """Creates `count` trajectories in 5 dimensions; the target of a step is the state `ahead` steps later.

    The UnICORNN paper gives the equation, the two forces and 128 sequences of 2000 steps, and otherwise follows coRNN:
    the 25th next state is predicted. (It cannot be the next state, `ahead=1`: repeating the input would have an error
    of 0.0021 at F = 0.9, a tenth of the best published one.) The rest is not specified; here the states are 0.01 apart
    and a trajectory starts at F + U[-0.5, 0.5] in each dimension, as in public code for similar experiments, without
    burn-in and without scaling.

    Example:
        >>> batch = lorenz96(2, np.random.default_rng(0), length=50).batch()
        >>> batch.x.shape, bool((batch.x[:, 25:] == batch.target[:, :-25]).all())
        (torch.Size([2, 50, 5]), True)
    """
    force = number("force", force)
    length, ahead = whole("length", length, at_least=1), whole("ahead", ahead, at_least=1)
    start = force + rng.random((count, DIMENSIONS)) - 0.5
    path = trajectory(start, force, length + ahead).astype(np.float32)
    channels = tuple(f"x{i + 1}" for i in range(DIMENSIONS))
    later = np.ascontiguousarray(path[:, ahead:]).reshape(-1, DIMENSIONS)
    target = Target(later, per_step=True, names=tuple(f"next {name}" for name in channels))
    return equal_series(np.ascontiguousarray(path[:, :length]), target, channels)


def _make(
    protocol: str, seed: int, *, force: float, length: int, ahead: int, train: int, valid: int, test: int
) -> Parts:
    draw = partial(lorenz96, force=force, length=length, ahead=ahead)
    return drawn(draw, seed, train=train, valid=valid, test=test, renewed=False)


add("lorenz96", _make)
