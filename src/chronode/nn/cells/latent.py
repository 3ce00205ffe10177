"""Latent ODE and RNN-VAE: encoders whose state is a distribution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import whole
from .._cell import Cell, State, counter
from .._flows import make_flow
from .._registry import register
from .._solvers import FlowSolver
from .ode_rnn import ODERNNCell
from .textbook import GRUCell

LOG_VARIANCE_RANGE = (-20.0, 4.0)


class LatentCell(Cell):
    """Base class: causal variational auto-encoder that infers the latent state at the previous observation.

        h' = encode(x, h, dt);   μ, ln σ² = W h' + b               (ln σ² from -20 to 4: no gap makes σ overflow)
        z₋ = μ + σ ε,  ε ~ N(0, 1) in training, 0 in evaluation: the latent state at the previous observation
        z' = move(z₋, dt): moved to this observation;   y = W_y z' + b_y

    The papers infer the state at the first time from the whole sequence, read backwards; here each output depends on
    the past only, and one call returns an output for each step. A head on y predicts classes or values; for the
    evidence lower bound, add `kl(state)` to its loss. `decode` returns y at later times.

    State: (h, z, Σ KL(N(μ, σ²) ‖ N(0, 1)) over the steps so far).
    """

    def __init__(self, input_size: int, hidden_size: int, latent_size: int | None = None):
        super().__init__(input_size, hidden_size)
        latent = max(1, hidden_size // 2) if latent_size is None else latent_size
        self.latent_size = whole("latent_size", latent, at_least=1)
        self.posterior = nn.Linear(hidden_size, 2 * self.latent_size)
        self.decoder = nn.Linear(self.latent_size, hidden_size)
        # Initially σ = e⁻², so that samples carry information about μ before training.
        nn.init.constant_(self.posterior.bias[self.latent_size :], -4.0)

    def encode(self, x: Tensor, h: Tensor, dt: Tensor) -> Tensor:
        """h'."""
        raise NotImplementedError

    def move(self, z: Tensor, dt: Tensor) -> Tensor:
        """Returns the latent state `dt` later."""
        raise NotImplementedError

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a state without observations."""
        return *(like.new_zeros(batch, size) for size in (self.hidden_size, self.latent_size)), counter(like, batch)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h, _, divergence = state
        h = self.encode(x, h, dt)
        mean, log_variance = self.posterior(h).chunk(2, dim=-1)
        log_variance = log_variance.clamp(*LOG_VARIANCE_RANGE)
        divergence = divergence + 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1, keepdim=True)
        if self.training:
            mean = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        z = self.move(mean, dt)
        return self.decoder(z), (h, z, divergence)

    def decode(self, state: State, dt: Tensor) -> Tensor:
        """Returns y at time `dt (B, 1)` after the last observation, without a new one."""
        return self.decoder(self.move(state[1], dt))

    @staticmethod
    def kl(state: State) -> Tensor:
        """Returns the Kullback-Leibler divergence of all steps so far, `(B, 1)`."""
        return state[2]


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


@register("rnn-vae", paper="Rubanova, Chen & Duvenaud 2019, RNN-VAE", time="native")
class RNNVAECell(LatentCell):
    """RNN-VAE: a GRU with dt as an input encodes, and another GRU moves the latent state.

        encode: h' = GRU((x, dt), h);   move: GRU(dt, z)

    State: (h, z, divergence). The rest of the equations: see `LatentCell`.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H of the encoder and of y.
        latent_size: Size of z; half of H by default.
    """

    def __init__(self, input_size: int, hidden_size: int, latent_size: int | None = None):
        super().__init__(input_size, hidden_size, latent_size)
        self.encoder_cell = GRUCell(input_size, hidden_size, sees_dt=True)
        self.mover = GRUCell(1, self.latent_size)

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the encoder."""
        return self.encoder_cell.project(x)

    def encode(self, x: Tensor, h: Tensor, dt: Tensor) -> Tensor:
        """h'."""
        return self.encoder_cell(x, (h,), dt)[0]

    def move(self, z: Tensor, dt: Tensor) -> Tensor:
        """Returns the latent state `dt` later."""
        return self.mover(self.mover.project(dt), (z,), dt)[0]
