"""Oscillators (UnICORNN): energy, phase-space volume, invertibility, and the paper's bounds beside measurements.

All but `phase_space_volume` need UnICORNN itself: other models have no Hamiltonian, no exact inverse and other bounds.
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

from .._checks import one_of, whole
from .._model import SequenceModel
from ..nn._layer import Layer
from ..nn.cells.unicornn import UnICORNNCell
from ._gradients import gradient_flow
from ._instrumented import Inputs, Opened, as_layer, name_of
from ._result import Result

Array = NDArray[np.float64]
Model = str | Layer | SequenceModel


# ---- the Hamiltonian -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Energy(Result):
    """The Hamiltonian (4) of every layer over time.

    Attributes:
        values: `(layers, B, T + 1)`; the first is that of the initial state under the first input.
    """

    values: Array

    @property
    def drift(self) -> Array:
        """`(layers, B)` the largest distance from the first value, in units of it."""
        first = self.values[..., :1]
        return (np.abs(self.values - first) / np.abs(first)).max(-1)


def hamiltonian(cell: UnICORNNCell, u: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """H = Σ_i α/2 y_i² + z_i²/2 + log cosh(w_i y_i + u_i) / w_i, summed over the last axis.

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
    """The Hamiltonian over time: constant up to an oscillation of order Δt while the input is constant.

    Args:
        model: "unicornn", a UnICORNN layer, or a `SequenceModel` with one.
        x: `(B, T, D)` or `(T, D)`.
        dt: as the layer takes it.
        hidden_size: of a model given by name.
        seed: of a model given by name.
        settings: of a model given by name.

    Example:
        >>> import torch
        >>> found = energy("unicornn", torch.ones(500, 1), delta_t=0.01)
        >>> found.values.shape, bool(found.drift.max() < 0.01)
        ((1, 1, 501), True)
    """
    opened = opened_oscillators(as_layer(model, x.shape[-1], hidden_size, seed, **settings), "the Hamiltonian")
    found = motion(opened, opened.enter(x, dt))
    values = []
    for cell, u, y, z in zip(cells_of(opened.layer), found.u, found.y, found.z, strict=True):
        values.append(hamiltonian(cell, torch.cat([u[:1], u]), y, z).T)
    return Energy(torch.stack(values).numpy())


# ---- the volume of phase space ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Volume(Result):
    """How a step changes the volume of a set of states.

    Attributes:
        model: the model's name.
        log10_steps: `(B, T)` log10 |det ∂h_t/∂h_{t-1}|; -inf where a step loses a direction altogether.
    """

    model: str
    log10_steps: Array

    @property
    def log10_volume(self) -> Array:
        """`(B, T + 1)` the volume after each step, 0 (volume 1) at the start."""
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
    """The determinant of every step's Jacobian, of any model of the registry: 1 for UnICORNN.

    The arguments are those of `energy`.

    Example:
        >>> import torch
        >>> x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
        >>> volume = phase_space_volume("unicornn", x, hidden_size=4).log10_volume
        >>> bool(abs(volume).max() < 1e-9)
        True
    """
    how: dict[str, Any] = {"method": "exact", "singular_values": True, **settings}
    flow = gradient_flow(model, x, dt=dt, hidden_size=hidden_size, seed=seed, **how)
    assert flow.step_singular_values is not None
    with np.errstate(divide="ignore"):
        return Volume(flow.model, np.log10(flow.step_singular_values).sum(-1))


# ---- going back ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reconstruction(Result):
    """What the inverse restores, against what was there.

    Attributes:
        delta_t: the Δt tried.
        dtypes: the precisions tried.
        error: `(delta_t, dtypes, T + 1)` the largest error of y and z (all layers and units) after going back
            0, 1, ..., T steps from the end.
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
    """Runs UnICORNN over noise, goes back from its last state by the exact inverse (7), and compares.

    Upper layers are restored from the restored layers below, as training with `memory="low"` does it.

    Args:
        steps: T.
        delta_t: values of Δt.
        dtypes: "float32", "float64", "bfloat16" or "float16".
        input_size: channels of the noise.
        hidden_size: units a layer.
        num_layers: layers.
        seed: of weights and noise.
        settings: of UnICORNN.

    Example:
        >>> found = reconstruction(100, delta_t=[0.1], dtypes=["float64"])
        >>> found.error.shape, bool(found.error.max() < 1e-12)
        ((1, 1, 101), True)
    """
    dice = torch.Generator().manual_seed(seed)
    x = torch.randn(whole("steps", steps, at_least=1), 1, input_size, generator=dice, dtype=torch.float64)
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
    """`(T + 1,)` the largest error of any layer after going back 0, 1, ... steps."""
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
        was, found = (torch.stack([torch.stack(state) for state in path]) for path in (states[::-1], back))
        worst = torch.maximum(worst, (was - found).double().abs().flatten(1).amax(1))
        true.append(was[:-1, 0].flip(0))
        restored.append(found[:-1, 0].flip(0))
    return worst


# ---- shared by the analyses of UnICORNN ------------------------------------------------------------------


class Motion(NamedTuple):
    """Per layer the input u `(T, B, H)` and the states y and z `(T + 1, B, H)`, the initial ones first."""

    u: list[Tensor]
    y: list[Tensor]
    z: list[Tensor]


@torch.no_grad()
def motion(opened: Opened, inputs: Inputs) -> Motion:
    """Every layer's motion under these inputs."""
    start = opened.start(inputs.x.shape[1]).unflatten(-1, (len(opened.cells), 2, -1))
    inside = opened.inside(inputs)
    after = [one.states.unflatten(-1, (2, -1)) for one in inside]
    y, z = (
        [torch.cat([start[None, :, index, part], states[..., part, :]]) for index, states in enumerate(after)]
        for part in (0, 1)
    )
    return Motion([one.cell.project(one.seen) for one in inside], y, z)


def _seen(layer: Layer, levels: list[Tensor], index: int) -> Tensor:
    """What cell `index` of a stack sees, given the input and the outputs of the layers below it."""
    if 0 < layer.residual <= index:
        return torch.cat([levels[index], levels[index - layer.residual]], dim=-1)
    return levels[index]


def opened_oscillators(layer: Layer, what: str) -> Opened:
    """A UnICORNN layer opened; an error that says that `what` needs one if it is another model."""
    cells_of(layer, what)
    return Opened(layer)


def cells_of(layer: Layer, what: str = "this analysis") -> list[UnICORNNCell]:
    """The cells of a UnICORNN layer; an error that says that `what` needs one if it is another model."""
    if layer.cell_class is not UnICORNNCell:
        raise ValueError(
            f"{what} is defined for UnICORNN, whose oscillators are undamped and independent; {name_of(layer)!r} is "
            "none. phase_space_volume and gradient_flow take every model."
        )
    return cast(list[UnICORNNCell], list(layer.cells))
