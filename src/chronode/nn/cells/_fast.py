"""Base class of FastRNN and FastGRNN: low-rank weights."""

from __future__ import annotations

from torch import Tensor, nn

from ...settings import whole
from .._cell import Cell

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
