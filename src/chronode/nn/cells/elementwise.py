"""IndRNN and SRU: element-wise recurrences."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...kernels import Kernel, addmm, elementwise
from ...settings import flag, number, one_of
from .._block import BatchNorm
from .._cell import Cell, State
from .._registry import register


class Product(nn.Linear):
    """W x + b for `x (..., D)`; `bias` replaces the module's own b.

    Training uses a copy of Wᵀ: with 2 to 8 features the gradient of W itself would take torch 3 to 9 times as long.
    """

    def forward(self, input: Tensor, bias: Tensor | None = None) -> Tensor:
        """Returns W x + b."""
        transposed = self.weight.T.contiguous() if torch.is_grad_enabled() else self.weight.T
        rows = addmm(self.bias if bias is None else bias, input.flatten(0, -2), transposed)
        return rows.unflatten(0, input.shape[:-1])


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
