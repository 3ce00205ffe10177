"""Bounds of UnICORNN compared with measurements: states (C.1), gradients (12), and the gradient formula (14)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...settings import whole
from ...storage import Result
from ._instrumented import as_layer
from ._oscillators import Array, Model, UnICORNNCell, cells_of, instrumented_oscillators, motion


@dataclass(frozen=True)
class StateBounds(Result):
    """Largest |y| and |z| of any unit and sequence, and the bounds of proposition C.1.

    Attributes:
        y: `(layers, T + 1)` measured.
        y_bound: `(layers, T + 1)` √(2/α (1 + 2β t)), infinite for α = 0.
        z: `(layers, T + 1)` measured.
        z_bound: `(layers, T + 1)` √(2 (1 + 2β t)).
    """

    y: Array
    y_bound: Array
    z: Array
    z_bound: Array


def state_bounds(
    model: Model,
    x: Tensor,
    *,
    dt: Tensor | float | None = None,
    hidden_size: int = 16,
    seed: int = 0,
    **settings: Any,
) -> StateBounds:
    """Compares hidden states with the bound C.1, where t is the sum of Δt · dt (of the longest sequence).

    The arguments are those of `energy`. The proposition requires a "sufficiently small" Δt.

    Example:
        >>> import torch
        >>> result = state_bounds("unicornn", torch.randn(100, 3, generator=torch.Generator().manual_seed(0)))
        >>> bool((result.y <= result.y_bound).all() and (result.z <= result.z_bound).all())
        True
    """
    instrumented = instrumented_oscillators(
        as_layer(model, x.shape[-1], hidden_size, seed, **settings), "the bound C.1"
    )
    inputs = instrumented.enter(x, dt)
    states = motion(instrumented, inputs)
    y, z = (torch.stack([part.abs().flatten(1).amax(1) for part in parts]).numpy() for parts in (states.y, states.z))
    passed = np.concatenate([[0.0], inputs.dt[..., 0].cumsum(0).amax(1).numpy()])
    bounds = []
    for cell in cells_of(instrumented.layer):
        alpha, delta_t = float(cell.alpha), float(cell.delta_t)
        bounds.append(_state_bound(alpha, delta_t * passed))
    y_bound, z_bound = (np.stack(parts) for parts in zip(*bounds, strict=True))
    return StateBounds(y, y_bound, z, z_bound)


def _state_bound(alpha: float, t: Array) -> tuple[Array, Array]:
    """Returns the bounds of C.1 for |y| and |z| at time t."""
    beta = max(1 + 2 * alpha, 4 * alpha**2)
    squared = 2 * (1 + 2 * beta * t)
    return (np.sqrt(squared / alpha) if alpha > 0 else np.full_like(t, np.inf)), np.sqrt(squared)


@dataclass(frozen=True)
class GradientBounds(Result):
    """Largest gradient of any parameter, and the bound of proposition 3.1.

    Attributes:
        lengths: `(K,)` lengths N.
        measured: `(K,)` max |∂E/∂θ| over all w, V, b and c.
        bound: `(K,)` right-hand side of (12).
    """

    lengths: tuple[int, ...]
    measured: Array
    bound: Array


def gradient_bounds(
    model: Model = "unicornn",
    lengths: Sequence[int] = (10, 30, 100, 300, 1000),
    *,
    input_size: int = 2,
    hidden_size: int = 16,
    seed: int = 0,
    **settings: Any,
) -> GradientBounds:
    """Compares gradients of E = 1/N Σ_n ½‖y_n - ȳ_n‖² (10) with the bound (12), on noise x ~ N(0, 1) and targets ȳ ~
    U(-1, 1).

    Args:
        model: "unicornn", a UnICORNN layer, or a `SequenceModel` with one.
        lengths: The lengths N.
        input_size: Channels of the noise for a model given by name.
        hidden_size: Units of a model given by name.
        seed: Random seed of the noise and of a model given by name.
        settings: Settings of a model given by name.

    Example:
        >>> result = gradient_bounds(lengths=[10, 100])
        >>> bool((result.measured < result.bound).all())
        True
    """
    layer = copy.deepcopy(as_layer(model, input_size, hidden_size, seed, **settings)).double().eval()
    cells = cells_of(layer, "the bound (12)")
    if min(float(cell.alpha) for cell in cells) == 0:
        raise ValueError("the bound (12) divides by alpha: it needs alpha > 0 in every layer.")
    rng = torch.Generator().manual_seed(seed)
    measured, bound = [], []
    for length in lengths:
        size = (1, whole("lengths", length, at_least=1))
        x = torch.randn(*size, layer.input_size, generator=rng, dtype=torch.float64)
        target = 2 * torch.rand(*size, layer.output_size, generator=rng, dtype=torch.float64) - 1
        loss = 0.5 * (layer(x)[0] - target).square().sum(-1).mean()
        parameters = [p for p in layer.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(loss, parameters)
        measured.append(max(float(gradient.abs().max()) for gradient in gradients))
        bound.append(gradient_bound(cells, length, float(target.abs().max())))
    return GradientBounds(tuple(lengths), np.array(measured), np.array(bound))


def gradient_bound(cells: Sequence[UnICORNNCell], length: int, largest_target: float) -> float:
    """Returns the right-hand side of (12) after `length` steps; of layers with different Δt or α, the largest bound.

    F and Δ are those of the main text (the Δ of the appendix is missing a factor √2).
    """
    delta_t = max(float(cell.delta_t) for cell in cells)
    time = length * delta_t
    grows = max(2.0, float(cells[-1].w.detach().abs().max()) + float(cells[-1].alpha))
    gamma = grows + grows**2 / 2
    weights = 1.0
    for cell in cells:
        weights *= max(1.0, float(cell.inputs.weight.detach().abs().sum(1).max()))
    stack = sum(delta_t**level for level in range(len(cells)))  # (1 - Δt^L) / (1 - Δt), also for Δt = 1
    factors = []
    for alpha in {float(cell.alpha) for cell in cells}:
        y, z = (float(part) for part in _state_bound(alpha, np.array(time)))
        factors.append((largest_target + y) * (2 + z + (2 + alpha) * y))
    return stack * time * (1 + 2 * gamma * time) * weights * max(factors)


@dataclass(frozen=True)
class Representation(Result):
    """Contribution of step k to ∂E_n/∂w and formula (14) for it, as Δt goes to 0.

    Attributes:
        delta_t: `(K,)` values of Δt.
        steps: n.
        at: k.
        measured: `(K, H)` exact contribution.
        formula: `(K, H)` -Δt σ(c)² t_n tanh'(A) y (y_n - ȳ_n).
    """

    delta_t: tuple[float, ...]
    steps: int
    at: int
    measured: Array
    formula: Array

    @property
    def ratio(self) -> Array:
        """`(K, H)` measured / formula; its limit is (n - k + 1) / n, which is close to 1 for k much smaller than n."""
        return self.measured / self.formula


def representation(
    delta_t: Sequence[float] = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003),
    *,
    steps: int = 100,
    at: int = 3,
    input_size: int = 2,
    hidden_size: int = 16,
    seed: int = 0,
    **settings: Any,
) -> Representation:
    """Checks (14): the contribution of step k to the gradient of E_n = ½‖y_n - ȳ_n‖² with respect to w, for one layer.

    n is fixed while Δt decreases. (The remainder called O(Δt²) in the paper has the relative order t_n² = (n Δt)²: with
    t_n fixed instead, the formula does not become exact.)

    Args:
        delta_t: Values of Δt.
        steps: Number of steps n.
        at: Step k, from 2 (y is 0 before the first step) to n.
        input_size: Channels of the input, constant noise.
        hidden_size: Number of units.
        seed: Random seed of weights, input and target.
        settings: Settings of UnICORNN.

    Example:
        >>> result = representation([1e-2, 1e-3, 1e-4], steps=50, at=2)
        >>> abs(result.ratio - 49 / 50).max(axis=1).round(4).tolist()
        [0.0199, 0.0002, 0.0]
    """
    whole("steps", steps, at_least=2)
    if whole("at", at, at_least=2) > steps:
        raise ValueError(f"at={at} is beyond the last step, steps={steps}.")
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(1, input_size, generator=rng, dtype=torch.float64)
    target = torch.randn(1, hidden_size, generator=rng, dtype=torch.float64)
    shares = []
    for value in delta_t:
        layer = as_layer("unicornn", input_size, hidden_size, seed, delta_t=value, **settings).double()
        shares.append(_share_of_step(cells_of(layer)[0], x, target, steps, at))
    measured, formula = (torch.stack(parts).numpy() for parts in zip(*shares, strict=True))
    return Representation(tuple(delta_t), steps, at, measured, formula)


def _share_of_step(cell: UnICORNNCell, x: Tensor, target: Tensor, steps: int, at: int) -> tuple[Tensor, Tensor]:
    """Returns the exact contribution of step `at` to ∂E_n/∂w, and that of the formula."""
    cell.requires_grad_(False)
    u, state, dt = cell.project(x), cell.initial_state(1, x), x.new_ones(1, 1)
    w = cell.w.clone().requires_grad_()
    before = state[0]
    for n in range(1, steps + 1):
        if n == at:
            before = state[0]
            # Only this step uses the w that is differentiated, so the result is its contribution alone.
            _, state = torch.func.functional_call(cell, {"w": w}, (u, state, dt))
        else:
            _, state = cell(u, state, dt)
    miss = state[0] - target
    (measured,) = torch.autograd.grad(0.5 * miss.square().sum(), w)
    slope = 1 - torch.tanh(cell.w * before + u) ** 2
    formula = -(cell.delta_t**2) * steps * torch.sigmoid(cell.c) ** 2 * slope * before * miss
    return measured.detach(), formula[0].detach()
