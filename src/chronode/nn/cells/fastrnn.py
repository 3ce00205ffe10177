"""FastRNN: a residual connection with two trained scalars."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import number
from .._cell import State
from .._registry import register
from ._fast import PAPER, FastCell


@register("fastrnn", paper=f"{PAPER} (FastRNN)", time="none")
class FastRNNCell(FastCell):
    """FastRNN: a residual connection with two scalar weights.

        y = h' = σ(α) tanh(W x + U h + b) + σ(β) h

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        w_rank: Rank of W; full by default.
        u_rank: Rank of U; full by default.
        alpha: Initial α.
        beta: Initial β.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        w_rank: int | None = None,
        u_rank: int | None = None,
        alpha: float = -3.0,
        beta: float = 3.0,
    ):
        super().__init__(input_size, hidden_size, w_rank, u_rank)
        self.bias = nn.Parameter(torch.zeros(hidden_size))
        self.raw_alpha = nn.Parameter(torch.tensor([number("alpha", alpha)]))
        self.raw_beta = nn.Parameter(torch.tensor([number("beta", beta)]))

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        new = torch.tanh(x + self.recurrent(h) + self.bias)
        h = torch.sigmoid(self.raw_alpha) * new + torch.sigmoid(self.raw_beta) * h
        return h, (h,)
