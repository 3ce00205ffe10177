"""LEM: long expressive memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import number, one_of
from .._cell import Cell, State
from .._registry import register


@register("lem", paper="Rusch et al. 2022, LEM", time="native")
class LEMCell(Cell):
    """LEM: two coupled memories, whose time scales depend on the input and the state.

        exponential:  a = 1 - exp(-Δt dt σ(W₁ y + V₁ x + b₁)),   b = 1 - exp(-Δt dt σ(W₂ y + V₂ x + b₂))
        euler:        a = Δt dt σ(W₁ y + V₁ x + b₁),             b = Δt dt σ(W₂ y + V₂ x + b₂)
        z' = (1 - b) ⊙ z + b ⊙ tanh(W₃ y + V₃ x + b₃)
        y' = (1 - a) ⊙ y + a ⊙ tanh(W₄ z' + V₄ x + b₄)

    "euler" with dt = 1 is the paper's model; it diverges if Δt dt exceeds 2. The exponential step is the same to first
    order in Δt dt, and bounded for every gap.

    State: (y, z).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        delta_t: Δt > 0, the largest time scale; may be a list with one value per layer.
        solver: "exponential" or "euler".
    """

    per_layer = ("delta_t",)
    state_parts = 2

    def __init__(self, input_size: int, hidden_size: int, delta_t: float = 1.0, solver: str = "exponential"):
        super().__init__(input_size, hidden_size)
        self.register_buffer("delta_t", self.constant("delta_t", number("delta_t", delta_t, above=0)))
        self.solver = one_of("solver", solver, ("exponential", "euler"))
        self.inputs = nn.Linear(input_size, 4 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.between = nn.Linear(hidden_size, hidden_size, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    def project(self, x: Tensor) -> Tensor:
        """Returns V x + b of the four lines."""
        return self.inputs(x)

    def share(self, gate: Tensor, dt: Tensor) -> Tensor:
        """Returns a or b from the pre-activation."""
        e = self.delta_t * dt * torch.sigmoid(gate)
        return e if self.solver == "euler" else -torch.expm1(-e)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        y, z = state
        for_y, x_4 = x.split([3 * self.hidden_size, self.hidden_size], dim=-1)
        a, b, c = (for_y + self.recurrent(y)).chunk(3, dim=-1)
        z = z + self.share(b, dt) * (torch.tanh(c) - z)
        y = y + self.share(a, dt) * (torch.tanh(x_4 + self.between(z)) - y)
        return y, (y, z)
