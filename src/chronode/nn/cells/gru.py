"""GRU, with a tanh or ReLU candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...kernels import Kernel
from ...settings import one_of
from .._cell import State
from .._registry import register
from ._textbook import ACTIVATIONS, TextbookCell, run_fused


@register("gru", paper="Cho et al. 2014, GRU", time="none")
@register("relu-gru", paper="Dey & Salem 2017, GRU with a ReLU candidate", time="none", activation="relu")
class GRUCell(TextbookCell):
    """GRU: a reset and an update gate; "relu-gru" has φ = ReLU.

        r, z = σ(W (x, dt) + b + U h + d)
        n = φ(W_n (x, dt) + b_n + r ⊙ (U_n h + d_n));   y = h' = (1 - z) ⊙ n + z ⊙ h

    State: (h,). Weights as in torch.nn.GRU.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        sees_dt: Whether dt is appended to the input.
        activation: φ, "tanh" or "relu".
    """

    sequence_kernel = Kernel(run_fused, {"activation": ("tanh",)}, native=False)
    gates = 3

    def __init__(self, input_size: int, hidden_size: int, sees_dt: bool = False, activation: str = "tanh"):
        super().__init__(input_size, hidden_size, sees_dt)
        self.activation = one_of("activation", activation, ACTIVATIONS)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        x_r, x_z, x_n = self.with_dt(x, dt).chunk(3, dim=-1)
        h_r, h_z, h_n = self.recurrent(h).chunk(3, dim=-1)
        n = ACTIVATIONS[self.activation](x_n + torch.sigmoid(x_r + h_r) * h_n)
        h = n + torch.sigmoid(x_z + h_z) * (h - n)
        return h, (h,)

    def fused_loop(self) -> Callable[..., Any]:
        """Returns the fused loop of torch."""
        return torch.gru
