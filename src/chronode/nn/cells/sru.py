"""SRU: the simple recurrent unit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...kernels import Kernel, elementwise
from ...settings import number
from .._cell import Cell, State
from .._registry import register
from ._input_product import Product


@register("sru", paper="Lei et al. 2018, SRU", time="none")
class SRUCell(Cell):
    """SRU: a gated memory with element-wise recurrence, and a highway for the input.

        f, r = σ(W x + v ⊙ c + b), each with its own W, v, b
        c' = f ⊙ c + (1 - f) ⊙ W_c x
        y  = r ⊙ c' + (1 - r) ⊙ s W_y x          (W_y = I if D = H;  s keeps the variance, s² = 1 + 2 exp(highway_bias))

    State: (c,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        highway_bias: Initial b_r.
    """

    sequence_kernel = Kernel(elementwise.run_sru, parts=(Product,))

    def __init__(self, input_size: int, hidden_size: int, highway_bias: float = 0.0):
        super().__init__(input_size, hidden_size)
        self.blocks = 3 if input_size == hidden_size else 4
        self.inputs = Product(input_size, self.blocks * hidden_size, bias=False)
        # Uniform with variance 1/D, as the paper derives.
        nn.init.uniform_(self.inputs.weight, -((3 / input_size) ** 0.5), (3 / input_size) ** 0.5)
        self.v = nn.Parameter(torch.empty(2 * hidden_size).uniform_(-(1.5**0.5), 1.5**0.5))
        self.b = nn.Parameter(torch.zeros(2 * hidden_size))
        bias = number("highway_bias", highway_bias)
        nn.init.constant_(self.b[hidden_size:], bias)
        self.register_buffer(
            "scale", self.constant("scale", float((1 + 2 * torch.tensor(bias, dtype=torch.float64).exp()).sqrt()))
        )

    def project(self, x: Tensor) -> Tensor:
        """Returns the contribution of the input to the gates, the candidate, and the highway."""
        bias = torch.cat([self.b, self.b.new_zeros((self.blocks - 2) * self.hidden_size)])
        u = self.inputs(x, bias)
        return u if self.blocks == 4 else torch.cat([u, x], dim=-1)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        (c,) = state
        for_gates, content, highway = x.split([2 * self.hidden_size, self.hidden_size, self.hidden_size], dim=-1)
        f, r = torch.sigmoid(for_gates + self.v * torch.cat([c, c], dim=-1)).chunk(2, dim=-1)
        c = content + f * (c - content)
        highway = self.scale * highway
        return highway + r * (c - highway), (c,)

    def kernel_reads(self) -> elementwise.SRUReads:
        """Returns the contribution of the input, v and the scale of the highway."""
        return elementwise.SRUReads(self.project, self.v, self.scale)
