"""Diagonal GRU with decay: a gated memory with element-wise recurrence for irregular series."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...settings import number
from .._cell import Cell, State
from .._registry import register


@register("decay-gru", paper="Danieli et al. 2025, ParaGRU, with a decay between observations", time="native")
class DecayGRUCell(Cell):
    """Diagonal GRU with decay: each unit sees only its own past, which decays between observations.

        h⁻ = h ⊙ exp(-softplus(τ) dt)
        z, r = σ(a_z ⊙ h⁻ + B_z x + b_z), σ(a_r ⊙ h⁻ + B_r x + b_r)
        c = tanh(a_c ⊙ (r ⊙ h⁻) + B_c x + b_c);   y = h' = (1 - z) ⊙ h⁻ + z ⊙ c

    State: (h,). No product depends on the state, so a step costs little more than its input product.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        rate: Largest initial value of softplus(τ); those of the units are spread from a hundredth of it, so that some
            units forget quickly and some slowly.
    """

    def __init__(self, input_size: int, hidden_size: int, rate: float = 1.0):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, 3 * hidden_size)
        self.a = nn.Parameter(torch.empty(3, hidden_size).uniform_(-1, 1))
        rates = number("rate", rate, above=0) * torch.logspace(-2, 0, hidden_size)
        self.tau = nn.Parameter(rates.expm1().log())

    def project(self, x: Tensor) -> Tensor:
        """Returns B x + b of both gates and the candidate."""
        return self.inputs(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h = state[0] * torch.exp(-F.softplus(self.tau) * dt)
        x_z, x_r, x_c = x.chunk(3, dim=-1)
        a_z, a_r, a_c = self.a
        z, r = torch.sigmoid(x_z + a_z * h), torch.sigmoid(x_r + a_r * h)
        h = h + z * (torch.tanh(x_c + a_c * (r * h)) - h)
        return h, (h,)
