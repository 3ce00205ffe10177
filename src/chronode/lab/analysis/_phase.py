"""Phase portraits of two-dimensional states under a random walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...nn.cells.irnn import EquilibriumCell
from ...settings import number, whole
from ...storage import Result
from ._instrumented import Instrumented, as_layer, name_of

AS_PAPER: dict[str, Any] = {"activation": "tanh", "recurrent": "full", "outer": "identity", "K": 5, "eta": 0.1}


@dataclass(frozen=True)
class PhasePortrait(Result):
    """Trajectories of a state of two units (iRNN Fig. 2, ERNN Fig. 1).

    Attributes:
        models: Names of the models, one per trajectory.
        walk: `(T,)` input, a random walk.
        states: `(models, T + 1, 2)`, starting with the initial state.
        speed: `(models,)` median distance between consecutive steps as a share of the extent of the trajectory.
    """

    models: tuple[str, ...]
    walk: NDArray[np.float64]
    states: NDArray[np.float64]
    speed: NDArray[np.float64]


def phase_portrait(
    models: Sequence[str] = ("rnn", "fastrnn", "irnn"),
    *,
    steps: int = 1000,
    variance: float = 10.0,
    seed: int = 0,
) -> PhasePortrait:
    """Computes the first part of the state of each model with H = 2, for one random walk and the same random start.

    iRNN and ERNN are built as in the figure of the papers: tanh, a full U, P = I, K = 5; with η = 0.1 the five steps
    leave 2 (1 - η γ)⁵ - 1 = 0.18 of a start that is off the manifold.

    Args:
        models: Registered names.
        steps: Number of steps T.
        variance: Variance of the end of the walk.
        seed: Random seed of the walk, the weights and the start.

    Example:
        >>> phase_portrait(["rnn", "irnn"], steps=50).states.shape
        (2, 51, 2)
    """
    rng = torch.Generator().manual_seed(seed)
    size = whole("steps", steps, at_least=2)
    increments = torch.randn(size, dtype=torch.float64, generator=rng) * (number("variance", variance, above=0)) ** 0.5
    walk = increments.cumsum(0) / size**0.5
    begin = torch.randn(2, dtype=torch.float64, generator=rng)
    paths = [_path(name, walk, begin, seed) for name in models]
    states = np.stack(paths)
    extent = np.linalg.norm(np.ptp(states, axis=1), axis=-1)
    speed = np.median(np.linalg.norm(np.diff(states, axis=1), axis=-1), axis=1) / np.maximum(extent, 1e-12)
    return PhasePortrait(tuple(models), walk.numpy(), states, speed)


def _path(name: str, walk: torch.Tensor, begin: torch.Tensor, seed: int) -> NDArray[np.float64]:
    layer = as_layer(name, 1, 2, seed)
    if issubclass(layer.cell_class, EquilibriumCell):
        layer = as_layer(name, 1, 2, seed, **AS_PAPER)
    instrumented = Instrumented(layer)
    columns = instrumented.columns(0)
    if len(columns) != 2:
        raise ValueError(
            f"the first part of the state of {name_of(layer)} must have 2 numbers for H = 2, got {len(columns)}."
        )
    start = instrumented.start(1)
    start[:, columns] = begin
    with torch.no_grad():
        _, states = instrumented.run(instrumented.enter(walk[:, None]), start)
    return torch.cat([start[:, columns], states[:, 0, columns]]).numpy()
