"""Series that are generated: the adding problem, the copy task, one bit to remember, Lorenz 96, points on a circle."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, Target, from_numpy
from ...settings import number, whole
from ._parts import add, drawn, equal_series

NAIVE = 1 / 6
"""The squared error of always predicting 1 in the adding problem: the variance of the sum of two U[0, 1] numbers."""
SYMBOLS, MEMORY = 8, 10
BLANK, DELIMITER = SYMBOLS, SYMBOLS + 1
NAMES = (*(f"a{i}" for i in range(SYMBOLS)), "blank", "delimiter")
"""Categories of the copy task."""
NOISE = 0.05
"""Standard deviation of the values after the bit to remember."""
DIMENSIONS, STEP, AHEAD = 5, 0.01, 25
"""Size of the state of Lorenz 96, time between states, and steps to the predicted one."""


def adding(count: int, rng: np.random.Generator, *, length: int = 200) -> Sequences:
    """Creates `count` series of `length` numbers from U[0, 1], with one marked in each half; the target is their sum.

    Example:
        >>> batch = adding(3, np.random.default_rng(0), length=100).batch()
        >>> batch.x.shape, batch.x[..., 1].sum(1).tolist()
        (torch.Size([3, 100, 2]), [2.0, 2.0, 2.0])
        >>> ((batch.x[..., 0] * batch.x[..., 1]).sum(1) - batch.target[:, 0]).abs().max() < 1e-6
        tensor(True)
    """
    whole("length", length, at_least=2)
    values = np.zeros((count, length, 2), dtype=np.float32)
    values[..., 0] = rng.random((count, length), dtype=np.float32)
    half, row = length // 2, np.arange(count)
    first, second = rng.integers(0, half, size=count), rng.integers(half, length, size=count)
    values[row, first, 1] = 1
    values[row, second, 1] = 1
    total = values[row, first, 0] + values[row, second, 0]
    return equal_series(values, Target(total[:, None], names=("sum",)), ("value", "marker"))


def copying(count: int, rng: np.random.Generator, *, length: int = 200) -> Sequences:
    """Creates `count` series: 10 of 8 symbols, `length` - 1 blanks, a delimiter, 10 blanks; the target is a class per
    step.

    The class is blank for `length` + 10 steps, followed by the 10 symbols in their order. The values are one-hot: for a
    network that begins with W x this is a learned embedding, so that every layer accepts them directly and has the
    parameter counts of the papers, which only mention categories.

    Example:
        >>> series = copying(1, np.random.default_rng(0), length=3)[0]
        >>> series.values.argmax(1).tolist()
        [6, 5, 4, 2, 2, 0, 0, 0, 1, 6, 8, 8, 9, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]
        >>> series.target.tolist()
        [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 6, 5, 4, 2, 2, 0, 0, 0, 1, 6]
    """
    whole("length", length, at_least=1)
    steps = length + 2 * MEMORY
    symbols = rng.integers(0, SYMBOLS, size=(count, MEMORY))
    inputs = np.full((count, steps), BLANK)
    inputs[:, :MEMORY] = symbols
    inputs[:, MEMORY + length - 1] = DELIMITER
    wanted = np.full((count, steps), BLANK, dtype=np.int32)
    wanted[:, -MEMORY:] = symbols
    values = np.eye(len(NAMES), dtype=np.float32)[inputs]
    target = Target(wanted.reshape(-1), per_step=True, classes=NAMES, names=("symbol",))
    return equal_series(values, target, NAMES)


def memoryless(length: int) -> float:
    """Returns the cross entropy per step without memory of the symbols: 10 log 8 / (`length` + 20).

    Example:
        >>> round(memoryless(200), 3), round(memoryless(500), 3)
        (0.095, 0.04)
    """
    return MEMORY * math.log(SYMBOLS) / (length + 2 * MEMORY)


def one_bit(count: int, rng: np.random.Generator, *, length: int = 400) -> Sequences:
    """Creates `count` series of `length` values: +1 or -1, then noise; the target is the sign of the first value.

    Example:
        >>> batch = one_bit(3, np.random.default_rng(0), length=50).batch()
        >>> batch.x.shape, bool(((batch.x[:, 0, 0] > 0) == (batch.target == 1)).all())
        (torch.Size([3, 50, 1]), True)
    """
    whole("length", length, at_least=2)
    values = NOISE * rng.standard_normal((count, length, 1), dtype=np.float32)
    label = rng.integers(0, 2, size=count)
    values[:, 0, 0] = 2.0 * label - 1
    target = Target(label.astype(np.int32), classes=("down", "up"), names=("bit",))
    return equal_series(values, target, ("value",))


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


def _circles(count: int, rng: np.random.Generator, *, points: int) -> Sequences:
    return circle(points, rng.uniform(0, 2 * math.pi, size=count))


def _make(
    draw: Callable[..., Sequences],
    renewed: bool,
    protocol: str,
    seed: int,
    *,
    train: int,
    valid: int,
    test: int,
    **options: Any,
) -> Parts:
    """Creates the parts; generated series do not leak, so both protocols are the same."""
    return drawn(partial(draw, **options), seed, train=train, valid=valid, test=test, renewed=renewed)


for _name, _draw, _renewed in (
    ("adding", adding, True),
    ("copy", copying, True),
    ("one-bit", one_bit, True),
    ("lorenz96", lorenz96, False),
    ("circle", _circles, False),
):
    add(_name, partial(_make, _draw, _renewed))
