"""Trajectories of registered models on the circle, and the time scales on which models react and forget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ...model import SequenceModel
from ...nn import Cell, CTRNNFlow, Layer, LeakyFlow
from ...nn.cells.decay import CTGRUCell, CTLSTMCell, GRUDCell, RNNDecayCell
from ...nn.cells.ltc import LTCCell, SynapticBody
from ...nn.cells.oscillators import CoRNNCell, UnICORNNCell
from ...nn.cells.phased_lstm import PhasedLSTMCell
from ...settings import whole
from ...storage import Result
from ._circle import TURN, Array
from ._expressivity import arc_length, principal
from ._instrumented import Inputs, Inside, Instrumented, as_layer, name_of


@dataclass(frozen=True)
class LayerTrajectory(Result):
    """Trajectory of the outputs of a layer that reads the circle.

    Attributes:
        model: Name of the model.
        latent: `(samples, 2)` trajectory of the outputs in their first two principal components.
        length: Length of the trajectory.
        explained: Explained variance of each component.
    """

    model: str
    latent: Array
    length: float
    explained: Array


@torch.no_grad()
def layer_trajectory(
    model: str | Layer | SequenceModel,
    *,
    samples: int = 500,
    turns: int = 1,
    hidden_size: int = 64,
    seed: int = 0,
    **settings: Any,
) -> LayerTrajectory:
    """Computes the trajectory of any registered model that reads a circle; time is the angle.

    Args:
        model: A registered name, or a layer or `SequenceModel` with two input channels.
        samples: Input samples per turn.
        turns: Number of turns around the circle.
        hidden_size: Units of a model given by name.
        seed: Random seed of a model given by name.
        settings: Settings of a model given by name.

    Example:
        >>> layer_trajectory("lstm", hidden_size=8, samples=100).latent.shape
        (100, 2)
    """
    layer = as_layer(model, 2, hidden_size, seed, **settings)
    if layer.input_size != 2 or layer.outputs != "all":
        raise ValueError(
            "the circle has two channels, and the trajectory needs the output of every step: build the layer with "
            "input_size=2, outputs='all'."
        )
    whole("turns", turns, at_least=1)
    angle = torch.linspace(0, turns * TURN, turns * whole("samples", samples, at_least=3), dtype=torch.float64)
    like = next(layer.parameters())
    x = torch.stack([angle.sin(), angle.cos()], dim=1).to(like)
    training = layer.training
    observed = torch.ones_like(x, dtype=torch.bool) if layer.missing else None
    y, _ = layer.eval()(x, dt=float(angle[1]), observed=observed)
    layer.train(training)
    latent, explained = principal(y.double().numpy())
    return LayerTrajectory(name_of(layer), latent, arc_length(latent), explained)


# ---- time constants --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeConstants(Result):
    """τ_sys of every neuron while an LTC runs.

    Attributes:
        time: `(T,)` the sum of dt (of the first sequence).
        values: `(B, T, H)` τ_sys after each step, in the unit of dt.
        lower: `(H,)` lower bound of theorem 1; NaN if there is none (tanh and hardtanh can be negative).
        upper: `(H,)` upper bound of theorem 1, likewise.
    """

    time: Array
    values: Array
    lower: Array
    upper: Array


@torch.no_grad()
def time_constants(
    model: str | Layer | SequenceModel,
    x: Tensor,
    *,
    dt: Tensor | float | None = None,
    index: int = 0,
    hidden_size: int = 16,
    seed: int = 0,
    **settings: Any,
) -> TimeConstants:
    """Computes τ_sys = 1 / (1/τ + f) of an LTC while it reads `x`, and its range according to theorem 1.

    Args:
        model: "ltc", an LTC layer, or a `SequenceModel` with one; other models have no such time constants.
        x: `(B, T, D)` or `(T, D)`.
        dt: As for the layer.
        index: Index of the layer in a stack.
        hidden_size: Units of a model given by name.
        seed: Random seed of a model given by name.
        settings: Settings of a model given by name.

    Example:
        >>> result = time_constants("ltc", torch.randn(1, 50, 2, generator=torch.Generator().manual_seed(0)))
        >>> bool((result.lower <= result.values).all() and (result.values <= result.upper).all())
        True
    """
    layer = as_layer(model, x.shape[-1], hidden_size, seed, **settings)
    if layer.cell_class is not LTCCell:
        raise ValueError(
            f"only LTC has time constants that depend on state and input; {name_of(layer)!r} has none. "
            "Use model='ltc' or an LTC layer."
        )
    if whole("index", index, at_least=0) >= layer.num_layers:
        raise ValueError(f"index={index} is out of range: the layers are 0 to {layer.num_layers - 1}.")
    instrumented = Instrumented(layer)
    inputs = instrumented.enter(x, dt)
    cell, layer_input, states = instrumented.inside(inputs)[index]
    assert isinstance(cell, LTCCell)
    steps, batch = inputs.x.shape[:2]
    tau = cell.time_constants(layer_input.flatten(0, 1), (states.flatten(0, 1),))
    values = tau.unflatten(0, (steps, batch)).transpose(0, 1).numpy()
    return TimeConstants(inputs.dt[:, 0, 0].cumsum(0).numpy(), values, *_range_of(cell))


def _range_of(cell: LTCCell) -> tuple[Array, Array]:
    """Returns the range of theorem 1: from all gates fully open to all gates closed."""
    body: Any = cell.body
    if isinstance(body, SynapticBody):
        capacity, leak = body.capacity(), body.g_leak()
        opening = body.recurrent.w().sum(0) + body.sensory.w().sum(0)
        return (capacity / (leak + opening)).numpy(), (capacity / leak).numpy()
    tau = F.softplus(body.raw_tau)
    most = {"sigmoid": 1.0, "relu": np.inf}.get(cell.activation)
    if most is None:
        return np.full(len(tau), np.nan), np.full(len(tau), np.nan)
    return (1 / (1 / tau + most)).numpy(), tau.numpy()


FADED, RESOLVED = 5.0, 1.0
"""Gaps of this many time scales are too long: less than 1% of a decaying state remains, and oscillations are missed."""


@dataclass(frozen=True)
class TimeScales(Result):
    """Intrinsic time scales of the units of a model.

    Attributes:
        what: Description of the time scale.
        values: Time scales of all units of all layers, shortest first, in the unit of dt; infinite for a constant unit.
        most: Number of time scales above which a gap is too long.
    """

    what: str
    values: NDArray[np.float64]
    most: float

    @property
    def low(self) -> float:
        """The 10% quantile."""
        return float(np.quantile(self.values, 0.1, method="nearest"))

    @property
    def high(self) -> float:
        """The 90% quantile."""
        return float(np.quantile(self.values, 0.9, method="nearest"))


@torch.no_grad()
def time_scales(model: Layer | SequenceModel, x: Tensor, **times: Any) -> TimeScales | None:
    """Returns the time scale of every unit, for models that have them; None for all others.

    The scales of LTC and CT-LSTM depend on the data: the median over all steps is used. CT-RNN, RNN-decay, GRU-D,
    CT-GRU and phased LSTM have fixed ones (decay times, or periods), UnICORNN and coRNN the time that their
    oscillators need for one unit of their own time, 1 / (Δt σ(c)) and 1 / Δt. An mmRNN only has them with the flow
    "ctrnn".

    Args:
        model: A layer or a `SequenceModel` (whose layer is analyzed).
        x: Input of the layer.
        times: dt, t, lengths and observed, as for the layer.

    Example:
        >>> import chronode
        >>> result = time_scales(chronode.create("unicornn", 1, 4, delta_t=0.5), torch.zeros(1, 3, 1))
        >>> result.what, result.values.round().tolist()
        ('the time of an oscillator 1/(Δt σ(c))', [4.0, 4.0, 4.0, 4.0])
    """
    instrumented = Instrumented(as_layer(model, 1, 1, 0))
    inputs = instrumented.enter(x, **times)
    scales_of_cells = [_of_cell(one, _valid(inputs)) for one in instrumented.inside(inputs)]
    defined = [one for one in scales_of_cells if one is not None]
    if not defined:
        return None
    values = torch.cat([scales.flatten() for _, scales in defined]).sort().values.numpy()
    most = RESOLVED if isinstance(instrumented.cells[0], (UnICORNNCell, CoRNNCell)) else FADED
    return TimeScales(defined[0][0], values, most)


def _valid(inputs: Inputs) -> Tensor:
    """Returns the mask of steps that are not padding, `(T, B)`."""
    steps, batch = inputs.x.shape[:2]
    ends = torch.full((batch,), steps) if inputs.lengths is None else inputs.lengths
    return torch.arange(steps)[:, None] < ends


def _of_cell(inside: Inside, valid: Tensor) -> tuple[str, Tensor] | None:
    """Returns a description and the time scale of each unit."""
    cell: Any = inside.cell
    if isinstance(cell, LTCCell):
        now = cell.time_constants(inside.inputs[valid], (inside.states[valid],))
        return "the time constant τ_sys", now.median(0).values
    if isinstance(cell, CTLSTMCell):
        rates = inside.states[valid].unflatten(-1, (4, -1))[:, 2]
        return "the decay time 1/δ of the memory", 1 / rates.median(0).values
    if isinstance(cell, UnICORNNCell):
        return "the time of an oscillator 1/(Δt σ(c))", 1 / (cell.delta_t * torch.sigmoid(cell.c))
    if isinstance(cell, CoRNNCell):
        return "the time of an oscillator 1/Δt", 1 / cell.delta_t.expand(cell.hidden_size)
    if isinstance(cell, CTGRUCell):
        return "the decay time τ of the traces", cell.log_tau.exp()
    if isinstance(cell, PhasedLSTMCell):
        return "the period", cell.log_period.exp()
    return _of_decay(cell)


def _of_decay(cell: Cell) -> tuple[str, Tensor] | None:
    """Returns the decay times of cells whose decay rate does not depend on the data."""
    text = "the decay time of the state"
    if isinstance(cell, RNNDecayCell):
        return text, 1 / F.softplus(cell.tau)
    if isinstance(cell, GRUDCell):
        return text, 1 / cell.decay.weight.sum(1).clamp(min=0)  # if all inputs were observed at the last step
    flow = getattr(cell, "flow", None)
    if isinstance(flow, LeakyFlow):
        return text, 1 / F.softplus(flow.rate)
    if isinstance(flow, CTRNNFlow):
        return text, torch.ones(cell.hidden_size, dtype=torch.float64)
    return None
