"""Expressivity as measured in the LTC paper: the length of the trajectory of a network that reads a circle.

`trajectory` analyzes one random network, `sweep` many, `depth_table` gives Table 2 of the paper. `_circle` describes
the random networks; `layer_trajectory` analyzes models of the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...settings import one_of, whole
from ...storage import Result
from ._circle import ACTIVATIONS, MODELS, RECIPES, TURN, Array, Setting, draw, field, solve

REFINE = 4
"""Output points per step of MATLAB's ode45. The authors counted these, so Table 2 has `REFINE` times the depth."""


def arc_length(points: Array) -> float:
    """Returns the length of the line through `points (P, dimensions)`.

    Example:
        >>> t = np.linspace(0, 2 * np.pi, 1000)
        >>> round(arc_length(np.stack([np.sin(t), np.cos(t)], axis=1)), 4)
        6.2832
    """
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())


def principal(states: Array, count: int = 2) -> tuple[Array, Array]:
    """Returns the scores `(P, count)` of the first principal components and the explained variance of all components.

    Example:
        >>> _, shares = principal(np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]]))  # all on one line
        >>> shares.round(6).tolist()
        [1.0, 0.0]
    """
    centered = states - states.mean(0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    variance = sizes**2
    return left[:, :count] * sizes[:count], variance / max(float(variance.sum()), np.finfo(np.float64).tiny)


def lower_bound(model: str, setting: Setting, depth: float, latent_norm: float = 0.0) -> float:
    """Returns the bounds of theorems 4 and 5 for the last layer, with the constant of their O(...) set to 1.

        neural-ode, ct-rnn   s^(n L) l(I),  s = σ √k / √(σ_w² + σ_b² + k √(σ_w² + σ_b²))
        ltc                  s^(n L) (σ_w + ‖z‖ / min(δt, L)) l(I)

    σ is σ_w, for the CT-RNN σ_w - σ_b (a bound of 0 if that is negative); l(I) = 2π.

    Args:
        model: "neural-ode", "ct-rnn" or "ltc".
        setting: Setting with n layers, k units, σ_w, σ_b and the time δt between two input samples.
        depth: L, the computational depth.
        latent_norm: ‖z‖, the mean norm of the latent path.

    Example:
        >>> round(lower_bound("neural-ode", Setting(), depth=1.0), 2)
        8.31
    """
    one_of("model", model, MODELS)
    w, b, k = setting.weight_scale, setting.sigma_b, setting.width
    both = w**2 + b**2
    scale = max(w - b, 0.0) if model == "ct-rnn" else w
    grown = TURN * (scale * np.sqrt(k) / np.sqrt(both + k * np.sqrt(both))) ** (setting.depth * depth)
    between = TURN / setting.samples
    return float(grown * (w + latent_norm / min(between, depth)) if model == "ltc" else grown)


@dataclass(frozen=True)
class Trajectory(Result):
    """Trajectory of one random network that reads the circle.

    Attributes:
        model: "neural-ode", "ct-rnn" or "ltc".
        latent: `(layers, P, 2)` trajectory in the first two principal components of each layer.
        lengths: `(layers,)` length of the trajectory.
        explained: `(layers, components)` explained variance of each component, largest first.
        depth: Computational depth: solver steps per input sample.
        bound: Lower bound of the theorems for the last layer.
        finished: Whether the solver completed the circle; otherwise the rest is NaN.
    """

    model: str
    latent: Array
    lengths: Array
    explained: Array
    depth: float
    bound: float
    finished: bool


def trajectory(model: str, setting: Setting | None = None, *, seed: int = 0, points: int = 1000) -> Trajectory:
    """Draws a random network and measures its trajectory on the circle.

    Args:
        model: "neural-ode", "ct-rnn" or "ltc".
        setting: Settings of the network and the solver.
        seed: Random seed of the weights, which the three models share.
        points: Number of evenly spaced times at which the trajectory is measured.

    Example:
        >>> result = trajectory("neural-ode", Setting("sigmoid", width=20))
        >>> result.latent.shape, result.depth * REFINE  # the paper: 0.56
        ((1, 1000, 2), 0.56)
    """
    setting = Setting() if setting is None else setting
    whole("points", points, at_least=3)
    k = setting.width
    path = solve(field(model, setting, draw(setting, seed)), setting.depth * k, setting, points)
    depth = path.steps / setting.samples
    if not path.finished or not np.isfinite(path.states).all():
        nan = np.full((setting.depth, points, 2), np.nan)
        shares = np.full((setting.depth, min(k, points)), np.nan)
        return Trajectory(model, nan, nan[:, 0, 0], shares, depth, np.nan, False)
    components = [principal(path.states[:, i * k : (i + 1) * k]) for i in range(setting.depth)]
    latent, explained = (np.stack(parts) for parts in zip(*components, strict=True))
    lengths = np.array([arc_length(scores) for scores in latent])
    norm = float(np.linalg.norm(latent[-1], axis=1).mean())
    return Trajectory(model, latent, lengths, explained, depth, lower_bound(model, setting, depth, norm), True)


# ---- many networks ---------------------------------------------------------------------------------------

SWEPT = ("activation", "width", "depth", "sigma_w", "sigma_b", "solver", "recipe")


@dataclass(frozen=True)
class Sweep(Result):
    """Measurements over one setting; arrays are `(models, values, tries)`, NaN if a solver was stopped.

    Attributes:
        over: The setting that was varied.
        values: Its values.
        models: The models.
        setting: All other settings.
        lengths: Trajectory lengths of the last layer.
        explained: Explained variance of the first two components.
        depth: Solver steps per input sample; a lower limit if the solver was stopped.
        bounds: Lower bounds of the theorems.
        stopped: `(models, values)` number of tries whose solver was stopped.
    """

    over: str
    values: tuple[Any, ...]
    models: tuple[str, ...]
    setting: Setting
    lengths: Array
    explained: Array
    depth: Array
    bounds: Array
    stopped: Array


class _Job(NamedTuple):
    model: str
    setting: Setting
    seed: int


def sweep(
    over: str,
    values: Sequence[Any],
    *,
    models: Sequence[str] = MODELS,
    setting: Setting | None = None,
    tries: int = 10,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Measures `tries` random networks for each model and value (LTC Figs. 2 and 3).

    Args:
        over: Setting to vary: a field of `Setting` such as "width", "sigma_w" or "solver".
        values: Its values.
        models: Models to compare.
        setting: The other settings.
        tries: Number of networks for each; try i has the same seed everywhere.
        seed: Seed of the first try.
        workers: Number of processes. More than one starts new interpreters, so scripts need `if __name__ ==
            "__main__":`.
        progress: Called with (finished networks, total networks).

    Example:
        >>> result = sweep("activation", ["tanh", "sigmoid"], tries=2, setting=Setting(width=10, recipe="text"))
        >>> result.lengths.shape
        (3, 2, 2)
    """
    setting = Setting() if setting is None else setting
    one_of("over", over, SWEPT)
    if not len(values):
        raise ValueError(f"values is empty: pass the values of {over} to compare.")
    whole("workers", workers, at_least=1)
    for model in models:
        one_of("models", model, MODELS)
    # A recipe has its own σ_w, unless another was chosen.
    preset = setting.sigma_w == RECIPES[setting.recipe].sigma_w
    also: dict[str, Any] = {"sigma_w": None} if over == "recipe" and preset else {}
    seeds = range(seed, seed + whole("tries", tries, at_least=1))
    jobs = [
        _Job(model, replace(setting, **also, **{over: value}), s) for model in models for value in values for s in seeds
    ]
    measurements = []
    for measured in _measured(jobs, workers):
        measurements.append(measured)
        if progress:
            progress(len(measurements), len(jobs))
    table = np.array(measurements).reshape(len(models), len(values), tries, -1)
    lengths, explained, depth, bounds, finished = np.moveaxis(table, -1, 0)
    stopped = (finished == 0).sum(-1)
    settings = (over, tuple(values), tuple(models), setting)
    return Sweep(*settings, lengths, explained, depth, bounds, stopped)


def _measured(jobs: list[_Job], workers: int) -> Iterator[tuple[float, ...]]:
    if workers == 1:
        yield from map(_measure, jobs)
        return
    import multiprocessing

    # Not forked: a fork of a process with torch threads may hang.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_measure, jobs, chunksize=4)


def _measure(job: _Job) -> tuple[float, ...]:
    path = trajectory(job.model, job.setting, seed=job.seed)
    numbers = (path.lengths[-1], path.explained[-1, :2].sum(), path.depth, path.bound, path.finished)
    return tuple(float(number) for number in numbers)


def depth_table(
    tries: int = 100,
    *,
    activations: Iterable[str] = tuple(ACTIVATIONS),
    setting: Setting | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Measures the computational depth of the three models with each activation (LTC Table 2, times `REFINE`).

    The arguments are those of `sweep`.

    Example:
        >>> table = depth_table(tries=2, activations=["sigmoid"], setting=Setting(width=10))
        >>> (REFINE * table.depth[0]).round(2).tolist()
        [[0.56, 0.56]]
    """
    return sweep(
        "activation", list(activations), setting=setting, tries=tries, seed=seed, workers=workers, progress=progress
    )
