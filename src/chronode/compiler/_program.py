"""A program: what a scheduled pass consists of."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._node import Node
from ._views import Shape, View

Context = tuple[Shape, tuple[int, ...], str]


@dataclass(frozen=True)
class Target:
    """An output of a program ("y", "next0", "dx", ...) and its value."""

    name: str
    value: View


@dataclass(frozen=True)
class Store:
    """Elements that a loop writes: to a node's storage or to a target, at `offset + Σ index · strides`."""

    value: View
    to: Node | str
    strides: Shape
    offset: int = 0


@dataclass
class Loop:
    """Element-wise work over one space of indices, for all rows.

    Attributes:
        time: The stage that it belongs to.
        space: The axes.
        axes: The axes that are reduced.
        guard: The only target that needs the loop ("" if there are several).
        stores: The elements that it writes.
        reductions: The sums and maxima that it computes.
        sums: The sums over rows that it adds to.
    """

    time: int
    space: Shape
    axes: tuple[int, ...]
    guard: str
    stores: list[Store] = field(default_factory=list)
    reductions: list[Node] = field(default_factory=list)
    sums: list[Node] = field(default_factory=list)

    @property
    def context(self) -> Context:
        """Space, reduced axes and guard."""
        return self.space, self.axes, self.guard

    def roots(self) -> list[View]:
        """Returns the values that it computes: those it stores, then those it reduces and sums."""
        return [*(store.value for store in self.stores), *(node.args[0] for node in (*self.reductions, *self.sums))]


@dataclass
class Stage:
    """Loops, then operations on stored values in order."""

    loops: list[Loop] = field(default_factory=list)
    heavy: list[Node] = field(default_factory=list)


@dataclass
class Program:
    """One pass.

    Attributes:
        stages: The stages, in order.
        stored: The values that are written to memory.
        read: Those stored values that the pass itself reads.
        lives: The first and last stage in which each stored value is needed.
        outer: The products over time.
        column_sums: The sums over rows of values that products over time read.
    """

    stages: list[Stage]
    stored: set[Node]
    read: set[Node]
    lives: dict[Node, tuple[int, int]]
    outer: list[Node]
    column_sums: list[Node]
