"""RNN-Decay: the state decays between observations; and the variant in the code of the mmRNN paper."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...settings import number
from .._cell import Cell, State
from .._flows import inverse_softplus
from .._registry import register
from .rnn import RNNCell


@register("rnn-decay", paper="Mozer et al. 2017 / Rubanova et al. 2019, RNN-Decay", time="native")
class RNNDecayCell(Cell):
    """RNN-Decay: each unit decays at its own rate, then an RNN processes the observation.

        h⁻ = h ⊙ exp(-softplus(τ) dt)
        y = h' = tanh(W x + U h⁻ + b)

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        rate: Initial value of softplus(τ).
    """

    def __init__(self, input_size: int, hidden_size: int, rate: float = 0.1):
        super().__init__(input_size, hidden_size)
        self.jump = RNNCell(input_size, hidden_size)
        self.tau = nn.Parameter(torch.full((hidden_size,), inverse_softplus(number("rate", rate, above=0))))

    def project(self, x: Tensor) -> Tensor:
        """Returns W x + b."""
        return self.jump.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (h,) = state
        return self.jump(x, (h * torch.exp(-F.softplus(self.tau) * dt),), dt)


@register("rnn-decay-mmrnn", paper="RNN-decay as in the code of the mmRNN paper", time="native")
class SubtractingDecayCell(Cell):
    """RNN-decay as in the code of the mmRNN paper: a trained rate times dt is subtracted from the state.

        y = h' = W₂ tanh(W x + U h + b) + b₂ - τ dt

    State: (h,). It decreases (or, where τ is negative, grows) at most linearly with dt.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        rate: Initial value of τ.
    """

    def __init__(self, input_size: int, hidden_size: int, rate: float = 0.1):
        super().__init__(input_size, hidden_size)
        self.jump = RNNCell(input_size, hidden_size)
        self.outer = nn.Linear(hidden_size, hidden_size)
        self.tau = nn.Parameter(torch.full((hidden_size,), number("rate", rate)))

    def project(self, x: Tensor) -> Tensor:
        """Returns W x + b."""
        return self.jump.project(x)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        h = self.outer(self.jump(x, state, dt)[0]) - self.tau * dt
        return h, (h,)
