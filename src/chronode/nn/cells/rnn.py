"""RNN, also with dt as one more input."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..._checks import one_of
from ...kernels import Kernel
from .._cell import State
from .._registry import register

if TYPE_CHECKING:
    pass
from ._textbook import ACTIVATIONS, TextbookCell, run_fused


@register("rnn", paper="Elman 1990, simple RNN", time="none")
@register("rnn-dt", paper="RNN that sees dt (RNN-Δt of Rubanova et al. 2019)", time="feature", sees_dt=True)
class RNNCell(TextbookCell):
    """RNN: the simple recurrent network; "rnn-dt" sees dt as one more input.

        y = h' = φ(W (x, dt) + b + U h + d)

    State: (h,). Weights as in torch.nn.RNN.

    Args:
        input_size: features D.
        hidden_size: units H.
        sees_dt: whether dt is appended to the input.
        activation: φ, "tanh" or "relu".
    """

    sequence_kernel = Kernel(run_fused, native=False)

    def __init__(self, input_size: int, hidden_size: int, sees_dt: bool = False, activation: str = "tanh"):
        super().__init__(input_size, hidden_size, sees_dt)
        self.activation = one_of("activation", activation, ACTIVATIONS)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        (h,) = state
        h = ACTIVATIONS[self.activation](self.with_dt(x, dt) + self.recurrent(h))
        return h, (h,)

    def fused_loop(self) -> Callable[..., Any]:
        """torch's own loop."""
        return torch.rnn_tanh if self.activation == "tanh" else torch.rnn_relu
