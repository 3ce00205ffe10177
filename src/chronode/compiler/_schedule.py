"""Orders a graph into loops and products, and decides which values are stored.

A program is a list of stages. Each has loops, which compute element-wise values and keep them in registers unless
something else reads them, then products and other operations that read and write stored values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from ._node import EXPENSIVE, GRADIENTS, REDUCTIONS, Node
from ._program import Context, Loop, Program, Stage, Store, Target
from ._views import Shape, View, dense_strides

_CHEAP = 3  # operations that are repeated rather than stored and loaded


class Scheduler:
    """Schedules one pass.

    Args:
        targets: The outputs to compute.
        sums: The sums over rows to compute.
        leaves: Nodes that are already stored.
        keep: Nodes that must be stored for another pass.
        guarded: Targets that are not always needed.
    """

    def __init__(
        self,
        targets: list[Target],
        sums: list[Node],
        leaves: set[Node],
        keep: list[Node],
        guarded: frozenset[str] = frozenset(),
    ):
        self.targets, self.sums, self.leaves, self.keep = targets, sums, leaves, keep
        self.guarded = guarded
        self.outer = [node for node in sums if node.op == "outer"]
        self.needed = self._needed()
        self.guard = self._guards()
        self.stored = self._stored_at_least()
        chunked = {arg.node for node in self.outer for arg in node.args} - {n for n in leaves if n.is_parameter}
        self.column_sums = [n for n in sums if n.op == "row_sum" and n.args[0].node in chunked and n.args[0].is_whole()]
        self.loop_sums = [n for n in sums if n.op == "row_sum" and n not in self.column_sums]

    def run(self) -> Program:
        """Returns the stages."""
        while True:
            self.times = self._times()
            more = self._used_twice()
            if not more:
                break
            self.stored |= more
        return self._program()

    # ---- what is needed --------------------------------------------------------------------------------

    def _is_leaf(self, node: Node) -> bool:
        return node in self.leaves or node.is_parameter or node.op == "input"

    def _roots(self) -> list[Node]:
        return [*(target.value.node for target in self.targets), *self.sums, *self.keep]

    def _needed(self) -> list[Node]:
        needed: set[Node] = set()
        pending = list(self._roots())
        while pending:
            node = pending.pop()
            if node in needed:
                continue
            needed.add(node)
            if not self._is_leaf(node):
                pending.extend(arg.node for arg in node.args)
        return sorted(needed, key=lambda node: node.number)

    def _guards(self) -> dict[Node, str]:
        """Returns the guarded target of each node that is needed by this target alone."""
        ends: dict[Node, set[str]] = defaultdict(set)
        for target in self.targets:
            ends[target.value.node].add(target.name if target.name in self.guarded else "")
        for node in [*self.sums, *self.keep]:
            ends[node].add("")
        for node in reversed(self.needed):
            if not self._is_leaf(node):
                for arg in node.args:
                    ends[arg.node] |= ends[node]
        return {node: next(iter(names)) if len(names) == 1 else "" for node, names in ends.items()}

    def _stored_at_least(self) -> set[Node]:
        stored = set(self.keep)
        for node in self.needed:
            if self._is_leaf(node):
                continue
            if not node.is_pointwise and node.op not in GRADIENTS:
                stored.add(node)
            if node.forced:
                stored.add(node)
            if node.op in ("product", "outer", "gather", "scatter"):
                stored.update(arg.node for arg in node.args if not self._is_leaf(arg.node))
            # Inputs that a sum over time reads are gathered into rows of many steps.
            if node.op == "outer":
                stored.update(arg.node for arg in node.args if arg.node.op == "input" and arg.node not in self.leaves)
        return stored

    # ---- when ------------------------------------------------------------------------------------------

    def _context(self, node: Node) -> Context:
        """Returns the loop that a node is computed in: space, reduced axes, guard."""
        if node.op in REDUCTIONS:
            return node.args[0].shape, node.detail, self.guard[node]
        return node.shape, (), self.guard[node]

    def inlines(self, view: View, context: Context, time: int | None = None) -> bool:
        """Returns whether a loop of a stage computes the value itself rather than loading it.

        Without a stage, the answer is for the stage in which the value is first computed.
        """
        node = view.node
        if self._is_leaf(node) or not node.is_pointwise or not view.is_all():
            return False
        stored_before = time is not None and self.times[node] < time
        return node not in self.stored or (self._context(node) == context and not stored_before)

    def _ready(self, view: View, context: Context, times: dict[Node, int]) -> int:
        """Returns the first stage in whose loops the value is available."""
        node = view.node
        if self._is_leaf(node):
            return 0
        return times[node] + (0 if self.inlines(view, context) else 1)

    def _times(self) -> dict[Node, int]:
        times: dict[Node, int] = {}
        for node in self.needed:
            if self._is_leaf(node):
                times[node] = 0
            elif node.op in ("product", "gather", "scatter"):
                times[node] = max(0 if self._is_leaf(arg.node) else times[arg.node] for arg in node.args)
            elif node.op == "concat":
                pieces = [arg.squeezed() for arg in node.args]
                times[node] = max(self._ready(piece, (piece.shape, (), self.guard[node]), times) for piece in pieces)
            elif node.op == "outer":
                times[node] = 0
            else:
                context = self._context(node)
                times[node] = max((self._ready(arg, context, times) for arg in node.args), default=0)
        return times

    # ---- what is stored besides ------------------------------------------------------------------------

    def _used_twice(self) -> set[Node]:
        """Returns the values that would be computed in several loops and cost more than a load."""
        where: dict[Node, set[object]] = defaultdict(set)
        for loop in self._loops():
            for view in loop.roots():
                self._visit(view, loop, (loop.time, loop.context), where)
        return {
            node
            for node, marks in where.items()
            if len(marks) > 1 and node not in self.stored and node.kind == "float" and self._is_costly(node)
        }

    def _visit(self, view: View, loop: Loop, mark: object, where: dict) -> None:
        node = view.node
        if not self.inlines(view, loop.context, loop.time) or mark in where[node]:
            return
        where[node].add(mark)
        for arg in node.args:
            self._visit(arg, loop, mark, where)

    def _is_costly(self, node: Node) -> bool:
        """Returns whether computing a value once more takes longer than loading it."""
        inner, pending = {node}, [node]
        while pending and len(inner) <= _CHEAP:
            for arg in pending.pop().args:
                one = arg.node
                if one.is_pointwise and not self._is_leaf(one) and one not in self.stored and one not in inner:
                    inner.add(one)
                    pending.append(one)
        return len(inner) > _CHEAP or any(one.op in EXPENSIVE for one in inner)

    # ---- the program -----------------------------------------------------------------------------------

    def _loops(self) -> list[Loop]:
        loops: dict[tuple[int, Shape, tuple[int, ...], str], Loop] = {}

        def loop(time: int, context: Context) -> Loop:
            return loops.setdefault((time, *context), Loop(time, *context))

        def store(
            value: View, to: Node | str, strides: Shape, offset: int, guard: str, time: int | None = None
        ) -> None:
            kept = [axis for axis, size in enumerate(value.shape) if size != 1]
            value, strides = value.squeezed(), tuple(strides[axis] for axis in kept)
            context = (value.shape, (), guard)
            when = self._ready(value, context, self.times) if time is None else time
            loop(when, context).stores.append(Store(value, to, strides, offset))

        for node in self.needed:
            if node in self.stored and node.op == "input":
                store(node.view(), node, dense_strides(node.shape), 0, self.guard[node])
            elif self._is_leaf(node) or node not in self.stored:
                continue
            elif node.op == "concat":
                start, strides = 0, dense_strides(node.shape)
                for piece in node.args:
                    store(piece, node, strides, start * strides[node.detail], self.guard[node])
                    start += piece.shape[node.detail]
            elif node.op in REDUCTIONS:
                loop(self.times[node], self._context(node)).reductions.append(node)
            elif node.is_pointwise:
                store(node.view(), node, dense_strides(node.shape), 0, self.guard[node], self.times[node])
        for target in self.targets:
            guard = target.name if target.name in self.guarded else ""
            value = target.value.node.view() if target.value.is_whole() else target.value
            store(value, target.name, dense_strides(value.shape), 0, guard)
        for node in self.loop_sums:
            context = (node.args[0].shape, (), "")
            loop(self._ready(node.args[0], context, self.times), context).sums.append(node)
        return [loop for _, loop in sorted(loops.items(), key=lambda item: item[0])]

    def _program(self) -> Program:
        loops = self._loops()
        heavy = [n for n in self.needed if n.op in ("product", "gather", "scatter") and not self._is_leaf(n)]
        last = max([loop.time for loop in loops] + [self.times[node] for node in heavy], default=0)
        stages = [Stage() for _ in range(last + 1)]
        for loop in loops:
            stages[loop.time].loops.append(loop)
        for node in heavy:
            stages[self.times[node]].heavy.append(node)
        lives, read = self._lives(stages)
        return Program(stages, self.stored, read, lives, self.outer, self.column_sums)

    def _lives(self, stages: list[Stage]) -> tuple[dict[Node, tuple[int, int]], set[Node]]:
        lives: dict[Node, tuple[int, int]] = {}
        read: set[Node] = set()

        def load(node: Node, time: int) -> None:
            read.add(node)
            touch(node, time)

        def touch(node: Node, time: int) -> None:
            if node in self.stored:
                first, last = lives.get(node, (time, time))
                lives[node] = min(first, time), max(last, time)

        for time, stage in enumerate(stages):
            for loop in stage.loops:
                for stored in loop.stores:
                    if isinstance(stored.to, Node):
                        touch(stored.to, time)
                for view in loop.roots():
                    self._touch_loads(view, loop, load, set())
                for node in loop.reductions:
                    touch(node, time)
            for node in stage.heavy:
                touch(node, time)
                for arg in node.args:
                    load(arg.node, time)
        return lives, read

    def _touch_loads(self, view: View, loop: Loop, load: Callable[[Node, int], None], seen: set[Node]) -> None:
        if not self.inlines(view, loop.context, loop.time):
            load(view.node, loop.time)
        elif view.node not in seen:
            seen.add(view.node)
            for arg in view.node.args:
                self._touch_loads(arg, loop, load, seen)
