"""Continuous-time LSTM (neural Hawkes process)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...settings import number, one_of
from .._cell import Cell, State
from .._registry import register


@register("ct-lstm", paper="Mei & Eisner 2017, continuous-time LSTM (neural Hawkes process)", time="native")
class CTLSTMCell(Cell):
    """CT-LSTM: between observations the memory c moves to its target c̄ at the rate δ.

        c⁻ = c̄ + (c - c̄) ⊙ exp(-δ dt);   h⁻ = o ⊙ tanh(c⁻)
        a_i, a_f, a_g, a_o, a_ī, a_f̄, a_δ = W x + U h⁻ + b             (b_f, b_f̄ start at forget_bias)
        g = 2σ(a_g) - 1  ("logistic", the paper's) or tanh(a_g)  ("tanh")
        c' = σ(a_f) ⊙ c⁻ + σ(a_i) ⊙ g;   c̄' = σ(a_f̄) ⊙ c̄ + σ(a_ī) ⊙ g
        o' = σ(a_o);   δ' = softplus(a_δ);   y = o' ⊙ tanh(c')

    State: (c, c̄, δ, o).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        forget_bias: Initial value of b_f and b_f̄.
        candidate: Form of g: "logistic" or "tanh".
    """

    state_parts = 4

    def __init__(self, input_size: int, hidden_size: int, forget_bias: float = 1.0, candidate: str = "logistic"):
        super().__init__(input_size, hidden_size)
        self.candidate = one_of("candidate", candidate, ("logistic", "tanh"))
        self.inputs = nn.Linear(input_size, 7 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 7 * hidden_size, bias=False)
        with torch.no_grad():
            biases = self.inputs.bias.zero_().view(7, hidden_size)
            biases[[1, 5]] = number("forget_bias", forget_bias)

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the gates."""
        return self.inputs(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        c, target, rate, out = state
        c = target + (c - target) * torch.exp(-rate * dt)
        a = x + self.recurrent(out * torch.tanh(c))
        write, forget, value, out, write_target, forget_target, rate = a.chunk(7, dim=-1)
        # 2σ(a) - 1 = tanh(a/2), which is accurate near 0.
        value = torch.tanh(0.5 * value if self.candidate == "logistic" else value)
        c = torch.sigmoid(forget) * c + torch.sigmoid(write) * value
        target = torch.sigmoid(forget_target) * target + torch.sigmoid(write_target) * value
        out = torch.sigmoid(out)
        return out * torch.tanh(c), (c, target, F.softplus(rate), out)
