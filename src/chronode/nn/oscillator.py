"""coRNN: coupled oscillators."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._checks import number
from .cell import Cell, State
from .registry import register


@register("cornn", paper="Rusch & Mishra 2021, coRNN", time="native")
class CoRNNCell(Cell):
    """coRNN: coupled, damped, driven oscillators y'' = tanh(W y + 𝒲 y' + V x + b) - γ y - ε y'.

        e  = Δt · dt
        z' = z + e [tanh(W y + 𝒲 z + V x + b) - γ y - ε z]
        y' = y + e z'

    State: (y, z). With dt = 1 it is the paper's model.

    Args:
        input_size: features D.
        hidden_size: oscillators H.
        delta_t: Δt > 0, the time step; may be a list, one value a layer.
        gamma: γ > 0, stiffness; may be a list, one value a layer.
        epsilon: ε > 0, damping; may be a list, one value a layer.
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
    ):
        super().__init__(input_size, hidden_size)
        # Buffers, so that a state_dict carries them.
        self.register_buffer("delta_t", torch.tensor(number("delta_t", delta_t, above=0)))
        self.register_buffer("gamma", torch.tensor(number("gamma", gamma, above=0)))
        self.register_buffer("epsilon", torch.tensor(number("epsilon", epsilon, above=0)))
        self.inputs = nn.Linear(input_size, hidden_size)
        self.recurrent = nn.Linear(2 * hidden_size, hidden_size, bias=False)

    def project(self, x: Tensor) -> Tensor:
        """V x + b."""
        return self.inputs(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        y, z = state
        e = self.delta_t * dt
        force = torch.tanh(x + self.recurrent(torch.cat(state, dim=-1)))
        z = z + e * (force - self.gamma * y - self.epsilon * z)
        y = y + e * z
        return y, (y, z)
