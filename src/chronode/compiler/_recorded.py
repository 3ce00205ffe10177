"""Nodes of a recorded step: their operators, views, random draws, and steps that are not supported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, fx

VIEWS = frozenset(
    {
        *("alias", "detach", "t", "transpose", "permute", "view", "_unsafe_view", "reshape", "expand", "unsqueeze"),
        *("squeeze", "select", "slice", "split", "split_with_sizes", "unbind"),
    }
)
"""Operations whose result is a view of their argument."""


class Unsupported(Exception):
    """Raised if a step cannot be compiled; the message gives the reason and continues "the step ..."."""


@dataclass(frozen=True)
class Draw:
    """A random tensor that each step draws."""

    function: Callable[..., Tensor]
    shape: tuple[int, ...]


def operator(node: fx.Node) -> str:
    """Returns the ATen name of a node, without overload."""
    return node.target._opname if isinstance(node.target, torch._ops.OpOverload) else str(node.target)


def is_view(node: fx.Node) -> bool:
    """Returns whether a node is a view of its argument."""
    return node.op == "call_function" and (operator(node) in VIEWS or "getitem" in str(node.target))
