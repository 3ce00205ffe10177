"""Writes one loop of a schedule as C++ over vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ._node import Node
from ._program import Loop, Store
from ._schedule import Scheduler
from ._views import View, dense_strides
from ._writer import SYMBOLS, Writer, visited

OPERATIONS = {
    **SYMBOLS,
    "abs": "absolute({0})",
    "exp": "exp({0})",
    "tanh": "tanh({0})",
    "sigmoid": "sigmoid({0})",
    "relu": "relu({0})",
    "softplus": "softplus({0})",
    "log": "log({0})",
    "log1p": "log1p({0})",
    "expm1": "expm1({0})",
    "sqrt": "square_root({0})",
    "rsqrt": "reciprocal(square_root({0}))",
    "reciprocal": "reciprocal({0})",
    "sin": "sine({0})",
    "cos": "cosine({0})",
    "erf": "error_function({0})",
    "atan": "arc_tangent({0})",
    "sign": "sign({0})",
    "round": "round({0})",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "pow": "power({0}, {1})",
    "minimum": "smaller({0}, {1})",
    "maximum": "larger({0}, {1})",
    "remainder": "remainder({0}, {1})",
    "where": "select<T>({0}, {1}, {2})",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "not": "~{0}",
}
"""Element-wise operations as C++ (simd.h, vmath.h, compiled_math.h)."""
_VECTORS = "each_vector<T>({size}, [&](int64_t {index}, [[maybe_unused]] int lanes) CHRONODE_LAMBDA_INLINE {{"


class LoopWriter(Writer):
    """Writes one loop as C++.

    The last axis is vectorized, or the rows if there is no axis. Indices are r (row), i0, i1, ... and j (the last
    axis).

    Args:
        loop: The loop to write.
        scheduler: Knows which values are stored.
        names: The pointer to each stored value.
    """

    operations, types, indent = OPERATIONS, ("auto", "V"), "  "

    def __init__(self, loop: Loop, scheduler: Scheduler, names: Mapping[Node, str]):
        super().__init__(loop, scheduler)
        self.names = names
        self.groups = self._groups()
        self.sizes = [math.prod(loop.space[axis] for axis in group) for group in self.groups]

    def text(self) -> str:
        """Returns the loop."""
        if self.loop.guard:
            self._open(f"if ({self.loop.guard} != nullptr) {{")
        if not self.loop.space:
            self._rows_in_vectors()
        elif not self.loop.axes:
            self._elements()
        elif len(self.loop.space) - 1 in self.loop.axes:
            self._reduction_along_vectors()
        else:
            self._reduction_across_vectors()
        if self.loop.guard:
            self._close("}")
        return "\n".join(self.lines)

    # ---- axes ------------------------------------------------------------------------------------------

    def _groups(self) -> list[list[int]]:
        """Merges axes along which all arrays are contiguous: a long axis fills vectors better."""
        groups = [[axis] for axis in range(len(self.loop.space))]
        if self.loop.axes:
            return groups
        strides = [store.strides for store in self.loop.stores]
        strides += [view.strides for view, inlined in visited(self.loop, self.scheduler) if not inlined]
        for axis in range(len(groups) - 1, 0, -1):
            if all(one[axis - 1] == one[axis] * self.loop.space[axis] for one in strides):
                groups[axis - 1 : axis + 1] = [groups[axis - 1] + groups[axis]]
        return groups

    # ---- the four kinds of loops -----------------------------------------------------------------------

    def _rows_in_vectors(self) -> None:
        """Writes a loop with one element per row: rows are the vector's lanes."""
        self._open(_VECTORS.format(size="s.m", index="r"))
        self._stores(self.loop.stores)
        for node in self.loop.sums:
            self._line(f"s{node.number}[0] += sum(within({self._value(node.args[0])}, lanes));")
        self._close("});")

    def _elements(self) -> None:
        outer = self.sizes[:-1]
        if not self.loop.sums:
            self._open("for (int64_t r = 0; r < s.m; ++r) {")
        for axis, size in enumerate(outer):
            self._open(f"for (int64_t i{axis} = 0; i{axis} < {size}; ++i{axis}) {{")
        self._open(_VECTORS.format(size=self.sizes[-1], index="j"))
        if self.loop.sums:
            # Rows inside: their sums stay in registers.
            for node in self.loop.sums:
                self._line(f"V t{node.number} = V::zero();")
            self._open("for (int64_t r = 0; r < s.m; ++r) {")
        self._stores(self.loop.stores)
        for node in self.loop.sums:
            self._line(f"t{node.number} += {self._value(node.args[0])};")
        if self.loop.sums:
            self._close("}")
            index = self._index(dense_strides(self.loop.space), 0)
            for node in self.loop.sums:
                address = f"s{node.number} + {index}"
                self._line(f"(V::load({address}, lanes) + t{node.number}).store({address}, lanes);")
        self._close("});")
        for _ in outer:
            self._close("}")
        if not self.loop.sums:
            self._close("}")

    def _reduction_across_vectors(self) -> None:
        """Writes a reduction that keeps the last axis: every lane has its own sum or maximum."""
        space, last = self.loop.space, len(self.loop.space) - 1
        self._open("for (int64_t r = 0; r < s.m; ++r) {")
        kept = [axis for axis in range(last) if axis not in self.loop.axes]
        self._axes(kept)
        self._open(_VECTORS.format(size=space[-1], index="j"))
        self._begin_reductions()
        self._axes(self.loop.axes)
        self._reduce(masked=False)
        for _ in self.loop.axes:
            self._close("}")
        for node in self.loop.reductions:
            address = self._place(node, self._kept_strides(node), 0)
            self._line(f"a{node.number}.store({address}, lanes);")
        self._close("});")
        for _ in kept:
            self._close("}")
        self._close("}")

    def _reduction_along_vectors(self) -> None:
        """Writes a reduction over the last axis: the lanes are combined at the end."""
        space, last = self.loop.space, len(self.loop.space) - 1
        self._open("for (int64_t r = 0; r < s.m; ++r) {")
        kept = [axis for axis in range(last) if axis not in self.loop.axes]
        self._axes(kept)
        self._begin_reductions()
        inner = [axis for axis in self.loop.axes if axis != last]
        self._axes(inner)
        self._open(_VECTORS.format(size=space[-1], index="j"))
        self._reduce(masked=True)
        self._close("});")
        for _ in inner:
            self._close("}")
        for node in self.loop.reductions:
            address = self._place(node, self._kept_strides(node), 0)
            self._line(f"*({address}) = {'sum' if node.op == 'sum' else 'largest'}(a{node.number});")
        for _ in kept:
            self._close("}")
        self._close("}")

    def _axes(self, axes: list[int] | tuple[int, ...]) -> None:
        for axis in axes:
            self._open(f"for (int64_t i{axis} = 0; i{axis} < {self.loop.space[axis]}; ++i{axis}) {{")

    def _begin_reductions(self) -> None:
        for node in self.loop.reductions:
            start = "V::zero()" if node.op == "sum" else "V(-std::numeric_limits<T>::infinity())"
            self._line(f"V a{node.number} = {start};")

    def _reduce(self, masked: bool) -> None:
        for node in self.loop.reductions:
            value = self._value(node.args[0])
            if node.op == "sum":
                value = f"within({value}, lanes)" if masked else value
                self._line(f"a{node.number} += {value};")
            else:
                value = f"within({value}, lanes, -std::numeric_limits<T>::infinity())" if masked else value
                self._line(f"a{node.number} = larger(a{node.number}, {value});")

    # ---- values ----------------------------------------------------------------------------------------

    def _stores(self, stores: list[Store]) -> None:
        for store in stores:
            value = self._value(store.value)
            step = store.strides[-1] if store.strides else 1
            if not isinstance(store.to, Node):
                width = math.prod(store.value.shape)
                address = f"{store.to} + {self._index(store.strides, store.offset, width)}"
            else:
                width = store.to.size
                name = f"c{store.to.number}" if store.to.op == "input" else self.names[store.to]
                address = f"{name} + {self._index(store.strides, store.offset, width)}"
            if not self.loop.space:
                step = width
            if step == 1:
                self._line(f"{value}.store({address}, lanes);")
            else:
                self._line(f"store_strided({value}, {address}, {step}, lanes);")

    def _literal(self, node: Node) -> str:
        text = node.detail
        if node.kind == "bool":
            return f"first_lanes<T>({'V::kLanes' if text == 'True' else '0'})"
        if text in ("inf", "-inf", "nan"):
            limit = "quiet_NaN" if text == "nan" else "infinity"
            return f"V({'-' if text[0] == '-' else ''}std::numeric_limits<T>::{limit}())"
        return f"V(T({text}))"

    def _loaded(self, view: View) -> str:
        node = view.node
        address = self._place(node, view.strides, view.offset)
        if not self.loop.space:
            if node.is_parameter:
                return f"V(*({address}))"
            return f"V::load({address}, lanes)" if node.size == 1 else f"load_strided({address}, {node.size}, lanes)"
        step = view.strides[-1]
        if step == 0:
            return f"V(*({address}))"
        return f"V::load({address}, lanes)" if step == 1 else f"load_strided({address}, {step}, lanes)"

    def _place(self, node: Node, strides: tuple[int, ...], offset: int) -> str:
        name = f"p{node.detail}" if node.op == "param" else self.names[node]
        return f"{name} + {self._index(strides, offset, 0 if node.is_parameter else node.size)}"

    def _index(self, strides: tuple[int, ...], offset: int, width: int = 0) -> str:
        terms = [] if not width else ["r" if width == 1 else f"r * {width}"]
        last = len(self.groups) - 1
        for axis, group in enumerate(self.groups if strides else []):
            stride = strides[group[-1]]
            if stride:
                name = "j" if axis == last else f"i{axis}"
                terms.append(name if stride == 1 else f"{name} * {stride}")
        if offset or not terms:
            terms.append(str(offset))
        return " + ".join(terms)
