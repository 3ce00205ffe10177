"""A value of the graph of one step, and the kinds of operations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ._views import Shape, View, dense_strides

EXPENSIVE = frozenset(
    {
        *("exp", "tanh", "sigmoid", "softplus", "log", "log1p", "expm1", "sin", "cos", "erf", "atan"),
        *("pow", "sqrt", "div", "remainder"),
    }
)
"""Element-wise operations that cost more than storing their result for later use."""
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
"""Comparisons of two values."""
MASKS = COMPARISONS | {"and", "or", "xor", "not"}
REDUCTIONS = frozenset({"sum", "max"})
GRADIENTS = frozenset({"row_sum", "outer"})
"""Sums over the rows of the batch and over time."""


@dataclass(eq=False)
class Node:
    """One value.

    Attributes:
        number: Position in the order of creation; arguments come before the nodes that use them.
        op: The operation.
        args: Its arguments.
        shape: Its shape without the batch axis.
        kind: "float", "bool" (element-wise only, never stored) or "int" (parameters that hold indices).
        detail: Further arguments of the operation: a name, a number, axes.
        forced: Whether it must be stored because it is read through a view that cannot be resolved.
        expensive: Whether it, or a value computed together with it, costs more than a load.
    """

    number: int
    op: str
    args: tuple[View, ...] = field(repr=False)
    shape: Shape
    kind: str = "float"
    detail: Any = None
    forced: bool = False
    expensive: bool = field(init=False)

    def __post_init__(self) -> None:
        inner = any(arg.node.expensive for arg in self.args)
        self.expensive = self.is_pointwise and (self.op in EXPENSIVE or inner)

    @property
    def size(self) -> int:
        """Elements per row."""
        return math.prod(self.shape)

    @property
    def is_pointwise(self) -> bool:
        """Whether it is an element-wise operation, whose value may stay in registers."""
        return self.op not in _STORED

    @property
    def is_parameter(self) -> bool:
        """Whether it is the same for all rows."""
        return self.op in ("param", "const")

    def view(self) -> View:
        """Returns a view of the whole value."""
        return View(self, self.shape, dense_strides(self.shape))


_STORED = frozenset({"input", "param", "product", "concat", "gather", "scatter"}) | REDUCTIONS | GRADIENTS
