"""States that flow between observations: CT-RNN, neural ODE, GRU-ODE, ODE-RNN, reciprocal RNN."""

from __future__ import annotations

import torch
from torch import Tensor

from ...settings import flag, one_of
from .._cell import Cell, State
from .._flows import make_flow
from .._registry import register
from .._solvers import FlowSolver
from .textbook import GRUCell, LSTMCell, RNNCell


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
