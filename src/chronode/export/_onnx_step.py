"""The step graph as ONNX operators; every value is a tensor `(B, *shape)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiler import Node, Scheduler, Step, Target, View
from ._c_constants import positions, taken

OPERATORS = {
    **{"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "copy": "Identity", "abs": "Abs"},
    **{"exp": "Exp", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "softplus": "Softplus", "log": "Log"},
    **{"sqrt": "Sqrt", "reciprocal": "Reciprocal", "sin": "Sin", "cos": "Cos", "erf": "Erf", "sign": "Sign"},
    **{"atan": "Atan"},
    **{"round": "Round", "floor": "Floor", "ceil": "Ceil", "pow": "Pow", "minimum": "Min", "maximum": "Max"},
    **{"where": "Where", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal"},
    **{"and": "And", "or": "Or", "not": "Not"},
}
"""Element-wise operations that correspond to one operator."""


class OnnxWriter:
    """Collects the nodes and constants of an ONNX graph.

    Args:
        prefix: Prefix of all names, to keep those of nested graphs apart.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[tuple[object, ...], str] = {}
        self._count = 0

    def node(self, op: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Adds an operator; returns the name of its output."""
        from onnx import helper

        self._count += 1
        output = name or f"{self.prefix}v{self._count}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def constant(self, array: NDArray[Any]) -> str:
        """Adds a constant; equal constants are merged."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = f"{self.prefix}c{len(self._constants)}"
            self.initializers.append(numpy_helper.from_array(array, self._constants[key]))
        return self._constants[key]

    def sizes(self, *sizes: int) -> str:
        """Returns a tensor of integers, such as sizes or axes."""
        return self.constant(np.array(sizes, np.int64))

    def number(self, value: float) -> str:
        """Returns a float32."""
        return self.constant(np.float32(value).reshape(()))


class StepEmitter:
    """Writes a step."""

    def __init__(self, writer: OnnxWriter, step: Step, tensors: Sequence[NDArray[Any]], inputs: dict[str, str]):
        self.writer, self.step, self.inputs = writer, step, inputs
        self.tensors = [np.asarray(t, np.float32) if t.dtype.kind in "fb" else t for t in tensors]
        self.values: dict[Node, str] = {}
        self.batched: set[Node] = set()

    def run(self) -> list[str]:
        """Returns the names of y and the parts of the new state."""
        targets = [Target(str(i), view) for i, view in enumerate(self.step.outputs)]
        for node in Scheduler(targets, [], set(), []).needed:
            if node.op not in ("param", "const"):
                self._make(node)
        return [self.writer.node("Reshape", self._full(v), self.writer.sizes(-1, *v.shape)) for v in self.step.outputs]

    def _make(self, node: Node) -> None:
        if node.op == "input":
            self.values[node] = self.inputs[node.detail]
            self.batched.add(node)
            return
        if any(arg.node in self.batched for arg in node.args):
            self.batched.add(node)
        if node.op == "product":
            self.values[node] = self._product(*node.args)
        elif node.op in ("sum", "max"):
            axes = self.writer.sizes(*(1 + axis for axis in node.detail))
            op = "ReduceSum" if node.op == "sum" else "ReduceMax"
            self.values[node] = self.writer.node(op, self._full(node.args[0]), axes, keepdims=0)
        elif node.op == "concat":
            self.batched.add(node)
            self.values[node] = self.writer.node("Concat", *map(self._full, node.args), axis=1 + node.detail)
        elif node.op == "gather":
            index = self.writer.constant(taken(self.tensors[node.args[1].node.detail], node.args[1]).astype(np.int64))
            self.values[node] = self.writer.node("Gather", self._full(node.args[0]), index, axis=len(node.shape))
        elif node.is_pointwise:
            self.values[node] = self._pointwise(node)
        else:
            raise ValueError(f"this model cannot be exported to ONNX: its step uses {node.op}.")

    def _product(self, a: View, matrix: View, bias: View | None = None) -> str:
        weights = self.writer.constant(taken(self.tensors[matrix.node.detail], matrix))
        product = self.writer.node("MatMul", self._full(a), weights)
        return product if bias is None else self.writer.node("Add", product, self._operand(bias))

    def _pointwise(self, node: Node) -> str:
        write, args = self.writer.node, [self._operand(arg) for arg in node.args]
        if node.op in OPERATORS:
            result = write(OPERATORS[node.op], *args)
        elif node.op == "ne":
            result = write("Not", write("Equal", *args))
        elif node.op == "rsqrt":
            result = write("Reciprocal", write("Sqrt", *args))
        elif node.op == "expm1":  # tanh(x/2) (eˣ + 1), which does not lose digits near 0
            half = write("Tanh", write("Mul", *args, self.writer.number(0.5)))
            result = write("Mul", half, write("Add", write("Exp", *args), self.writer.number(1.0)))
        elif node.op == "log1p":  # log(u) x / (u - 1) with u = 1 + x rounded
            one = self.writer.number(1.0)
            u = write("Add", *args, one)
            exact = write("Mul", write("Log", u), write("Div", *args, write("Sub", u, one)))
            result = write("Where", write("Equal", u, one), *args, exact)
        elif node.op == "remainder":  # fmod is exact; the remainder has the sign of the divisor
            rest, zero = write("Mod", *args, fmod=1), self.writer.number(0.0)
            opposite = write("Less", write("Mul", rest, args[1]), zero)
            result = write("Where", opposite, write("Add", rest, args[1]), rest)
        else:
            raise ValueError(f"this model cannot be exported to ONNX: its step uses {node.op}.")
        wide = [any(_wide(arg)[axis] for arg in node.args) for axis in range(len(node.shape))]
        return result if all(wide) else write("Expand", result, self.writer.sizes(1, *node.shape))

    # ---- views -----------------------------------------------------------------------------------------

    def _operand(self, view: View) -> str:
        """Returns a view for an element-wise operation; axes along which it is constant may have one element."""
        node = view.node
        if node.op == "const":
            value = node.detail == "True" if node.kind == "bool" else np.float32(float(node.detail))
            return self.writer.constant(np.asarray(value))
        narrow = _narrowed(view)
        if node.op == "param":
            return self.writer.constant(taken(self.tensors[node.detail], narrow))
        value = self.values[node]
        if view.is_all():
            return value
        places = positions(narrow)
        size = node.size
        flat = value if len(node.shape) == 1 else self.writer.node("Reshape", value, self.writer.sizes(-1, size))
        order = places.reshape(-1)
        if not (len(order) == size and (order == np.arange(size)).all()):
            if (order == np.arange(order[0], order[0] + len(order))).all():
                ends = (self.writer.sizes(int(end)) for end in (order[0], order[0] + len(order), 1))
                flat = self.writer.node("Slice", flat, *ends)
            else:
                flat = self.writer.node("Gather", flat, self.writer.constant(order.astype(np.int64)), axis=1)
        return self.writer.node("Reshape", flat, self.writer.sizes(-1, *narrow.shape))

    def _full(self, view: View) -> str:
        """Returns a view in its full shape, with the batch axis."""
        value = self._operand(view)
        if view.node in self.batched:
            if all(_wide(view)):
                return value
            return self.writer.node("Expand", value, self.writer.sizes(1, *view.shape))
        batch = self.writer.node("Shape", self.inputs["dt"], start=0, end=1)
        shape = self.writer.node("Concat", batch, self.writer.sizes(*view.shape), axis=0)
        return self.writer.node("Expand", value, shape)


def _wide(view: View) -> list[bool]:
    """Returns for each axis whether the tensor returned by `_operand` has all of its elements."""
    if view.node.op == "const":
        return [size == 1 for size in view.shape]
    return [stride != 0 or size == 1 for size, stride in zip(view.shape, view.strides, strict=True)]


def _narrowed(view: View) -> View:
    """Returns the view with one element along axes in which it is constant."""
    shape = tuple(1 if stride == 0 else size for size, stride in zip(view.shape, view.strides, strict=True))
    return View(view.node, shape, view.strides, view.offset)
