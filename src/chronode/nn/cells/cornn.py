"""coRNN: coupled oscillators."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import number, one_of
from .._cell import Cell, State
from .._registry import register

SOLVERS = ("exponential", "symplectic")


@register("cornn", paper="Rusch & Mishra 2021, coRNN", time="native")
class CoRNNCell(Cell):
    """coRNN: coupled, damped, driven oscillators y'' = f - γ y - ε y',  f = tanh(W y + 𝒲 y' + V x + b).

        e  = Δt · dt;   f at the old (y, z)
        exponential:  the exact motion for the time e with f held constant, a damped oscillation about f/γ:
                      (y' - f/γ, z') = exp(e [[0, 1], [-γ, -ε]]) (y - f/γ, z)
        symplectic (the step of the paper):  z' = z + e (f - γ y - ε z);   y' = y + e z'

    The two differ by O(e²). The exponential step is bounded for every gap: after a long one, y = f/γ is at rest. The
    symplectic step with dt = 1 is the paper's model; it diverges if e exceeds about 2/√γ or 2/ε.

    State: (y, z).

    Args:
        input_size: Number of features D.
        hidden_size: Number of oscillators H.
        delta_t: Δt > 0, the model time that corresponds to dt = 1; may be a list with one value per layer.
            Choose it so that Δt times a typical gap is between 0.01 and 0.5.
        gamma: γ > 0, stiffness; may be a list with one value per layer.
        epsilon: ε > 0, damping; may be a list with one value per layer.
        solver: "exponential" or "symplectic".
    """

    per_layer = ("delta_t", "gamma", "epsilon")
    state_parts = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        delta_t: float = 0.1,
        gamma: float = 1.0,
        epsilon: float = 1.0,
        solver: str = "exponential",
    ):
        super().__init__(input_size, hidden_size)
        # Buffers, so that a state_dict contains them.
        self.register_buffer("delta_t", self.constant("delta_t", number("delta_t", delta_t, above=0)))
        self.register_buffer("gamma", self.constant("gamma", number("gamma", gamma, above=0)))
        self.register_buffer("epsilon", self.constant("epsilon", number("epsilon", epsilon, above=0)))
        self.solver = one_of("solver", solver, SOLVERS)
        self.inputs = nn.Linear(input_size, hidden_size)
        self.recurrent = nn.Linear(2 * hidden_size, hidden_size, bias=False)

    def project(self, x: Tensor) -> Tensor:
        """Returns V x + b."""
        return self.inputs(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        y, z = state
        e = self.delta_t * dt
        force = torch.tanh(x + self.recurrent(torch.cat(state, dim=-1)))
        if self.solver == "symplectic":
            z = z + e * (force - self.gamma * y - self.epsilon * z)
            y = y + e * z
            return y, (y, z)
        c, s = self._oscillation(e)
        rest = force / self.gamma
        away, half = y - rest, 0.5 * self.epsilon
        y = rest + (c + half * s) * away + s * z
        z = (c - half * s) * z - self.gamma * s * away
        return y, (y, z)

    def _oscillation(self, e: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (c, s) with exp(e M) = c I + s (M + ε/2 I) for M = [[0, 1], [-γ, -ε]].

        With ω² = |γ - ε²/4| they are exp(-ε e/2) (cos ω e, sin(ω e)/ω) if γ > ε²/4, else the same with cosh and sinh.
        """
        half = 0.5 * self.epsilon
        square = self.gamma - half * half
        # At ω = 0, any sufficiently small ω gives the limit s = e exp(-ε e/2).
        omega = square.abs().sqrt().clamp(min=1e-8)
        fading = torch.exp(-half * e)
        swinging = fading * torch.cos(omega * e), fading * torch.sin(omega * e) / omega
        # exp(-ε e/2) cosh(ω e) without the overflow of cosh: (ε/2 - ω) = γ / (ε/2 + ω).
        slow, faster = torch.exp(-self.gamma / (half + omega) * e), torch.expm1(-2 * omega * e)
        creeping = slow * (1 + 0.5 * faster), -0.5 * slow * faster / omega
        c, s = (torch.where(square > 0, *pair) for pair in zip(swinging, creeping, strict=True))
        return c, s
