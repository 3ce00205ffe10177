"""Oscillators (UnICORNN): energy, phase-space volume and invertibility.

All functions except `phase_space_volume` need UnICORNN: other models have no Hamiltonian and no exact inverse.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...model import SequenceModel
from ...nn import Layer
from ...nn.cells.oscillators import UnICORNNCell
from ...settings import one_of, whole
from ...storage import Result
from ._gradients import gradient_flow
from ._instrumented import Inputs, Instrumented, as_layer, name_of

Array = NDArray[np.float64]
Model = str | Layer | SequenceModel


# ---- the Hamiltonian -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Energy(Result):
    """The Hamiltonian (4) of every layer over time.

    Attributes:
        values: `(layers, B, T + 1)`; the first value is for the initial state with the first input.
    """

    values: Array

    @property
    def drift(self) -> Array:
        """`(layers, B)` largest relative deviation from the first value."""
        first = self.values[..., :1]
        return (np.abs(self.values - first) / np.abs(first)).max(-1)


def hamiltonian(cell: UnICORNNCell, u: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Returns H = Σ_i α/2 y_i² + z_i²/2 + log cosh(w_i y_i + u_i) / w_i, summed over the last axis.

    Where w_i = 0 the last term is y_i tanh(u_i), the same potential without its constant.

    Example:
        >>> import torch
        >>> cell = UnICORNNCell(1, 1, alpha=4.0)
        >>> _ = torch.nn.init.zeros_(cell.w)  # without input or w: a harmonic oscillator, 4 y²/2 + z²/2
        >>> hamiltonian(cell, torch.zeros(1), torch.tensor([1.0]), torch.tensor([2.0])).item()
        4.0
    """
    a = (cell.w * y + u).abs()
    log_cosh = a + torch.nn.functional.softplus(-2 * a) - np.log(2)
    flat = cell.w == 0
    potential = torch.where(flat, y * torch.tanh(u), log_cosh / torch.where(flat, 1.0, cell.w))
    return (0.5 * cell.alpha * y**2 + 0.5 * z**2 + potential).sum(-1)


def energy(
    model: Model,
    x: Tensor,
    *,
    dt: Tensor | float | None = None,
    hidden_size: int = 16,
    seed: int = 0,
    **settings: Any,
) -> Energy:
    """Computes the Hamiltonian over time, which is constant up to an oscillation of order Δt for constant input.

    Args:
        model: "unicornn", a UnICORNN layer, or a `SequenceModel` with one.
        x: `(B, T, D)` or `(T, D)`.
        dt: As for the layer.
        hidden_size: Units of a model given by name.
        seed: Random seed of a model given by name.
        settings: Settings of a model given by name.

    Example:
        >>> import torch
        >>> result = energy("unicornn", torch.ones(500, 1), delta_t=0.01)
        >>> result.values.shape, bool(result.drift.max() < 0.01)
        ((1, 1, 501), True)
    """
    instrumented = instrumented_oscillators(
        as_layer(model, x.shape[-1], hidden_size, seed, **settings), "the Hamiltonian"
    )
    states = motion(instrumented, instrumented.enter(x, dt))
    values = []
    for cell, u, y, z in zip(cells_of(instrumented.layer), states.u, states.y, states.z, strict=True):
        values.append(hamiltonian(cell, torch.cat([u[:1], u]), y, z).T)
    return Energy(torch.stack(values).numpy())


# ---- the volume of phase space ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Volume(Result):
    """Change of the volume of a set of states by each step.

    Attributes:
        model: Name of the model.
        log10_steps: `(B, T)` log10 |det ∂h_t/∂h_{t-1}|; -inf if the Jacobian of a step is singular.
    """

    model: str
    log10_steps: Array

    @property
    def log10_volume(self) -> Array:
        """`(B, T + 1)` log10 of the volume after each step, initially 0 (volume 1)."""
        start = np.zeros((len(self.log10_steps), 1))
        return np.concatenate([start, self.log10_steps.cumsum(1)], axis=1)


def phase_space_volume(
    model: Model,
    x: Tensor,
    *,
    dt: Tensor | float | None = None,
    hidden_size: int = 16,
    seed: int = 0,
    **settings: Any,
) -> Volume:
    """Computes the determinant of the Jacobian of every step, for any registered model; it is 1 for UnICORNN.

    The arguments are those of `energy`.

    Example:
        >>> import torch
        >>> x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
        >>> volume = phase_space_volume("unicornn", x, hidden_size=4).log10_volume
        >>> bool(abs(volume).max() < 1e-9)
        True
    """
    options: dict[str, Any] = {"method": "exact", "singular_values": True, **settings}
    flow = gradient_flow(model, x, dt=dt, hidden_size=hidden_size, seed=seed, **options)
    assert flow.step_singular_values is not None
    with np.errstate(divide="ignore"):
        return Volume(flow.model, np.log10(flow.step_singular_values).sum(-1))


# ---- inverse ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reconstruction(Result):
    """Error of the states restored by the inverse.

    Attributes:
        delta_t: Values of Δt.
        dtypes: Precisions.
        error: `(delta_t, dtypes, T + 1)` largest error of y and z (all layers and units) after
            0, 1, ..., T inverse steps from the end.
    """

    delta_t: tuple[float, ...]
    dtypes: tuple[str, ...]
    error: Array


def reconstruction(
    steps: int = 2000,
    *,
    delta_t: Sequence[float] = (0.03, 0.1, 0.3),
    dtypes: Sequence[str] = ("float32", "float64"),
    input_size: int = 2,
    hidden_size: int = 16,
    num_layers: int = 1,
    seed: int = 0,
    **settings: Any,
) -> Reconstruction:
    """Runs UnICORNN on noise, restores its states from the last one by the exact inverse (7), and compares them.

    Layers are restored from the restored previous layers, as in training with `memory="low"`.

    Args:
        steps: Number of steps T.
        delta_t: Values of Δt.
        dtypes: "float32", "float64", "bfloat16" or "float16".
        input_size: Channels of the noise.
        hidden_size: Units per layer.
        num_layers: Number of layers.
        seed: Random seed of weights and noise.
        settings: Settings of UnICORNN.

    Example:
        >>> result = reconstruction(100, delta_t=[0.1], dtypes=["float64"])
        >>> result.error.shape, bool(result.error.max() < 1e-12)
        ((1, 1, 101), True)
    """
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(whole("steps", steps, at_least=1), 1, input_size, generator=rng, dtype=torch.float64)
    errors = []
    for value in delta_t:
        layer = as_layer("unicornn", input_size, hidden_size, seed, num_layers=num_layers, delta_t=value, **settings)
        for dtype in dtypes:
            kind = getattr(torch, one_of("dtypes", dtype, ("float64", "float32", "bfloat16", "float16")))
            errors.append(_error_of_inverse(copy.deepcopy(layer).to(kind), x.to(kind)))
    error = torch.stack(errors).unflatten(0, (len(delta_t), len(dtypes))).numpy()
    return Reconstruction(tuple(delta_t), tuple(dtypes), error)


@torch.no_grad()
def _error_of_inverse(layer: Layer, x: Tensor) -> Tensor:
    """Returns the largest error of any layer after 0, 1, ... inverse steps, `(T + 1,)`."""
    dt = x.new_ones(1, 1)
    true, restored = [x], [x]
    worst = torch.zeros(len(x) + 1, dtype=torch.float64)
    for index, cell in enumerate(cells_of(layer)):
        states = [cell.initial_state(1, x)]
        for u in cell.project(_seen(layer, true, index)):
            states.append(cell(u, states[-1], dt)[1])
        back = [states[-1]]
        for u in cell.project(_seen(layer, restored, index)).flip(0):
            back.append(cell.inverse(u, back[-1], dt))
        was, again = (torch.stack([torch.stack(state) for state in path]) for path in (states[::-1], back))
        worst = torch.maximum(worst, (was - again).double().abs().flatten(1).amax(1))
        true.append(was[:-1, 0].flip(0))
        restored.append(again[:-1, 0].flip(0))
    return worst


# ---- shared by the analyses of UnICORNN ------------------------------------------------------------------


class Motion(NamedTuple):
    """Input u `(T, B, H)` and states y and z `(T + 1, B, H)` of each layer, with the initial states first."""

    u: list[Tensor]
    y: list[Tensor]
    z: list[Tensor]


@torch.no_grad()
def motion(instrumented: Instrumented, inputs: Inputs) -> Motion:
    """Returns the motion of every layer for these inputs."""
    start = instrumented.start(inputs.x.shape[1]).unflatten(-1, (len(instrumented.cells), 2, -1))
    inside = instrumented.inside(inputs)
    after = [one.states.unflatten(-1, (2, -1)) for one in inside]
    y, z = (
        [torch.cat([start[None, :, index, part], states[..., part, :]]) for index, states in enumerate(after)]
        for part in (0, 1)
    )
    return Motion([one.cell.project(one.inputs) for one in inside], y, z)


def _seen(layer: Layer, levels: list[Tensor], index: int) -> Tensor:
    """Returns the input of cell `index` of a stack, given the input and the outputs of the previous layers."""
    if 0 < layer.residual <= index:
        return torch.cat([levels[index], levels[index - layer.residual]], dim=-1)
    return levels[index]


def instrumented_oscillators(layer: Layer, what: str) -> Instrumented:
    """Instruments a UnICORNN layer; raises an error for other models, which mentions `what`."""
    cells_of(layer, what)
    return Instrumented(layer)


def cells_of(layer: Layer, what: str = "this analysis") -> list[UnICORNNCell]:
    """Returns the cells of a UnICORNN layer; raises an error for other models, which mentions `what`."""
    if layer.cell_class is not UnICORNNCell:
        raise ValueError(
            f"{what} is only defined for UnICORNN, whose oscillators are undamped and independent, not for "
            f"{name_of(layer)!r}. phase_space_volume and gradient_flow support all models."
        )
    return cast(list[UnICORNNCell], list(layer.cells))
