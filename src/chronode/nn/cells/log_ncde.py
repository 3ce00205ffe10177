"""Neural CDE by the log-ODE method: the input is processed in windows."""

from __future__ import annotations

import torch
from torch import Tensor

from ...settings import whole
from .._cell import State, counter
from .._registry import register
from ._controlled import ControlledCell, VectorField


@register("log-ncde", paper="Morrill et al. 2020, neural CDEs by the log-ODE method (neural RDE)", time="native")
class LogNCDECell(ControlledCell):
    """Log-NCDE: a neural CDE driven by the log-signature (depth 2) of each window of the path.

        S = X - X_a,  A_ij = ½ ∫ (S_i dX_j - S_j dX_i), i < j:  increment and areas of X = (t, x) since the start of
        the window z' = ODESolve(f(z) (S, A), z_a, 1);   z = W x + b at the first observation
        every `window` observations the window ends: z_a = z', X_a = X
        y  = z'

    Within a window, y depends on the part of the window seen so far, so every output is causal.
    State: (z_a, last, S, A, observations in the window, -1 before the first).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        window: Number of observations in a window.
        channels: If D is larger, the path is a trained linear map of x to this number of channels, because f has on the
            order of channels² columns.
        solver: "euler", "midpoint", "heun", "rk4" or "dopri5".
        steps: Number of sub-steps of a fixed-step solver for a window.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        window: int = 8,
        channels: int = 8,
        solver: str = "midpoint",
        steps: int = 1,
    ):
        super().__init__(input_size, hidden_size, channels, solver, steps)
        self.window = whole("window", window, at_least=1)
        width = 1 + self.channels
        self.register_buffer("pairs", torch.triu_indices(width, width, offset=1))
        self.field = VectorField(hidden_size, width + self.pairs.shape[1])

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a state without observations."""
        sizes = (self.hidden_size, self.channels, 1 + self.channels, self.pairs.shape[1])
        return (*(like.new_zeros(batch, size) for size in sizes), counter(like, batch, value=-1))

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        begin, last, rise, area, count = state
        first = count < 0
        move = torch.cat([dt, x - last], dim=-1)
        i, j = self.pairs
        area = area + 0.5 * (rise[:, i] * move[:, j] - rise[:, j] * move[:, i])
        rise = rise + move
        z = self.solve(self.field, begin, torch.ones_like(dt), torch.cat([rise, area], dim=-1))
        z = torch.where(first, self.start(x), z)
        ends = first | (count + 1 >= self.window)
        begin = torch.where(ends, z, begin)
        rise, area, count = (torch.where(ends, torch.zeros_like(s), s) for s in (rise, area, count + 1))
        return z, (begin, x, rise, area, count)
