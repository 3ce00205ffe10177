"""UGRNN: a single update gate."""

from __future__ import annotations

import torch
from torch import Tensor

from ...settings import number
from .._cell import State
from .._registry import register
from ._textbook import TextbookCell


@register("ugrnn", paper="Collins, Sohl-Dickstein & Sussillo 2017, UGRNN", time="none")
class UGRNNCell(TextbookCell):
    """UGRNN: a single update gate.

        c = tanh(W_c x + U_c h + b_c);   g = σ(W_g x + U_g h + b_g)          (b_g starts at forget_bias)
        y = h' = g ⊙ h + (1 - g) ⊙ c

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        forget_bias: Initial b_g.
    """

    gates = 2

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float = 1.0):
        super().__init__(input_size, hidden_size)
        with torch.no_grad():
            self.inputs.bias[hidden_size:] = number("forget_bias", forget_bias)
            self.recurrent.bias.zero_()

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        c, g = (x + self.recurrent(h)).chunk(2, dim=-1)
        c = torch.tanh(c)
        h = c + torch.sigmoid(g) * (h - c)
        return h, (h,)
