"""LTC: liquid time-constant networks, whose time constants depend on the state and the input."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._checks import one_of, whole
from ..kernels import Kernel, ltc
from .cell import Cell, State, overrides
from .flows import inverse_softplus
from .registry import register
from .solvers import NAMES as SOLVERS
from .solvers import Solver
from .wiring import Wiring, make_wiring

FORMS = ("synaptic", "dense")
ACTIVATIONS = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": F.relu, "hardtanh": F.hardtanh}


class Synapses(nn.Module):
    """Conductance-based synapses: a current that pulls the neuron towards each synapse's own potential.

        g_ji = w_ji σ(s_ji (v_j - m_ji));   conductance Σ_j g_ji;   current Σ_j g_ji E_ji

    w ≥ 0 by construction: w = softplus(raw) ⊙ mask.
    """

    def __init__(self, mask: Tensor):
        super().__init__()
        self.register_buffer("mask", mask)
        self.raw_w = nn.Parameter(_inverse_softplus(torch.empty_like(mask).uniform_(0.01, 1)))
        self.m = nn.Parameter(torch.empty_like(mask).uniform_(0.3, 0.8))
        self.s = nn.Parameter(torch.empty_like(mask).uniform_(3, 8))
        self.e = nn.Parameter(torch.randint(0, 2, mask.shape) * 2.0 - 1.0)

    def w(self) -> Tensor:
        """The largest conductance of each synapse, `(from, to)`."""
        return F.softplus(self.raw_w) * self.mask

    def forward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Summed conductance and current `(B, to)` for presynaptic potentials `v (B, from)`."""
        g = self.w() * torch.sigmoid(self.s * (v.unsqueeze(-1) - self.m))
        return g.sum(1), (g * self.e).sum(1)


class SynapticBody(nn.Module):
    """c dv/dt = g_l (v_l - v) + Σ g (E - v) + Σ g_in (E_in - v): neurons with a leak and two kinds of synapses."""

    def __init__(self, wiring: Wiring):
        super().__init__()
        size = wiring.recurrent.shape[0]
        self.sensory = Synapses(wiring.inputs)
        self.recurrent = Synapses(wiring.recurrent)
        self.v_leak = nn.Parameter(torch.empty(size).uniform_(-0.2, 0.2))
        self.raw_g_leak = nn.Parameter(torch.full((size,), inverse_softplus(1.0)))
        self.raw_capacity = nn.Parameter(torch.full((size,), inverse_softplus(0.5)))

    def held(self, x: Tensor) -> tuple[Tensor, ...]:
        """The inputs' and the leak's share of conductance and current; constant within a step."""
        conductance, current = self.sensory(x)
        g_leak = F.softplus(self.raw_g_leak)
        return conductance + g_leak, current + g_leak * self.v_leak

    def rates(self, v: Tensor, conductance: Tensor, current: Tensor) -> tuple[Tensor, Tensor]:
        """(G, J) of dv/dt = J - G v."""
        inner_conductance, inner_current = self.recurrent(v)
        capacity = F.softplus(self.raw_capacity)
        return (conductance + inner_conductance) / capacity, (current + inner_current) / capacity


class DenseBody(nn.Module):
    """dv/dt = -[1/τ + f] v + f A,  f = act(W_r v + W x + b): the paper's Algorithm 1."""

    def __init__(self, wiring: Wiring, activation: str):
        super().__init__()
        inputs, size = wiring.inputs.shape
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.register_buffer("input_mask", wiring.inputs.T.contiguous())
        self.register_buffer("recurrent_mask", wiring.recurrent.T.contiguous())
        self.inputs = nn.Linear(inputs, size)
        self.recurrent = nn.Linear(size, size, bias=False)
        self.raw_tau = nn.Parameter(torch.full((size,), inverse_softplus(1.0)))
        self.target = nn.Parameter(torch.empty(size).uniform_(-1, 1))

    def held(self, x: Tensor) -> tuple[Tensor, ...]:
        """The input's share of f."""
        return (F.linear(x, self.inputs.weight * self.input_mask, self.inputs.bias),)

    def rates(self, v: Tensor, drive: Tensor) -> tuple[Tensor, Tensor]:
        """(G, J) of dv/dt = J - G v."""
        f = ACTIVATIONS[self.activation](F.linear(v, self.recurrent.weight * self.recurrent_mask) + drive)
        return 1 / F.softplus(self.raw_tau) + f, f * self.target


@register("ltc", paper="Hasani et al. 2021, Liquid time-constant networks", time="native")
class LTCCell(Cell):
    """LTC: dv/dt = J(v, x) - G(v, x) v, so that 1/G is a time constant that state and input move.

        dense:     G = 1/τ + f,  J = f ⊙ A,  f = act(W_r v + W x + b)
        synaptic:  c G = g_l + Σ g + Σ g_in,  c J = g_l v_l + Σ g E + Σ g_in E_in,  g_ji = w_ji σ(s_ji (v_j - m_ji))
        fused solver, `unfolds` times with δ = dt / unfolds:  v ← (v + δ J) / (1 + δ G),  G, J at the old v
        y = v  (of the motor neurons with wiring "ncp")

    State: (v,). τ, c, g_l and w are positive by construction (softplus).

    Args:
        input_size: features D.
        hidden_size: neurons H.
        form: "synaptic" (what the paper's experiments ran) or "dense" (the paper's Algorithm 1).
        activation: of the dense form: "sigmoid", "tanh", "relu" or "hardtanh"; the paper's bounds hold for f ≥ 0.
        wiring: "full", "sparse" or "ncp" (see `wiring.make_wiring`).
        density: share of the connections that a sparse or ncp wiring makes.
        motor: motor neurons of an ncp wiring; they are the output.
        wiring_seed: seed of the random wiring.
        solver: "fused", or one of "euler", "midpoint", "heun", "rk4", "dopri5".
        unfolds: sub-steps in each dt (of the fused and fixed solvers).
    """

    kernel_for = "solver fused, any form, activation and wiring"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        form: str = "synaptic",
        activation: str = "sigmoid",
        wiring: str = "full",
        density: float = 0.5,
        motor: int | None = None,
        wiring_seed: int = 0,
        solver: str = "fused",
        unfolds: int = 6,
    ):
        super().__init__(input_size, hidden_size)
        one_of("form", form, FORMS)
        if form == "synaptic" and activation != "sigmoid":
            raise ValueError(f"activation={activation!r} goes with form='dense'; synapses are sigmoids.")
        masks = make_wiring(wiring, input_size, hidden_size, density, motor, wiring_seed)
        self.output_size = masks.outputs
        self.form, self.activation = form, activation
        self.body = SynapticBody(masks) if form == "synaptic" else DenseBody(masks, activation)
        self.unfolds = whole("unfolds", unfolds, at_least=1)
        self.solver = one_of("solver", solver, ("fused", *SOLVERS))
        self.solve = None if solver == "fused" else Solver(solver, unfolds)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        (v,) = state
        held = self.body.held(x)
        v = self._fused(v, dt, held) if self.solve is None else self.solve(self._field, v, dt, *held)
        return v[..., -self.output_size :], (v,)

    def kernel(self) -> Kernel | None:
        """For both forms with the fused solver, unless a subclass changed them."""
        return Kernel(ltc.run) if self.solve is None and not overrides(self, LTCCell) else None

    def time_constants(self, x: Tensor, state: State) -> Tensor:
        """τ_sys = 1 / G `(B, H)`: each neuron's time constant now, for input `x (B, D)`."""
        conductance, _ = self.body.rates(state[0], *self.body.held(x))
        return 1 / conductance

    def _field(self, v: Tensor, *held: Tensor) -> Tensor:
        conductance, current = self.body.rates(v, *held)
        return current - conductance * v

    def _fused(self, v: Tensor, dt: Tensor, held: tuple[Tensor, ...]) -> Tensor:
        step = dt / self.unfolds
        for _ in range(self.unfolds):
            conductance, current = self.body.rates(v, *held)
            v = (v + step * current) / (1 + step * conductance)
        return v


def _inverse_softplus(value: Tensor) -> Tensor:
    return value.expm1().log()
