"""RNN, with dt as an optional input."""

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


@register("rnn", paper="Elman 1990, simple RNN", time="none")
@register("rnn-dt", paper="RNN with dt as an input (RNN-Δt of Rubanova et al. 2019)", time="feature", sees_dt=True)
class RNNCell(TextbookCell):
    """RNN: the simple recurrent network; "rnn-dt" has dt as an additional input.

        y = h' = φ(W (x, dt) + b + U h + d)

    State: (h,). Weights as in torch.nn.RNN.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        sees_dt: Whether dt is appended to the input.
        activation: φ, "tanh" or "relu".
    """

    sequence_kernel = Kernel(run_fused, native=False)

    def __init__(self, input_size: int, hidden_size: int, sees_dt: bool = False, activation: str = "tanh"):
        super().__init__(input_size, hidden_size, sees_dt)
        self.activation = one_of("activation", activation, ACTIVATIONS)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        h = ACTIVATIONS[self.activation](self.with_dt(x, dt) + self.recurrent(h))
        return h, (h,)

    def fused_loop(self) -> Callable[..., Any]:
        """Returns the fused loop of torch."""
        return torch.rnn_tanh if self.activation == "tanh" else torch.rnn_relu
