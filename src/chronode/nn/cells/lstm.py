"""LSTM, with dt as an optional input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...kernels import Kernel
from ...settings import number
from .._cell import State
from .._registry import register
from ._textbook import TextbookCell, run_fused


@register("lstm", paper="Hochreiter & Schmidhuber 1997, LSTM", time="none")
@register("lstm-dt", paper="LSTM with dt as an input (augmented LSTM)", time="feature", sees_dt=True)
class LSTMCell(TextbookCell):
    """LSTM: a gated memory; "lstm-dt" has dt as an additional input.

        a_i, a_f, a_g, a_o = W (x, dt) + b + U h + d          (b_f starts at forget_bias)
        c' = σ(a_f) ⊙ c + σ(a_i) ⊙ tanh(a_g);   y = h' = σ(a_o) ⊙ tanh(c')

    State: (h, c). Weights and state as in torch.nn.LSTM.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        sees_dt: Whether dt is appended to the input.
        forget_bias: Initial b_f.
    """

    sequence_kernel = Kernel(run_fused, native=False)
    gates = 4
    state_parts = 2

    def __init__(self, input_size: int, hidden_size: int, sees_dt: bool = False, forget_bias: float = 1.0):
        super().__init__(input_size, hidden_size, sees_dt)
        with torch.no_grad():
            self.inputs.bias.zero_()
            self.recurrent.bias.zero_()
            self.inputs.bias[hidden_size : 2 * hidden_size] = number("forget_bias", forget_bias)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h, c = state
        write, forget, value, out = (self.with_dt(x, dt) + self.recurrent(h)).chunk(4, dim=-1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(write) * torch.tanh(value)
        h = torch.sigmoid(out) * torch.tanh(c)
        return h, (h, c)

    def fused_loop(self) -> Callable[..., Any]:
        """Returns the fused loop of torch."""
        return torch.lstm
