"""FastGRNN: FastRNN with a gate."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import number
from .._cell import State
from .._registry import register
from ._fast import PAPER, FastCell


@register("fastgrnn", paper=PAPER, time="none")
class FastGRNNCell(FastCell):
    """FastGRNN: a gate that shares its matrices with the update.

        a = W x + U h;   z = σ(a + b_z);   n = tanh(a + b_n)
        y = h' = (σ(ζ)(1 - z) + σ(ν)) ⊙ n + z ⊙ h

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        w_rank: Rank of W; full by default.
        u_rank: Rank of U; full by default.
        zeta: Initial ζ.
        nu: Initial ν.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        w_rank: int | None = None,
        u_rank: int | None = None,
        zeta: float = 1.0,
        nu: float = -4.0,
    ):
        super().__init__(input_size, hidden_size, w_rank, u_rank)
        self.gate_bias = nn.Parameter(torch.ones(hidden_size))
        self.new_bias = nn.Parameter(torch.ones(hidden_size))
        self.raw_zeta = nn.Parameter(torch.tensor([number("zeta", zeta)]))
        self.raw_nu = nn.Parameter(torch.tensor([number("nu", nu)]))

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        a = x + self.recurrent(h)
        z = torch.sigmoid(a + self.gate_bias)
        new = torch.tanh(a + self.new_bias)
        h = (torch.sigmoid(self.raw_zeta) * (1 - z) + torch.sigmoid(self.raw_nu)) * new + z * h
        return h, (h,)
