"""Nodes of a recorded step: their operators, views, random draws, and steps that are not supported."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, fx

VIEWS = frozenset(
    {
        *("alias", "detach", "t", "transpose", "permute", "view", "_unsafe_view", "reshape", "expand", "unsqueeze"),
        *("squeeze", "select", "slice", "split", "split_with_sizes", "unbind", "unsafe_split"),
        "unsafe_split_with_sizes",
    }
)
"""Operations whose result is a view of their argument."""


COMPLEX = "computes with complex numbers: keep real and imaginary parts as two real tensors to compile it"
"""Reason why a step with complex tensors is not compiled."""


class Unsupported(Exception):
    """Raised if a step cannot be compiled; the message gives the reason and continues "the step ..."."""


DRAWS = frozenset(
    {
        *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like"),
        *("bernoulli_", "exponential_", "uniform_", "normal_", "log_normal_", "cauchy_", "geometric_"),
    }
)
"""Operators that draw random numbers, one tensor for all rows."""


@dataclass(frozen=True)
class Draw:
    """A random tensor that each step draws.

    Attributes:
        name: The operator.
        shape: Shape without the batch axis.
        dtype: Dtype in which torch draws it.
        args: Numbers that the operator takes besides the shape.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    args: tuple[float, ...] = ()

    def sample(self, batch: int, dtype: torch.dtype) -> Tensor:
        """Returns the tensor of one step, with the numbers that the step itself would draw."""
        shape = (batch, *self.shape)
        if self.name.endswith("_"):
            return getattr(torch.empty(shape, dtype=self.dtype), self.name)(*self.args).to(dtype)
        function = getattr(torch, self.name.removesuffix("_like"))
        return function(*self.args, shape, dtype=self.dtype).to(dtype)


def operator(node: fx.Node) -> str:
    """Returns the ATen name of a node, without overload."""
    return node.target._opname if isinstance(node.target, torch._ops.OpOverload) else str(node.target)


def is_view(node: fx.Node) -> bool:
    """Returns whether a node is a view of its argument."""
    if node.op == "call_function" and "getitem" in str(node.target):
        node = node.all_input_nodes[0]
    return node.op == "call_function" and operator(node) in VIEWS
