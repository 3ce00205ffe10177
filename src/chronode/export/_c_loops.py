"""Writes one loop of a schedule as C99, for a single row."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..compiler import Loop, Node, Scheduler, Store, View, Writer, visited
from ._c_text import OPERATIONS, literal

Constant = Callable[[View, list[str]], str]


class LoopWriter(Writer):
    """Writes one loop over the indices i0, i1, ... as C99.

    Args:
        loop: The loop to write.
        scheduler: Knows which values are stored.
        names: Returns the array of a stored value, an input or a target.
        constant: Returns an element of a parameter, given a view and the names of the loop's indices.
    """

    operations, types, indent = OPERATIONS, ("int", "float"), "    "

    def __init__(self, loop: Loop, scheduler: Scheduler, names: Callable[[Node | str], str], constant: Constant):
        super().__init__(loop, scheduler)
        self.names, self.constant = names, constant
        self.indices = [f"i{axis}" for axis in range(len(loop.space))]

    def text(self) -> str:
        """Returns the loop."""
        kept = [axis for axis in range(len(self.loop.space)) if axis not in self.loop.axes]
        self._begin(kept)
        if self.loop.axes:
            self._reductions()
        else:
            for store in self.loop.stores:
                self._store(store)
        self._end(len(kept))
        return "\n".join(self.lines)

    def _reductions(self) -> None:
        for node in self.loop.reductions:
            start = "0.0f" if node.op == "sum" else "-3.402823466e+38f"
            self._line(f"float a{node.number} = {start};")
        self._begin(self.loop.axes)
        for node in self.loop.reductions:
            value, total = self._value(node.args[0]), f"a{node.number}"
            new = f"{total} + {value}" if node.op == "sum" else f"{total} < {value} ? {value} : {total}"
            self._line(f"{total} = {new};")
        self._end(len(self.loop.axes))
        for node in self.loop.reductions:
            self._line(f"{self.names(node)}[{self._index(self._kept_strides(node), 0)}] = a{node.number};")

    def _begin(self, axes: list[int] | tuple[int, ...]) -> None:
        for axis in axes:
            self._open(f"for (int i{axis} = 0; i{axis} < {self.loop.space[axis]}; ++i{axis}) {{")
        if not axes:
            self._open("{")

    def _end(self, count: int) -> None:
        for _ in range(max(count, 1)):
            self._close("}")

    def _store(self, store: Store) -> None:
        value = self._value(store.value)
        self._line(f"{self.names(store.to)}[{self._index(store.strides, store.offset)}] = {value};")

    def _literal(self, node: Node) -> str:
        return literal(node)

    def _loaded(self, view: View) -> str:
        if view.node.op == "param":
            return self.constant(view, self.indices)
        return f"{self.names(view.node)}[{self._index(view.strides, view.offset)}]"

    def _index(self, strides: tuple[int, ...], offset: int) -> str:
        return affine(self.indices, strides, offset)


def affine(indices: list[str], strides: tuple[int, ...], offset: int) -> str:
    """Returns `offset + Σ index · stride` as C."""
    terms = [
        name if stride == 1 else f"{stride} * {name}" for name, stride in zip(indices, strides, strict=False) if stride
    ]
    if offset or not terms:
        terms.append(str(offset))
    return " + ".join(terms)


def reads(loop: Loop, scheduler: Scheduler) -> list[View]:
    """Returns the stored values that a loop loads."""
    return [view for view, inlined in visited(loop, scheduler) if not inlined]


def operations(loop: Loop, scheduler: Scheduler) -> dict[str, int]:
    """Returns how often the loop performs each element-wise operation."""
    count: dict[str, int] = {}
    for view, inlined in visited(loop, scheduler):
        if inlined and view.node.op != "const":
            count[view.node.op] = count.get(view.node.op, 0) + math.prod(loop.space)
    return count
