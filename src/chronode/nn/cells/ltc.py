"""LTC: liquid time-constant networks, whose time constants depend on the state and the input."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels import Kernel, ltc
from ...settings import flag, one_of, whole
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
"""Range of clipped weights, as in the code of the paper."""


class Positive:
    """Maps a free parameter to a positive value: softplus(raw), or raw clipped to a range ("clip").

    A clipped value has the gradient of raw itself, so that it can leave the end of the range again.
    """

    def __init__(self, weights: str):
        self.clips = one_of("weights", weights, WEIGHTS) == "clip"

    def raw(self, value: Tensor) -> nn.Parameter:
        """Returns the parameter for a value."""
        return nn.Parameter(value.clone() if self.clips else value.expm1().log())

    def __call__(self, raw: Tensor) -> Tensor:
        """Returns the positive value of a parameter."""
        return raw + (raw.clamp(LEAST, MOST) - raw).detach() if self.clips else F.softplus(raw)


class Synapses(nn.Module):
    """Conductance-based synapses: each pulls its neuron towards its own reversal potential.

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
        """Returns the largest conductance of each synapse, `(from, to)`."""
        return self.positive(self.raw_w) * self.mask

    def stacked(self) -> Tensor:
        """Returns w, m, s and e as `(4, from, to)`."""
        return torch.stack([self.w(), self.m, self.s, self.e])

    def forward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the summed conductance and current `(B, to)` for presynaptic potentials `v (B, from)`."""
        g = self.w() * torch.sigmoid(self.s * (v.unsqueeze(-1) - self.m))
        return g.sum(1), (g * self.e).sum(1)


class SynapticBody(nn.Module):
    """c dv/dt = g_l (v_l - v) + Σ g (E - v) + Σ g_in (E_in - v): neurons with a leak and two types of synapses."""

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
        """Returns the conductance and current of inputs and leak, which are constant within a step."""
        conductance, current = self.sensory(x)
        g_leak = self.g_leak()
        return conductance + g_leak, current + g_leak * self.v_leak

    def rates(self, v: Tensor, conductance: Tensor, current: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (G, J) of dv/dt = J - G v."""
        inner_conductance, inner_current = self.recurrent(v)
        capacity = self.capacity()
        return (conductance + inner_conductance) / capacity, (current + inner_current) / capacity

    def kernel_reads(self, unfolds: int, outputs: int) -> ltc.SynapticReads:
        """Returns the data for the kernel."""
        g_leak = self.g_leak()
        neurons = torch.stack([g_leak, g_leak * self.v_leak, 1 / self.capacity()])
        return ltc.SynapticReads(None, self.recurrent.stacked(), self.sensory.stacked(), neurons, unfolds, outputs)


class MaskedLinear(nn.Linear):
    """Linear map with masked weights."""

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns (W ⊙ mask) x + b."""
        return F.linear(input, self.weight if mask is None else self.weight * mask, self.bias)


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
        """Returns the contribution of the input to f."""
        return (self.inputs(x, self.input_mask),)

    def rates(self, v: Tensor, drive: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (G, J) of dv/dt = J - G v."""
        f = ACTIVATIONS[self.activation](self.recurrent(v, self.recurrent_mask) + drive)
        return 1 / F.softplus(self.raw_tau) + f, f * self.target


@register("ltc", paper="Hasani et al. 2021, Liquid time-constant networks", time="native")
class LTCCell(Cell):
    """LTC: dv/dt = J(v, x) - G(v, x) v, so the time constant 1/G depends on the state and the input.

        dense:     G = 1/τ + f,  J = f ⊙ A,  f = act(W_r v + W x + b)
        synaptic:  c G = g_l + Σ g + Σ g_in,  c J = g_l v_l + Σ g E + Σ g_in E_in,  g_ji = w_ji σ(s_ji (v_j - m_ji))
        fused solver, `unfolds` times with δ = dt / unfolds:  v ← (v + δ J) / (1 + δ G),  G, J at the old v
        y = v  (of the motor neurons if the wiring is "ncp")
        with `input_map`:  a ⊙ x + b in place of x, with trained a and b (initially 1 and 0)

    The fused step is bounded for every dt. State: (v,). τ, c, g_l and w are positive by construction.

    The code behind the tables of the paper uses the synaptic form with `input_map=True` and `weights="clip"`, and it
    applies the whole capacity c in each of its 6 unfolds (δ = 1): its step is this one with dt = 6.

    Args:
        input_size: Number of features D.
        hidden_size: Number of neurons H.
        form: "synaptic" (neurons and synapses, as in the experiments of the paper) or "dense" (Algorithm 1 of the
            paper).
        activation: Activation of the dense form: "sigmoid", "tanh", "relu" or "hardtanh"; the bounds of the paper hold
            for f ≥ 0.
        wiring: "full", "sparse", "ncp" (neural circuit policy: inputs → inter → command → motor neurons) or "own".
        density: Share of the connections that exist in a sparse or ncp wiring.
        motor: Number of motor neurons of an ncp or own wiring; they are the output.
        wiring_seed: Seed of the random wiring.
        inter: Number of inter neurons of an ncp wiring, or a list with those of several layers.
        connections: Mask of an own wiring: `D + H` rows (inputs, then neurons) of `H` zeros and ones.
        solver: "fused", or one of "euler", "midpoint", "heun", "rk4", "dopri5".
        unfolds: Number of sub-steps in each dt (fused and fixed-step solvers).
        input_map: Whether each input feature has a trained scale and offset. (A linear head does the same for outputs.)
        weights: Constraint that keeps w, g_l and c of the synaptic form positive: "softplus" of a free parameter, or
            "clip": clipped to [1e-5, 1000], as in the code of the paper (which clips them after each training step).
    """

    sequence_kernel = Kernel(
        ltc.run,
        settings={"form": ("synaptic",), "solver": ("fused",)},
        parts=(SynapticBody, Synapses, Positive),
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
        inter: int | list[int] | None = None,
        connections: list[list[int]] | None = None,
    ):
        super().__init__(input_size, hidden_size)
        one_of("form", form, FORMS)
        if form == "synaptic" and activation != "sigmoid":
            raise ValueError(f"activation={activation!r} needs form='dense'; synapses are sigmoids.")
        if one_of("weights", weights, WEIGHTS) != "softplus" and form != "synaptic":
            raise ValueError(f"weights={weights!r} needs form='synaptic', got form={form!r}.")
        masks = make_wiring(
            *(wiring, input_size, hidden_size, density, motor, wiring_seed), inter=inter, connections=connections
        )
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
        """Returns x, or a ⊙ x + b."""
        if self.input_scale is None or self.input_offset is None:
            return x
        return x * self.input_scale + self.input_offset

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (v,) = state
        held = self.body.held(x)
        v = self._fused(v, dt, held) if self.solve is None else self.solve(self._field, v, dt, *held)
        return v[..., -self.output_size :], (v,)

    def kernel_reads(self) -> ltc.SynapticReads:
        """Returns the synapses of the body and the settings of the solver."""
        assert isinstance(self.body, SynapticBody)
        reads = self.body.kernel_reads(self.unfolds, self.output_size)
        if self.input_scale is None or self.input_offset is None:
            return reads
        return reads._replace(input_map=(self.input_scale, self.input_offset))

    def time_constants(self, x: Tensor, state: State) -> Tensor:
        """Returns τ_sys = 1 / G `(B, H)`, the current time constant of each neuron for input `x (B, D)`."""
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
