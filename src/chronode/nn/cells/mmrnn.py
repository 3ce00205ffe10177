"""mmRNN: a discrete memory cell next to a continuous-time state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ...settings import number, one_of
from .._cell import InputMapCell, State, Step
from .._flows import make_flow
from .._registry import register
from .._solvers import FlowSolver

VARIANTS = ("gated", "paper", "driven")


@register("mmrnn", paper="Mixed-memory RNN (ICLR 2021 submission, ODE-LSTM)", time="native")
class MixedMemoryCell(InputMapCell):
    """mmRNN: an LSTM memory c next to a state h that flows for the time dt.

        a_f, a_i, a_z, a_o = W x + U h + b               (b_f starts at forget_bias, the rest at 0)
        c' = c ⊙ σ(a_f) + σ(a_i) ⊙ tanh(a_z)
        gated:   h' = ODESolve(f, σ(a_o) ⊙ tanh(c'), dt)
        paper:   h' = ODESolve(f, c', dt)                 (no output gate)
        driven:  h' = ODESolve(f(., u), h, dt),  u = σ(a_o) ⊙ tanh(c')
        y  = h'

    State: (c, h).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H of both c and h.
        variant: "gated", "paper" (the paper's equations 3-4) or "driven" (what produced the paper's tables).
        flow: The field f: "mlp", "ctrnn", "gru" or "ltc" (see `chronode.nn._flows`); by default "ctrnn" for driven,
            else "mlp".
        forget_bias: Initial b_f; σ(forget_bias) is the error flow of the memory at the start of training.
        solver: "euler", "midpoint", "heun", "rk4", the adaptive "dopri5" or, for flows with a leak (all but "mlp"),
            "exponential", which stays bounded however long dt is (see `FlowSolver`).
        steps: Number of sub-steps of a fixed-step solver in each dt.
        adjoint: Use adjoint gradients (adaptive solver only) instead of backpropagation through the solver.
        rtol: Relative tolerance of the adaptive solver.
        atol: Absolute tolerance of the adaptive solver.
    """

    state_parts = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        variant: str = "gated",
        flow: str | None = None,
        forget_bias: float = 3.0,
        solver: str = "euler",
        steps: int = 4,
        adjoint: bool = False,
        rtol: float = 1e-5,
        atol: float = 1e-7,
    ):
        super().__init__(input_size, hidden_size)
        self.variant = one_of("variant", variant, VARIANTS)
        self.solver = solver
        self.solve = FlowSolver(solver, steps, rtol=rtol, atol=atol, adjoint=adjoint)
        driven = variant == "driven"
        self.flow_name = flow or ("ctrnn" if driven else "mlp")
        self.flow = make_flow(self.flow_name, hidden_size, hidden_size if driven else 0)
        self.gates = 3 if variant == "paper" else 4
        self.inputs = nn.Linear(input_size, self.gates * hidden_size)
        self.recurrent = nn.Linear(hidden_size, self.gates * hidden_size, bias=False)
        with torch.no_grad():
            self.inputs.bias.zero_()
            self.inputs.bias[:hidden_size] = number("forget_bias", forget_bias)

    def prepare(self) -> Step:
        """Returns the step with the products of the weights of the flow computed once."""
        return partial(self._step, self.solve.prepared(self.flow))

    def _step(self, solve: Callable[..., Tensor], x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        c, h = state
        forget, write, value, *out = (x + self.recurrent(h)).chunk(self.gates, dim=-1)
        c = c * torch.sigmoid(forget) + torch.sigmoid(write) * torch.tanh(value)
        memory = torch.sigmoid(out[0]) * torch.tanh(c) if out else c
        h = solve(h, dt, self.flow.drive(memory)) if self.variant == "driven" else solve(memory, dt)
        return h, (c, h)
