"""ODE-RNN: the state flows between observations and jumps at each."""

from __future__ import annotations

from torch import Tensor

from ...settings import one_of
from .._cell import Cell, State
from .._flows import make_flow
from .._registry import register
from .._solvers import FlowSolver
from .gru import GRUCell
from .rnn import RNNCell

JUMPS = {"rnn": RNNCell, "gru": GRUCell}


@register("ode-rnn", paper="Rubanova, Chen & Duvenaud 2019, ODE-RNN", time="native")
class ODERNNCell(Cell):
    """ODE-RNN: the state flows for the time dt, then an RNN or GRU processes the observation.

        h⁻ = ODESolve(f, h, dt)
        rnn:  h' = tanh(W x + U h⁻ + b)
        gru:  h' = (1 - z) ⊙ n + z ⊙ h⁻,  r, z = σ(W x + U h⁻ + b),  n = tanh(W x + b + r ⊙ (U h⁻ + b_n))
        y  = h'

    State: (h,). The field of the default flow is bounded, so h⁻ grows at most linearly with dt.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        jump: "rnn" or "gru".
        flow: The field f (see `chronode.nn._flows`).
        solver: "euler", "midpoint", "heun", "rk4", "dopri5" or, for flows with a leak, "exponential".
        steps: Number of sub-steps of a fixed-step solver in each dt.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        jump: str = "rnn",
        flow: str = "mlp",
        solver: str = "euler",
        steps: int = 4,
    ):
        super().__init__(input_size, hidden_size)
        self.solve = FlowSolver(solver, steps)
        self.flow = make_flow(flow, hidden_size)
        self.jump = JUMPS[one_of("jump", jump, JUMPS)](input_size, hidden_size)

    def project(self, x: Tensor) -> Tensor:
        """Returns W x + b."""
        return self.jump.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        return self.jump(x, (self.solve(self.flow, h, dt, params=self.flow.parameters()),), dt)
