"""FastRNN and FastGRNN: residual connections with low-rank weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import number, whole
from .._cell import Cell, State
from .._registry import register

PAPER = "Kusupati et al. 2018, FastGRNN"


def low_rank(inputs: int, outputs: int, name: str, rank: int | None) -> nn.Module:
    """Returns a matrix `(outputs, inputs)`, or a product of two of the given rank."""
    if rank is None:
        return nn.Linear(inputs, outputs, bias=False)
    rank = whole(name, rank, at_least=1)
    return nn.Sequential(nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False))


class FastCell(Cell):
    """Base class: matrices W and U of full or low rank. State: (h,)."""

    def __init__(self, input_size: int, hidden_size: int, w_rank: int | None = None, u_rank: int | None = None):
        super().__init__(input_size, hidden_size)
        self.inputs = low_rank(input_size, hidden_size, "w_rank", w_rank)
        self.recurrent = low_rank(hidden_size, hidden_size, "u_rank", u_rank)

    def project(self, x: Tensor) -> Tensor:
        """Returns W x."""
        return self.inputs(x)


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
