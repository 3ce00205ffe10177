"""Shared code of the loop writers for vectorized C++ and for C99."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ._node import Node
from ._program import Loop
from ._schedule import Scheduler
from ._views import View, dense_strides

SYMBOLS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "copy": "{0}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
}
"""Element-wise operations that both languages write alike."""


def visited(loop: Loop, scheduler: Scheduler) -> Iterator[tuple[View, bool]]:
    """Yields every value that the loop needs and whether it is computed in place; each computed node comes once."""
    computed = set[Node]()
    pending = loop.roots()[::-1]
    while pending:
        view = pending.pop()
        inlined = scheduler.inlines(view, loop.context, loop.time)
        if inlined and view.node in computed:
            continue
        yield view, inlined
        if inlined:
            computed.add(view.node)
            pending += view.node.args[::-1]


class Writer:
    """Writes the values of one loop; subclasses define loops, loads and stores of a language.

    Attributes:
        operations: The text of each element-wise operation.
        types: The types of a boolean and of a number.
        indent: The indentation of one level.
    """

    operations: Mapping[str, str]
    types: tuple[str, str]
    indent: str

    def __init__(self, loop: Loop, scheduler: Scheduler):
        self.loop, self.scheduler = loop, scheduler
        self.lines: list[str] = []
        self.depth = 1
        self.known: dict[Node, str] = {}
        self.loads: dict[tuple[object, ...], str] = {}

    def _literal(self, node: Node) -> str:
        raise NotImplementedError

    def _loaded(self, view: View) -> str:
        raise NotImplementedError

    def _value(self, view: View) -> str:
        node = view.node
        if node.op == "const":
            return self._literal(node)
        if not self.scheduler.inlines(view, self.loop.context, self.loop.time):
            return self._load(view)
        if node not in self.known:
            args = [self._value(arg) for arg in node.args]
            kind = self.types[0] if node.kind == "bool" else self.types[1]
            self._line(f"const {kind} v{node.number} = {self.operations[node.op].format(*args)};")
            self.known[node] = f"v{node.number}"
        return self.known[node]

    def _load(self, view: View) -> str:
        if view.key not in self.loads:
            name = f"l{len(self.loads)}"
            self._line(f"const {self.types[1]} {name} = {self._loaded(view)};")
            self.loads[view.key] = name
        return self.loads[view.key]

    def _kept_strides(self, node: Node) -> tuple[int, ...]:
        """Returns the strides of a reduction's storage over the axes of the loop."""
        inner = iter(dense_strides(node.shape))
        return tuple(0 if axis in self.loop.axes else next(inner) for axis in range(len(self.loop.space)))

    def _line(self, text: str) -> None:
        self.lines.append(self.indent * self.depth + text)

    def _open(self, text: str) -> None:
        self._line(text)
        self.depth += 1

    def _close(self, text: str) -> None:
        self.depth -= 1
        self._line(text)
