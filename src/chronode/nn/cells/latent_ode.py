"""Latent ODE: an ODE-RNN encodes, an ODE decodes."""

from __future__ import annotations

from torch import Tensor

from .._flows import make_flow
from .._registry import register
from .._solvers import FlowSolver
from ._latent import LatentCell
from .ode_rnn import ODERNNCell


@register("latent-ode", paper="Rubanova, Chen & Duvenaud 2019, Latent ODE", time="native")
class LatentODECell(LatentCell):
    """Latent ODE: an ODE-RNN encodes, and an ordinary differential equation moves the latent state.

        encode: h⁻ = ODESolve(f, h, dt), h' = GRU(x, h⁻);   move: ODESolve(g, z, dt)

    State: (h, z, divergence). The rest of the equations: see `LatentCell`.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H of the encoder and of y.
        latent_size: Size of z; half of H by default.
        flow: The fields f and g (see `chronode.nn._flows`).
        solver: "euler", "midpoint", "heun", "rk4", "dopri5" or, for flows with a leak, "exponential".
        steps: Number of sub-steps of a fixed-step solver in each dt.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        latent_size: int | None = None,
        flow: str = "mlp",
        solver: str = "euler",
        steps: int = 4,
    ):
        super().__init__(input_size, hidden_size, latent_size)
        self.encoder_cell = ODERNNCell(input_size, hidden_size, "gru", flow, solver, steps)
        self.flow = make_flow(flow, self.latent_size)
        self.solve = FlowSolver(solver, steps)

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the encoder."""
        return self.encoder_cell.project(x)

    def encode(self, x: Tensor, h: Tensor, dt: Tensor) -> Tensor:
        """h'."""
        return self.encoder_cell(x, (h,), dt)[0]

    def move(self, z: Tensor, dt: Tensor) -> Tensor:
        """Returns the latent state `dt` later."""
        return self.solve(self.flow, z, dt, params=self.flow.parameters())
