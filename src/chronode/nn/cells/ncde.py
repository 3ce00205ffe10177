"""Neural CDE: the state is driven by the path of the input."""

from __future__ import annotations

import torch
from torch import Tensor

from ...settings import one_of
from .._cell import State, counter
from .._registry import register
from ._controlled import ControlledCell, VectorField


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
