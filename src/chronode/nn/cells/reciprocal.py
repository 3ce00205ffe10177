"""Reciprocal RNN: an LSTM and a CT-RNN that read the state of each other."""

from __future__ import annotations

import torch
from torch import Tensor

from ...settings import flag
from .._cell import Cell, State
from .._flows import make_flow
from .._registry import register
from .._solvers import FlowSolver
from .lstm import LSTMCell


@register("reciprocal", paper="Babaei et al. 2010, reciprocal RNN (LSTM and CT-RNN)", time="native")
@register(
    "reciprocal-mmrnn",
    paper="reciprocal RNN as in the code of the mmRNN paper",
    time="native",
    flow="ctrnn",
    sees_dt=True,
    solver="euler",
    steps=4,
)
class ReciprocalCell(Cell):
    """Reciprocal RNN: an LSTM and a CT-RNN that read each other's last state.

        (h', c') = LSTM((x, v), h, c)                     "reciprocal-mmrnn": LSTM((x, v, dt), h, c)
        v' = ODESolve(f, v, dt),  h and x held
        leaky (reciprocal):        f = -v/τ + tanh(W (x, h) + U v + b)
        ctrnn (reciprocal-mmrnn):  f = s ⊙ tanh(W (x, h) + U v + b) - v
        y  = h' + v'

    "reciprocal-mmrnn" is the baseline in the code of the mmRNN paper, with 4 Euler steps in each dt, which diverge
    for gaps longer than 8. The exponential solver stays bounded for every dt.

    State: (h, c, v).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H of each of the two networks.
        flow: The field f: "leaky", "ctrnn", or another of `flows`.
        sees_dt: Whether dt is an input of the LSTM.
        solver: "exponential", "euler", "midpoint", "heun", "rk4" or "dopri5".
        steps: Number of sub-steps of a fixed-step solver in each dt.
    """

    state_parts = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        flow: str = "leaky",
        sees_dt: bool = False,
        solver: str = "exponential",
        steps: int = 3,
    ):
        super().__init__(input_size, hidden_size)
        self.solve = FlowSolver(solver, steps)
        self.lstm = LSTMCell(input_size, hidden_size, flag("sees_dt", sees_dt))
        self.flow = make_flow(flow, hidden_size, input_size)
        self.to_lstm = torch.nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.to_flow = torch.nn.Linear(hidden_size, self.flow.drive_width, bias=False)

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to both networks."""
        return torch.cat([self.lstm.project(x), self.flow.drive(x)], dim=-1)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h, c, v = state
        for_lstm, for_flow = x.split([4 * self.hidden_size, self.flow.drive_width], dim=-1)
        _, (new_h, c) = self.lstm(for_lstm + self.to_lstm(v), (h, c), dt)
        v = self.solve(self.flow, v, dt, for_flow + self.to_flow(h), params=self.flow.parameters())
        return new_h + v, (new_h, c, v)
