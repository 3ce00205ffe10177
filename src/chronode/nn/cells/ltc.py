"""LTC: liquid time-constant networks, whose time constants depend on the state and the input."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..._checks import flag, one_of, whole
from ...kernels import Kernel
from ...kernels import _ltc as ltc
from .._cell import Cell, State
from .._flows import inverse_softplus
from .._registry import register
from .._solvers import NAMES as SOLVERS
from .._solvers import Solver
from .._wiring import Wiring, make_wiring

FORMS = ("synaptic", "dense")
ACTIVATIONS = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": F.relu, "hardtanh": F.hardtanh}
WEIGHTS = ("softplus", "clip")
LEAST, MOST = 1e-5, 1e3
"""The range of clipped weights, as in the program of the paper."""


class Positive:
    """A positive value made of a free parameter: softplus(raw), or raw held within a range ("clip").

    A clipped value has the gradient of raw itself, so that it can come back from the end of the range.
    """

    def __init__(self, weights: str):
        self.clips = one_of("weights", weights, WEIGHTS) == "clip"

    def raw(self, value: Tensor) -> nn.Parameter:
        """The parameter for that value."""
        return nn.Parameter(value.clone() if self.clips else value.expm1().log())

    def __call__(self, raw: Tensor) -> Tensor:
        """The value."""
        return raw + (raw.clamp(LEAST, MOST) - raw).detach() if self.clips else F.softplus(raw)


class Synapses(nn.Module):
    """Conductance-based synapses: a current that pulls the neuron towards each synapse's own potential.

        g_ji = w_ji σ(s_ji (v_j - m_ji));   conductance Σ_j g_ji;   current Σ_j g_ji E_ji

    w ≥ 0 by construction: w = positive(raw) ⊙ mask.
    """

    def __init__(self, mask: Tensor, positive: Positive):
        super().__init__()
        self.register_buffer("mask", mask)
        self.positive = positive
        self.raw_w = positive.raw(torch.empty_like(mask).uniform_(0.01, 1))
        self.m = nn.Parameter(torch.empty_like(mask).uniform_(0.3, 0.8))
        self.s = nn.Parameter(torch.empty_like(mask).uniform_(3, 8))
        self.e = nn.Parameter(torch.randint(0, 2, mask.shape) * 2.0 - 1.0)

    def w(self) -> Tensor:
        """The largest conductance of each synapse, `(from, to)`."""
        return self.positive(self.raw_w) * self.mask

    def stacked(self) -> Tensor:
        """`(4, from, to)`: w, m, s, e."""
        return torch.stack([self.w(), self.m, self.s, self.e])

    def forward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Summed conductance and current `(B, to)` for presynaptic potentials `v (B, from)`."""
        g = self.w() * torch.sigmoid(self.s * (v.unsqueeze(-1) - self.m))
        return g.sum(1), (g * self.e).sum(1)


class SynapticBody(nn.Module):
    """c dv/dt = g_l (v_l - v) + Σ g (E - v) + Σ g_in (E_in - v): neurons with a leak and two kinds of synapses."""

    def __init__(self, wiring: Wiring, weights: str = "softplus"):
        super().__init__()
        size = wiring.recurrent.shape[0]
        self.positive = Positive(weights)
        self.sensory = Synapses(wiring.inputs, self.positive)
        self.recurrent = Synapses(wiring.recurrent, self.positive)
        self.v_leak = nn.Parameter(torch.empty(size).uniform_(-0.2, 0.2))
        self.raw_g_leak = self.positive.raw(torch.full((size,), 1.0))
        self.raw_capacity = self.positive.raw(torch.full((size,), 0.5))

    def g_leak(self) -> Tensor:
        """g_l `(H,)`."""
        return self.positive(self.raw_g_leak)

    def capacity(self) -> Tensor:
        """c `(H,)`."""
        return self.positive(self.raw_capacity)

    def held(self, x: Tensor) -> tuple[Tensor, ...]:
        """The inputs' and the leak's share of conductance and current; constant within a step."""
        conductance, current = self.sensory(x)
        g_leak = self.g_leak()
        return conductance + g_leak, current + g_leak * self.v_leak

    def rates(self, v: Tensor, conductance: Tensor, current: Tensor) -> tuple[Tensor, Tensor]:
        """(G, J) of dv/dt = J - G v."""
        inner_conductance, inner_current = self.recurrent(v)
        capacity = self.capacity()
        return (conductance + inner_conductance) / capacity, (current + inner_current) / capacity

    def kernel_reads(self, unfolds: int, outputs: int) -> ltc.SynapticReads:
        """What the kernel reads."""
        g_leak = self.g_leak()
        neurons = torch.stack([g_leak, g_leak * self.v_leak, 1 / self.capacity()])
        return ltc.SynapticReads(None, self.recurrent.stacked(), self.sensory.stacked(), neurons, unfolds, outputs)


class MaskedLinear(nn.Linear):
    """A linear map of which a mask leaves some weights out."""

    def masked(self, mask: Tensor) -> Tensor:
        """The weights that are left."""
        return self.weight * mask

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        """(W ⊙ mask) x + b."""
        return F.linear(input, self.weight if mask is None else self.masked(mask), self.bias)


class DenseBody(nn.Module):
    """dv/dt = -[1/τ + f] v + f A,  f = act(W_r v + W x + b): the paper's Algorithm 1."""

    def __init__(self, wiring: Wiring, activation: str):
        super().__init__()
        inputs, size = wiring.inputs.shape
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.register_buffer("input_mask", wiring.inputs.T.contiguous())
        self.register_buffer("recurrent_mask", wiring.recurrent.T.contiguous())
        self.inputs = MaskedLinear(inputs, size)
        self.recurrent = MaskedLinear(size, size, bias=False)
        self.raw_tau = nn.Parameter(torch.full((size,), inverse_softplus(1.0)))
        self.target = nn.Parameter(torch.empty(size).uniform_(-1, 1))

    def held(self, x: Tensor) -> tuple[Tensor, ...]:
        """The input's share of f."""
        return (self.inputs(x, self.input_mask),)

    def rates(self, v: Tensor, drive: Tensor) -> tuple[Tensor, Tensor]:
        """(G, J) of dv/dt = J - G v."""
        f = ACTIVATIONS[self.activation](self.recurrent(v, self.recurrent_mask) + drive)
        return 1 / F.softplus(self.raw_tau) + f, f * self.target

    def kernel_reads(self, unfolds: int, outputs: int) -> ltc.DenseReads:
        """What the kernel reads."""
        inputs = (self.inputs.masked(self.input_mask), self.inputs.bias)
        neurons = torch.stack([1 / F.softplus(self.raw_tau), self.target])
        recurrent = self.recurrent.masked(self.recurrent_mask)
        return ltc.DenseReads(None, inputs, recurrent, neurons, self.activation, unfolds, outputs)


@register("ltc", paper="Hasani et al. 2021, Liquid time-constant networks", time="native")
class LTCCell(Cell):
    """LTC: dv/dt = J(v, x) - G(v, x) v, so that 1/G is a time constant that state and input move.

        dense:     G = 1/τ + f,  J = f ⊙ A,  f = act(W_r v + W x + b)
        synaptic:  c G = g_l + Σ g + Σ g_in,  c J = g_l v_l + Σ g E + Σ g_in E_in,  g_ji = w_ji σ(s_ji (v_j - m_ji))
        fused solver, `unfolds` times with δ = dt / unfolds:  v ← (v + δ J) / (1 + δ G),  G, J at the old v
        y = v  (of the motor neurons with wiring "ncp")
        with `input_map`:  a ⊙ x + b in place of x, a and b trained (1 and 0 at the start)

    The fused step is bounded for every dt. State: (v,). τ, c, g_l and w are positive by construction.

    The program behind the paper's tables has the synaptic form with `input_map=True` and `weights="clip"`, and it
    applies the whole capacity c in each of its 6 unfolds (δ = 1): its step is this one with dt = 6.

    Args:
        input_size: features D.
        hidden_size: neurons H.
        form: "synaptic" (neurons and synapses of the paper's experiments) or "dense" (the paper's Algorithm 1).
        activation: of the dense form: "sigmoid", "tanh", "relu" or "hardtanh"; the paper's bounds hold for f ≥ 0.
        wiring: "full", "sparse" or "ncp" (see `wiring.make_wiring`).
        density: share of the connections that a sparse or ncp wiring makes.
        motor: motor neurons of an ncp wiring; they are the output.
        wiring_seed: seed of the random wiring.
        solver: "fused", or one of "euler", "midpoint", "heun", "rk4", "dopri5".
        unfolds: sub-steps in each dt (of the fused and fixed solvers).
        input_map: whether each input feature has a trained scale and offset. (A linear head does the same for outputs.)
        weights: how w, g_l and c of the synaptic form stay positive: "softplus" of a free parameter, or "clip": held
            within 1e-5 and 1000, as in the paper's program (which clips the parameters after each step of training).
    """

    sequence_kernel = Kernel(
        ltc.run,
        settings={"solver": ("fused",)},
        parts=(SynapticBody, DenseBody, Synapses, MaskedLinear, Positive),
        bind=ltc.bind,
    )

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
        input_map: bool = False,
        weights: str = "softplus",
    ):
        super().__init__(input_size, hidden_size)
        one_of("form", form, FORMS)
        if form == "synaptic" and activation != "sigmoid":
            raise ValueError(f"activation={activation!r} goes with form='dense'; synapses are sigmoids.")
        if one_of("weights", weights, WEIGHTS) != "softplus" and form != "synaptic":
            raise ValueError(f"weights={weights!r} goes with form='synaptic', not {form!r}.")
        masks = make_wiring(wiring, input_size, hidden_size, density, motor, wiring_seed)
        self.output_size = masks.outputs
        self.form, self.activation = form, activation
        self.body = SynapticBody(masks, weights) if form == "synaptic" else DenseBody(masks, activation)
        self.unfolds = whole("unfolds", unfolds, at_least=1)
        self.solver = one_of("solver", solver, ("fused", *SOLVERS))
        self.solve = None if solver == "fused" else Solver(solver, unfolds)
        mapped = flag("input_map", input_map)
        self.input_scale = nn.Parameter(torch.ones(input_size)) if mapped else None
        self.input_offset = nn.Parameter(torch.zeros(input_size)) if mapped else None

    def project(self, x: Tensor) -> Tensor:
        """x, or a ⊙ x + b."""
        if self.input_scale is None or self.input_offset is None:
            return x
        return x * self.input_scale + self.input_offset

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        (v,) = state
        held = self.body.held(x)
        v = self._fused(v, dt, held) if self.solve is None else self.solve(self._field, v, dt, *held)
        return v[..., -self.output_size :], (v,)

    def kernel_reads(self) -> ltc.SynapticReads | ltc.DenseReads:
        """The synapses or weights of the body, and how its neurons are solved."""
        reads = self.body.kernel_reads(self.unfolds, self.output_size)
        if self.input_scale is None or self.input_offset is None:
            return reads
        return reads._replace(input_map=(self.input_scale, self.input_offset))

    def time_constants(self, x: Tensor, state: State) -> Tensor:
        """τ_sys = 1 / G `(B, H)`: each neuron's time constant now, for input `x (B, D)`."""
        conductance, _ = self.body.rates(state[0], *self.body.held(self.project(x)))
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
