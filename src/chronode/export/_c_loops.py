"""Writes one loop of a schedule as C99, for a single row."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..compiler._graph import Node
from ..compiler._schedule import Loop, Scheduler, Store
from ..compiler._views import View, dense_strides
from ._c_text import OPERATIONS, literal

Constant = Callable[[View, list[str]], str]


class LoopWriter:
    """C99 of one loop over the indices i0, i1, ...

    Args:
        loop: What to write.
        scheduler: Which values are stored.
        names: Gives the array of a stored value, an input or a target.
        constant: Gives an element of a parameter, for a view and the names of the loop's indices.
    """

    def __init__(self, loop: Loop, scheduler: Scheduler, names: Callable[[Node | str], str], constant: Constant):
        self.loop, self.scheduler, self.names, self.constant = loop, scheduler, names, constant
        self.context = (loop.space, loop.axes, loop.guard)
        self.indices = [f"i{axis}" for axis in range(len(loop.space))]
        self.lines: list[str] = []
        self.depth = 1
        self.known: dict[Node, str] = {}
        self.loads: dict[tuple[object, ...], str] = {}

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
            inner = iter(dense_strides(node.shape))
            strides = tuple(0 if axis in self.loop.axes else next(inner) for axis in range(len(self.loop.space)))
            self._line(f"{self.names(node)}[{self._index(strides, 0)}] = a{node.number};")

    def _begin(self, axes: list[int] | tuple[int, ...]) -> None:
        for axis in axes:
            self._line(f"for (int i{axis} = 0; i{axis} < {self.loop.space[axis]}; ++i{axis}) {{")
            self.depth += 1
        if not axes:
            self._line("{")
            self.depth += 1

    def _end(self, count: int) -> None:
        for _ in range(max(count, 1)):
            self.depth -= 1
            self._line("}")

    def _store(self, store: Store) -> None:
        value = self._value(store.value)
        self._line(f"{self.names(store.to)}[{self._index(store.strides, store.offset)}] = {value};")

    def _value(self, view: View) -> str:
        node = view.node
        if node.op == "const":
            return literal(node)
        if not self.scheduler.inlines(view, self.context):
            return self._load(view)
        if node not in self.known:
            args = [self._value(arg) for arg in node.args]
            kind = "int" if node.kind == "bool" else "float"
            self._line(f"const {kind} v{node.number} = {OPERATIONS[node.op].format(*args)};")
            self.known[node] = f"v{node.number}"
        return self.known[node]

    def _load(self, view: View) -> str:
        if view.key not in self.loads:
            name = f"l{len(self.loads)}"
            if view.node.op == "param":
                source = self.constant(view, self.indices)
            else:
                source = f"{self.names(view.node)}[{self._index(view.strides, view.offset)}]"
            self._line(f"const float {name} = {source};")
            self.loads[view.key] = name
        return self.loads[view.key]

    def _index(self, strides: tuple[int, ...], offset: int) -> str:
        return affine(self.indices, strides, offset)

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)


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
    context, found, seen = (loop.space, loop.axes, loop.guard), [], set()

    def visit(view: View) -> None:
        if not scheduler.inlines(view, context):
            found.append(view)
        elif view.node not in seen:
            seen.add(view.node)
            for arg in view.node.args:
                visit(arg)

    for view in [*(store.value for store in loop.stores), *(node.args[0] for node in loop.reductions)]:
        visit(view)
    return found


def operations(loop: Loop, scheduler: Scheduler) -> dict[str, int]:
    """Returns how often a run of the loop does each element-wise operation."""
    context, seen = (loop.space, loop.axes, loop.guard), set()
    count: dict[str, int] = {}

    def visit(view: View) -> None:
        node = view.node
        if scheduler.inlines(view, context) and node not in seen and node.op != "const":
            seen.add(node)
            count[node.op] = count.get(node.op, 0) + math.prod(loop.space)
            for arg in node.args:
                visit(arg)

    for view in [*(store.value for store in loop.stores), *(node.args[0] for node in loop.reductions)]:
        visit(view)
    return count
