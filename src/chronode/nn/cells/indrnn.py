"""IndRNN, plain and densely connected: each unit depends only on its own past."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...kernels import Kernel, elementwise
from ...settings import flag, number, one_of
from .._block import BatchNorm
from .._cell import Cell, State
from .._registry import register
from ._input_product import Product

NORMS = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": BatchNorm}


@register("indrnn", paper="Li et al. 2018, IndRNN", time="none")
@register("dense-indrnn", paper="Li et al. 2019, densely connected IndRNN", time="none", dense=True)
class IndRNNCell(Cell):
    """IndRNN: one recurrent weight per unit; layers mix the units.

        a = norm(W x + b);   h' = relu(a + u ⊙ h),  |u| <= bound
        y = h';   dense: y = (x, h'), so that every layer of a stack reads all previous layers

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H; with `dense`, the features added by each layer.
        dense: Whether y begins with x.
        bound: Largest |u|; the paper uses 2^(1/T) for sequences of T steps.
        norm: Normalization of W x + b: "none", "layer" (over units), or "batch" (over batch and time, as in the paper).
            With "batch", in training, the sequences of a batch influence each other, and the future influences the
            past.
    """

    sequence_kernel = Kernel(elementwise.run_indrnn, parts=(Product, *NORMS.values()))

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        dense: bool = False,
        bound: float = 1.0,
        norm: str = "none",
    ):
        super().__init__(input_size, hidden_size)
        self.dense = flag("dense", dense)
        self.output_size = hidden_size + (input_size if dense else 0)
        self.register_buffer("bound", self.constant("bound", number("bound", bound, above=0)))
        self.inputs = Product(input_size, hidden_size)
        nn.init.kaiming_normal_(self.inputs.weight, nonlinearity="relu")
        nn.init.zeros_(self.inputs.bias)
        self.u = nn.Parameter(torch.empty(hidden_size).uniform_(0, bound))
        self.norm = NORMS[one_of("norm", norm, NORMS)](hidden_size)

    def share(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Returns a, the contribution of the input."""
        a = self.inputs(x)
        return self.norm(a, valid) if isinstance(self.norm, BatchNorm) else self.norm(a)

    def project(self, x: Tensor) -> Tensor:
        """Returns a, followed by x if y needs it."""
        return self._with_x(self.share(x), x)

    def project_sequence(self, x: Tensor, valid: Tensor | None) -> Tensor | None:
        """Normalizes by the statistics of all valid steps, for batch normalization in training."""
        return self._with_x(self.share(x, valid), x) if isinstance(self.norm, BatchNorm) and self.training else None

    def _with_x(self, a: Tensor, x: Tensor) -> Tensor:
        return torch.cat([a, x], dim=-1) if self.dense else a

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        a, *dense_input = x.split([self.hidden_size, *([self.input_size] if self.dense else [])], dim=-1)
        h = torch.relu(a + torch.clamp(self.u, -self.bound, self.bound) * state[0])
        return torch.cat([*dense_input, h], dim=-1) if self.dense else h, (h,)

    def kernel_reads(self) -> elementwise.IndRNNReads:
        """Returns the contribution of the input, the bounded u, and whether y begins with x."""
        return elementwise.IndRNNReads(self.share, torch.clamp(self.u, -self.bound, self.bound), self.dense)
