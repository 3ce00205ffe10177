"""Neural controlled differential equations: the path of the input drives the state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import one_of, whole
from .._cell import Cell, State, counter
from .._registry import register
from .._solvers import Solver


class VectorField(nn.Module):
    """f(z) d = tanh(W₂ relu(W₁ z + b₁) + b₂) d: an `(H, channels)` matrix that depends on z, times a direction."""

    def __init__(self, size: int, channels: int):
        super().__init__()
        self.shape = (size, channels)
        self.inner = nn.Linear(size, size)
        self.outer = nn.Linear(size, size * channels)

    def forward(self, z: Tensor, direction: Tensor) -> Tensor:
        """Returns the change of `z (B, H)` along `direction (B, channels)`."""
        f = torch.tanh(self.outer(torch.relu(self.inner(z)))).unflatten(-1, self.shape)
        return torch.linalg.vecdot(f, direction.unsqueeze(-2))


class ControlledCell(Cell):
    """Base class: path of `channels` values, initial state W x + b of the first observation, and a solver."""

    def __init__(self, input_size: int, hidden_size: int, channels: int | None, solver: str, steps: int):
        super().__init__(input_size, hidden_size)
        limit = input_size if channels is None else whole("channels", channels, at_least=1)
        self.channels = min(input_size, limit)
        self.path = nn.Linear(input_size, limit, bias=False) if input_size > limit else nn.Identity()
        self.start = nn.Linear(self.channels, hidden_size)
        self.solve = Solver(solver, steps)

    def project(self, x: Tensor) -> Tensor:
        """Returns the values of the path."""
        return self.path(x)


@register("ncde", paper="Kidger et al. 2020, Neural CDE (online: Morrill et al. 2021)", time="native")
class NCDECell(ControlledCell):
    """Neural CDE: dz = f(z) dX along a path X through the observations (t, x).

        z' = z + ∫ f(z) dX  from the last observation to this one;   z = W x + b at the first
        linear:  dX/ds = Δ = (dt, x - last),  s from 0 to 1
        cubic:   dX/ds = Δ + (m - Δ)(1 - 4s + 3s²): starts with the previous slope m, ends with the current one, Δ/dt
        y = z'

    The natural splines of the paper need the future; these do not. The cubic one is the Hermite spline with backward
    differences, with m limited to [0, 3Δ] so that it does not overshoot between unequal gaps (Fritsch & Carlson).

    State: (z, last, slope, number of observations); last and slope are as wide as the path.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        interpolation: "cubic" or "linear".
        channels: If D is larger, the path is a trained linear map of x to this number of channels; by default it is x
            itself.
        solver: "euler", "midpoint", "heun", "rk4" or "dopri5".
        steps: Number of sub-steps of a fixed-step solver between two observations.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        interpolation: str = "cubic",
        channels: int | None = None,
        solver: str = "rk4",
        steps: int = 1,
    ):
        super().__init__(input_size, hidden_size, channels, solver, steps)
        self.interpolation = one_of("interpolation", interpolation, ("cubic", "linear"))
        self.field = VectorField(hidden_size, 1 + self.channels)

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a state without observations."""
        sizes = (self.hidden_size, self.channels, self.channels)
        return (*(like.new_zeros(batch, size) for size in sizes), counter(like, batch))

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        z, last, slope, count = state
        change = x - last
        bend = self._bend(change, slope * dt, count)
        moved = self.solve(self._along, torch.cat([z, torch.zeros_like(dt)], -1), torch.ones_like(dt), dt, change, bend)
        z = torch.where(count > 0, moved[:, :-1], self.start(x))
        passed = dt > 0
        slope = torch.where(passed & (count > 0), change / torch.where(passed, dt, torch.ones_like(dt)), slope)
        return z, (z, x, slope, count + 1)

    def _bend(self, change: Tensor, before: Tensor, count: Tensor) -> Tensor:
        """Returns m - Δ; 0 where the path is straight (between the first two observations, or always)."""
        if self.interpolation == "linear":
            return torch.zeros_like(change)
        limited = torch.minimum(torch.maximum(before, 3 * change.clamp(max=0)), 3 * change.clamp(min=0))
        return torch.where(count > 1, limited - change, torch.zeros_like(change))

    def _along(self, at: Tensor, dt: Tensor, change: Tensor, bend: Tensor) -> Tensor:
        """Returns d(z, s)/ds."""
        z, s = at[:, :-1], at[:, -1:]
        direction = torch.cat([dt, change + bend * (1 - 4 * s + 3 * s * s)], dim=-1)
        return torch.cat([self.field(z, direction), torch.ones_like(s)], dim=-1)


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
