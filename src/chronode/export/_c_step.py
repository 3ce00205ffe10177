"""The C99 code of a traced cell: its loops and products, for a single row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ..compiler import EXPENSIVE, SYMBOLS, Loop, Node, Scheduler, Scratch, Store, Target, View, Writer, visited
from ._c_constants import Constants, affine, number
from ._deployment import Part

_CALLED = ("abs", "exp", "tanh", "sigmoid", "softplus", "log", "log1p", "expm1", "sqrt", "sin", "cos", "erf", "atan")
OPERATIONS = {
    **SYMBOLS,
    **{name: f"m_{name}({{0}})" for name in (*_CALLED, "round", "floor")},
    **{name: f"m_{name}({{0}}, {{1}})" for name in ("pow", "remainder")},
    "relu": "{0} > 0.0f ? {0} : 0.0f",
    "rsqrt": "1.0f / m_sqrt({0})",
    "reciprocal": "1.0f / {0}",
    "sign": "(float)(({0} > 0.0f) - ({0} < 0.0f))",
    "ceil": "-m_floor(-{0})",
    "minimum": "{0} < {1} ? {0} : {1}",
    "maximum": "{0} > {1} ? {0} : {1}",
    "where": "{0} ? {1} : {2}",
    "and": "{0} && {1}",
    "or": "{0} || {1}",
    "not": "!{0}",
}
"""Element-wise operations; `m_` are functions of `_c_texts`."""
_FUNCTIONS = EXPENSIVE - {"div"}


@dataclass
class Costs:
    """Memory and operations of a step.

    Attributes:
        flash: Bytes of constants.
        state: Bytes of state between steps.
        work: Bytes of stack during a step.
        multiply_adds: Multiply-adds in products and element by element.
        calls: Calls of exp, tanh and similar functions.
    """

    flash: int = 0
    state: int = 0
    work: int = 0
    multiply_adds: int = 0
    calls: int = 0


@dataclass
class StepWriter:
    """Writes the body of a step."""

    part: Part
    int8: bool = False
    prefix: str = ""
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        step = self.part.step
        sizes = step.traced.states
        targets = [Target("y", step.outputs[0])]
        targets += [Target(f"next{i}", view) for i, view in enumerate(step.outputs[1:])]
        self.scheduler = Scheduler(targets, [], set(), [])
        self.program = self.scheduler.run()
        exact = self.part.scaling()
        self.constants = Constants(self.part.tensors, self.scheduler.needed, self.int8, exact, self.prefix)
        self.scratch = Scratch()
        self.names: dict[Node | str, str] = {"y": "y"}
        self.names |= {n: _INPUTS.get(n.detail, f"state->{n.detail}") for n in step.nodes if n.op == "input"}
        self.next = {i: size for i, size in enumerate(sizes) if not self._in_place(i)}
        self.names |= {f"next{i}": f"next{i}" if i in self.next else f"state->state{i}" for i in range(len(sizes))}

    def text(self) -> str:
        """Returns the body, without the first lines that check and copy the input."""
        lines = []
        last = len(self.program.stages) - 1
        for node in sorted(self.program.stored, key=lambda node: node.number):
            offset = self.scratch.place(node.size, self.program.lives[node])
            self.names[node] = f"n{node.number}"
            lines.append(f"    float *const n{node.number} = work + {offset};")
        for i, size in self.next.items():
            offset = self.scratch.place(size, (self._first_store(i), last + 1))
            lines.append(f"    float *const next{i} = work + {offset};")
        for stage in self.program.stages:
            for loop in stage.loops:
                lines.append(LoopWriter(loop, self.scheduler, self.names.__getitem__, self.constants.element).text())
                counts = operations(loop, self.scheduler)
                self.costs.multiply_adds += counts["mul"]
                self.costs.calls += sum(counts[op] for op in _FUNCTIONS)
            lines += [f"    {self._heavy(node)}" for node in stage.heavy]
        for i, size in self.next.items():
            lines.append(f"    for (int i = 0; i < {size}; ++i) {{\n        state->state{i}[i] = next{i}[i];\n    }}")
        self.costs.flash = self.constants.bytes
        self.costs.state = 4 * sum(self.part.traced.states)
        self.costs.work = 4 * (self.scratch.size + self.part.cell.input_size + 1)
        return "\n".join(lines)

    def _heavy(self, node: Node) -> str:
        first = node.args[0]
        source = f"{self.names[first.node]} + {first.offset}" if first.offset else self.names[first.node]
        if node.op == "product":
            a, matrix, *bias = node.args
            k, n = matrix.shape
            rows = math.prod(a.shape[:-1])
            self.costs.multiply_adds += rows * n * k
            function = "product_int8" if self.constants.is_rounded(matrix) else "product"
            weights = self.constants.matrix(matrix)
            weights += f", {self.constants.bias(bias[0] if bias else None, self.constants.is_rounded(matrix))}"
            return f"{function}({weights}, {source}, {self.names[node]}, {rows}, {n}, {k});"
        if node.op != "gather":
            raise ValueError(f"this model cannot be exported to C: its step uses {node.op}.")
        a, index = node.args
        position = f"{self.constants.indices(index)}[i]"
        step = "" if a.strides[-1] == 1 else f"{a.strides[-1]} * "
        if len(a.shape) > 1:
            raise ValueError("this model cannot be exported to C: its step selects elements of a matrix.")
        return f"for (int i = 0; i < {node.shape[-1]}; ++i) {{ {self.names[node]}[i] = ({source})[{step}{position}]; }}"

    # ---- whether a part of the state can be written over while the step still runs -----------------------

    def _in_place(self, i: int) -> bool:
        """Returns whether nothing reads a part of the state after its new value is written."""
        events = list(enumerate(work for stage in self.program.stages for work in [*stage.loops, *stage.heavy]))
        stores = [(time, loop) for time, loop in events if isinstance(loop, Loop) and self._stores(loop, i)]
        first = min(time for time, _ in stores)
        for time, work in events:
            views = reads(work, self.scheduler) if isinstance(work, Loop) else list(work.args)
            reads_of_state = [view for view in views if view.node.op == "input" and view.node.detail == f"state{i}"]
            if not reads_of_state or time < first:
                continue
            if time > first or not isinstance(work, Loop) or not self._element_by_element(work, reads_of_state, i):
                return False
        return True

    def _element_by_element(self, loop: Loop, views: list[View], i: int) -> bool:
        """Returns whether each iteration of a loop reads only the element that it writes."""
        stores = [store for store in loop.stores if store.to == f"next{i}"]
        return all(
            (view.strides, view.offset) == (store.strides, store.offset) for view in views for store in stores
        ) and all(stride for store in stores for stride in store.strides)

    def _stores(self, loop: Loop, i: int) -> bool:
        return any(store.to == f"next{i}" for store in loop.stores)

    def _first_store(self, i: int) -> int:
        return next(
            time for time, stage in enumerate(self.program.stages) if any(self._stores(loop, i) for loop in stage.loops)
        )


_INPUTS = {"x": "in", "dt": "gap"}


class LoopWriter(Writer):
    """Writes one loop over the indices i0, i1, ... as C99.

    Args:
        loop: The loop to write.
        scheduler: Knows which values are stored.
        names: Returns the array of a stored value, an input or a target.
        constant: Returns an element of a parameter, given a view and the names of the loop's indices.
    """

    operations, types, indent = OPERATIONS, ("int", "float"), "    "

    def __init__(
        self,
        loop: Loop,
        scheduler: Scheduler,
        names: Callable[[Node | str], str],
        constant: Callable[[View, list[str]], str],
    ):
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
        if node.kind == "bool":
            return "1" if node.detail == "True" else "0"
        return number(float(node.detail))

    def _loaded(self, view: View) -> str:
        if view.node.op == "param":
            return self.constant(view, self.indices)
        return f"{self.names(view.node)}[{self._index(view.strides, view.offset)}]"

    def _index(self, strides: tuple[int, ...], offset: int) -> str:
        return affine(self.indices, strides, offset)


def reads(loop: Loop, scheduler: Scheduler) -> list[View]:
    """Returns the stored values that a loop loads."""
    return [view for view, inlined in visited(loop, scheduler) if not inlined]


def operations(loop: Loop, scheduler: Scheduler) -> Counter[str]:
    """Returns how often the loop performs each element-wise operation."""
    inlined = [view.node.op for view, is_inlined in visited(loop, scheduler) if is_inlined]
    return Counter({op: count * math.prod(loop.space) for op, count in Counter(inlined).items() if op != "const"})
