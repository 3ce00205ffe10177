"""Equilibrium of iRNN and ERNN: convergence, its rate and its stability; phase portraits of two units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...nn import Layer
from ...nn.cells.irnn import EquilibriumCell
from ...settings import number, whole
from ...storage import Result
from ._instrumented import Inputs, Instrumented, as_layer, name_of


@dataclass(frozen=True)
class Convergence(Result):
    """Convergence of the recursion to the equilibrium (iRNN and ERNN Fig. 6).

    Attributes:
        model: Name of the layer.
        eta: Step size.
        distances: `(B, K + 1)` ‖g_k - g*‖, with g* from SciPy's fsolve.
        residuals: `(B, K + 1)` ‖f(g_k + s h, x) - γ (g_k + s h)‖.
        rates: `(B,)` fitted factor of the distance per step, above rounding; below 1 it converges, NaN if it started at
            the root.
        bound: 1 - η (γ - ‖P U‖), the contraction guaranteed by the proposition of the papers; NaN if ‖P U‖ >= γ or the
            transition has more than one layer.
    """

    model: str
    eta: float
    distances: NDArray[np.float64]
    residuals: NDArray[np.float64]
    rates: NDArray[np.float64]
    bound: float


def convergence(layer: Layer, x: Tensor, h: Tensor | None = None, *, steps: int = 60, eta: float = 0.5) -> Convergence:
    """Returns the distance to the root found by SciPy and the residual after k = 0..steps of the recursion from g = 0.

    Args:
        layer: An iRNN, SiRNN or ERNN layer; its first cell is analyzed.
        x: `(B, D)` inputs.
        h: `(B, H)` previous states; 0 by default.
        steps: Number of steps K.
        eta: Step size η (that of the layer may be as small as 0.01).

    Example:
        >>> import torch, chronode
        >>> _ = torch.manual_seed(0)
        >>> layer = chronode.create("irnn", 3, 8, recurrent="full")
        >>> result = convergence(layer, torch.randn(4, 3))
        >>> bool((result.distances[:, -1] < 1e-5).all()), bool((result.rates <= result.bound + 1e-3).all())
        (True, True)
    """
    from scipy.optimize import fsolve

    cell = _cell(layer)
    number("eta", eta, above=0)
    with torch.no_grad():
        drive = cell.project(x.double())
        h = torch.zeros(len(x), cell.hidden_size, dtype=torch.float64) if h is None else h.double()
        shift = cell.sign * h
        g, path, residuals = torch.zeros_like(h), [], []
        for k in range(whole("steps", steps, at_least=2) + 1):
            residual = cell.transition(g + shift, drive) - cell.gamma * (g + shift)
            path.append(g)
            residuals.append(residual.norm(dim=-1))
            g = g + eta * residual if k < steps else g
        roots = [_root(fsolve, cell, row, move, last) for row, move, last in zip(drive, shift, g, strict=True)]
        distances = torch.stack([(point - torch.stack(roots)).norm(dim=-1) for point in path], dim=1).numpy()
        bound = _bound(cell, eta)
    rates = np.array([_rate(row) for row in distances])
    return Convergence(name_of(layer), eta, distances, torch.stack(residuals, dim=1).numpy(), rates, bound)


def _root(fsolve, cell: EquilibriumCell, drive: Tensor, shift: Tensor, guess: Tensor) -> Tensor:
    def residual(g: NDArray[np.float64]) -> NDArray[np.float64]:
        q = torch.from_numpy(g) + shift
        return (cell.transition(q, drive) - cell.gamma * q).numpy()

    # With several equilibria, the recursion converges to the one near its end.
    root, _, status, message = fsolve(residual, guess.numpy(), xtol=1e-13, full_output=True)
    if status != 1 and np.abs(residual(root)).max() > 1e-8:
        raise ValueError(f"SciPy found no equilibrium ({message}): use a larger gamma or recurrent='full'.")
    return torch.from_numpy(root)


def _rate(distances: NDArray[np.float64]) -> float:
    """Returns exp of the slope of the log distance over k, above the rounding of the root."""
    usable = distances > 1e-10
    count = len(distances) if usable.all() else int(np.argmin(usable))
    return float(np.exp(np.polyfit(np.arange(count), np.log(distances[:count]), 1)[0])) if count > 1 else float("nan")


def _bound(cell: EquilibriumCell, eta: float) -> float:
    u = cell.times_u(torch.eye(cell.hidden_size, dtype=torch.float64)).T
    matrix = u @ u if cell.outer == "same" else u
    room = float(cell.gamma) - float(torch.linalg.matrix_norm(matrix, 2))
    return 1 - eta * room if cell.depth == 1 and room > 0 and eta * float(cell.gamma) <= 1 else float("nan")


@dataclass(frozen=True)
class Eigenvalues(Result):
    """Eigenvalues of ∇φ P U - γ I over a data set (iRNN Fig. 7, ERNN Fig. 5).

    Attributes:
        model: Name of the layer.
        real: Real parts of all eigenvalues of all steps of all sequences.
        imaginary: Imaginary parts.
        stable: Share with a negative real part.
    """

    model: str
    real: NDArray[np.float64]
    imaginary: NDArray[np.float64]
    stable: float


def equilibrium_eigenvalues(layer: Layer, x: Tensor, *, lengths: Tensor | None = None) -> Eigenvalues:
    """Returns the eigenvalues of the Jacobian of the recursion at every state of the layer.

    Example:
        >>> import torch, chronode
        >>> result = equilibrium_eigenvalues(chronode.create("irnn", 3, 8, recurrent="full"), torch.randn(2, 5, 3))
        >>> result.real.shape, result.stable
        ((80,), 1.0)
    """
    cell = _cell(layer)
    if layer.num_layers > 1:
        raise ValueError(f"equilibrium_eigenvalues needs a single layer, got num_layers={layer.num_layers}.")
    instrumented = Instrumented(layer)
    inputs: Inputs = instrumented.enter(x, lengths=lengths)
    start = instrumented.start(inputs.x.shape[1])
    with torch.no_grad():
        _, states = instrumented.run(inputs, start)
        size = cell.hidden_size
        h = states[..., :size]
        q = h + cell.sign * torch.cat([start[None, :, :size], h[:-1]])
        drive = cell.project(inputs.x)
        if inputs.lengths is not None:
            valid = torch.arange(len(q))[:, None] < inputs.lengths
            q, drive = q[valid], drive[valid]
        jacobians = cell.residual_jacobian(q.reshape(-1, size), drive.reshape(-1, size))
        values = torch.linalg.eigvals(jacobians).flatten().numpy()
    return Eigenvalues(name_of(layer), values.real, values.imag, float((values.real < 0).mean()))


def _cell(layer: Layer) -> EquilibriumCell:
    if not isinstance(layer, Layer) or not issubclass(layer.cell_class, EquilibriumCell):
        what = name_of(layer) if isinstance(layer, Layer) else type(layer).__name__
        raise ValueError(f"{what} is not an equilibrium model: this analysis supports irnn, sirnn and ernn.")
    cell = Instrumented(layer).cells[0]
    assert isinstance(cell, EquilibriumCell)
    return cell


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
