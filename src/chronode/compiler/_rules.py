"""The rules that turn torch's operators into nodes of the graph, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._node import Node

Number = float | int | bool
RULES: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class RowSum:
    """A sum over rows and time, and how the traced tensor follows from it."""

    node: Node
    shape: tuple[int, ...]
    transposed: bool = False
    more_axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class RowSums:
    """Sums over rows and time that are stacked, such as the gradients of a batch of matrices."""

    parts: tuple[RowSum, ...]


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a rule for operators of these ATen names."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add
