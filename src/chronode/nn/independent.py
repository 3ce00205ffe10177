"""Models whose units do not see each other's past: IndRNN and SRU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._checks import flag, number, one_of
from ..kernels import Kernel, elementwise
from .cell import Cell, State, overrides
from .registry import register


@register("indrnn", paper="Li et al. 2018, IndRNN", time="none")
@register("dense-indrnn", paper="Li et al. 2019, densely connected IndRNN", time="none", dense=True)
class IndRNNCell(Cell):
    """IndRNN: one recurrent weight per unit; layers mix the units.

        a = norm(W x + b);   h' = relu(a + u ⊙ h),  |u| <= bound
        y = h';   dense: y = (x, h'), so that every layer of a stack reads all layers below it

    State: (h,).

    Args:
        input_size: features D.
        hidden_size: units H; with `dense` the features that each layer adds.
        dense: whether y begins with x.
        bound: largest |u|; the paper takes 2^(1/T) for sequences of T steps.
        norm: of the input's share: "none", "layer" (over units), or "batch" (over batch and time, as in the paper).
            With "batch", in training, sequences of a batch see each other, and so do past and future.
    """

    kernel_for = "all settings"

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
        self.register_buffer("bound", torch.tensor(number("bound", bound, above=0)))
        self.inputs = nn.Linear(input_size, hidden_size)
        nn.init.kaiming_normal_(self.inputs.weight, nonlinearity="relu")
        nn.init.zeros_(self.inputs.bias)
        self.u = nn.Parameter(torch.empty(hidden_size).uniform_(0, bound))
        norms = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": nn.BatchNorm1d}
        self.norm = norms[one_of("norm", norm, norms)](hidden_size)

    def share(self, x: Tensor) -> Tensor:
        """a, the input's share."""
        a = _product(x.flatten(0, -2), self.inputs.weight, self.inputs.bias)
        return self.norm(a).unflatten(0, x.shape[:-1])

    def project(self, x: Tensor) -> Tensor:
        """a, and x after it if y needs it."""
        a = self.share(x)
        return torch.cat([a, x], dim=-1) if self.dense else a

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        a, *seen = x.split([self.hidden_size, *([self.input_size] if self.dense else [])], dim=-1)
        h = torch.relu(a + torch.clamp(self.u, -self.bound, self.bound) * state[0])
        return torch.cat([*seen, h], dim=-1) if self.dense else h, (h,)

    def kernel(self) -> Kernel | None:
        """For every setting, unless a subclass changed the step."""
        return None if overrides(self, IndRNNCell) else Kernel(elementwise.run_indrnn)


@register("sru", paper="Lei et al. 2018, SRU", time="none")
class SRUCell(Cell):
    """SRU: a gated memory with element-wise recurrence, and a highway for the input.

        f, r = σ(W x + v ⊙ c + b), each with its own W, v, b
        c' = f ⊙ c + (1 - f) ⊙ W_c x
        y  = r ⊙ c' + (1 - r) ⊙ s W_y x          (W_y = I if D = H;  s keeps the variance, s² = 1 + 2 exp(highway_bias))

    State: (c,).

    Args:
        input_size: features D.
        hidden_size: units H.
        highway_bias: initial b_r.
    """

    kernel_for = "all settings"

    def __init__(self, input_size: int, hidden_size: int, highway_bias: float = 0.0):
        super().__init__(input_size, hidden_size)
        self.blocks = 3 if input_size == hidden_size else 4
        self.inputs = nn.Linear(input_size, self.blocks * hidden_size, bias=False)
        # Uniform with variance 1/D, as the paper derives.
        nn.init.uniform_(self.inputs.weight, -((3 / input_size) ** 0.5), (3 / input_size) ** 0.5)
        self.v = nn.Parameter(torch.empty(2 * hidden_size).uniform_(-(1.5**0.5), 1.5**0.5))
        self.b = nn.Parameter(torch.zeros(2 * hidden_size))
        bias = number("highway_bias", highway_bias)
        nn.init.constant_(self.b[hidden_size:], bias)
        self.register_buffer("scale", (1 + 2 * torch.tensor(bias).exp()).sqrt())

    def project(self, x: Tensor) -> Tensor:
        """The gates' share of the input, the new content, the highway."""
        bias = torch.cat([self.b, self.b.new_zeros((self.blocks - 2) * self.hidden_size)])
        u = _product(x.flatten(0, -2), self.inputs.weight, bias).unflatten(0, x.shape[:-1])
        return u if self.blocks == 4 else torch.cat([u, x], dim=-1)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """One step."""
        (c,) = state
        for_gates, content, highway = x.split([2 * self.hidden_size, self.hidden_size, self.hidden_size], dim=-1)
        f, r = torch.sigmoid(for_gates + self.v * torch.cat([c, c], dim=-1)).chunk(2, dim=-1)
        c = content + f * (c - content)
        highway = self.scale * highway
        return highway + r * (c - highway), (c,)

    def kernel(self) -> Kernel | None:
        """For every setting, unless a subclass changed the step."""
        return None if overrides(self, SRUCell) else Kernel(elementwise.run_sru)


def _product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """W x + b for `x (N, D)`.

    In training by a copy of Wᵀ: with 2 to 8 features torch takes 3 to 9 times as long for the gradient of W itself.
    """
    transposed = weight.T.contiguous() if torch.is_grad_enabled() else weight.T
    return torch.addmm(bias, x, transposed)
