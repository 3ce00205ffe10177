"""What each of torch's operators is in the graph: the rules by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._graph import Node

Number = float | int | bool
RULES: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class RowSum:
    """A sum over rows and time, and what makes the traced tensor of it."""

    node: Node
    shape: tuple[int, ...]
    transposed: bool = False
    more_axes: tuple[int, ...] = ()


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a rule for operators of these ATen names."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add
