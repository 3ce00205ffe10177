"""CT-RNN, neural ODE and GRU-ODE: the input is held constant in the vector field."""

from __future__ import annotations

from torch import Tensor

from .._cell import Cell, State
from .._flows import make_flow
from .._registry import register
from .._solvers import FlowSolver


@register("ct-rnn", paper="Funahashi & Nakamura 1993, CT-RNN", time="native")
@register(
    "neural-ode",
    paper="Chen et al. 2018, neural ODE with the input in the field",
    time="native",
    flow="tanh",
    solver="rk4",
)
@register(
    "gru-ode",
    paper="De Brouwer et al. 2019, GRU-ODE with the input in the field",
    time="native",
    flow="gru",
    steps=4,
)
class HeldInputCell(Cell):
    """CT-RNN, neural ODE, GRU-ODE: the input is held constant while the state flows for the time dt.

        leaky (ct-rnn):     dh/dt = -h/τ + tanh(W x + U h + b),  τ > 0 for each unit
        tanh (neural-ode):  dh/dt = tanh(W x + U h + b)
        gru (gru-ode):      dh/dt = (1 - z) ⊙ (g - h),  r, z = σ(W x + U h + b),  g = tanh(W x + U (r ⊙ h) + b)
        y = h' = ODESolve(dh/dt, h, dt)

    The exponential solver (the default of ct-rnn and gru-ode) takes `steps` steps of δ = dt / steps, exact for the
    leak: with dh/dt = r ⊙ (g - h),  h ← h + (1 - exp(-r δ)) ⊙ (g - h),  g and r at the old h. It stays bounded for
    every dt. The explicit solvers diverge if δ exceeds about two time constants. The field of neural-ode
    has no leak but is bounded: h grows with dt, as the equation implies.

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        flow: "leaky", "tanh", "gru", or another of `flows`.
        solver: "exponential", "euler", "midpoint", "heun", "rk4" or "dopri5".
        steps: Number of sub-steps of a fixed-step solver in each dt.
    """

    def __init__(
        self, input_size: int, hidden_size: int, flow: str = "leaky", solver: str = "exponential", steps: int = 3
    ):
        super().__init__(input_size, hidden_size)
        self.solve = FlowSolver(solver, steps)
        self.flow = make_flow(flow, hidden_size, input_size)

    def project(self, x: Tensor) -> Tensor:
        """Returns W x."""
        return self.flow.drive(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        h = self.solve(self.flow, h, dt, x, params=self.flow.parameters())
        return h, (h,)
