"""The constants of generated C99: numbers, texts, and parameters in float, or in 8 bits with a scale per row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiler import COMPARISONS, Node, View

_FEWEST = 64  # minimum size of a parameter that gets a scale per row
_SHORTEST = 32  # minimum size of a vector that gets a scale
_MOST_LOST = 1e-3
_LARGEST = 127
_SCALES = 65535
_LARGEST_SHORT = 32767
_WIDTH = 110
_DECISIONS = COMPARISONS | {"floor", "ceil", "round", "sign", "remainder", "gather"}


@dataclass(frozen=True)
class Rounded:
    """A parameter in 8 bits: `values · unit · scales` of the row that an element belongs to.

    Attributes:
        values: int8, with the shape of the parameter.
        scales: Scales of the rows, uint16.
        unit: Unit of the scales.
        axis: Axis of the rows.
    """

    values: NDArray[np.int8]
    scales: NDArray[np.uint16]
    unit: float
    axis: int

    def rows(self) -> NDArray[np.int64]:
        """Returns the row of every element, flat."""
        shape = [1] * self.values.ndim
        shape[self.axis] = -1
        return np.broadcast_to(np.arange(len(self.scales)).reshape(shape), self.values.shape).reshape(-1)

    def as_float(self) -> NDArray[np.float32]:
        """Returns the represented float values."""
        scales = (np.float32(self.unit) * self.scales.astype(np.float32))[self.rows()].reshape(self.values.shape)
        return self.values.astype(np.float32) * scales


def rounded(tensor: NDArray[np.float32], axis: int) -> Rounded:
    """Returns a parameter in 8 bits, with a scale for each index of `axis`.

    Example:
        >>> matrix = np.array([[1.0, -0.5], [0.001, 0.002]], dtype=np.float32)
        >>> rounded(matrix, 0).values.tolist()
        [[127, -64], [63, 126]]
        >>> bool(np.abs(rounded(matrix, 0).as_float() - matrix).max() < 0.005)
        True
    """
    others = tuple(i for i in range(tensor.ndim) if i != axis)
    wanted = np.abs(tensor).max(axis=others).astype(np.float64) / _LARGEST
    unit = float(np.float32(wanted.max() / _SCALES)) or 1.0
    scales = np.clip(np.ceil(wanted / unit), 1, _SCALES).astype(np.uint16)
    shape = [1] * tensor.ndim
    shape[axis] = -1
    steps = tensor / (np.float32(unit) * scales.astype(np.float32)).reshape(shape)
    return Rounded(np.clip(np.rint(steps), -_LARGEST, _LARGEST).astype(np.int8), scales, unit, axis)


class Constants:
    """Names and definitions of the arrays that a step reads."""

    def __init__(
        self,
        tensors: Sequence[NDArray[Any]],
        nodes: Sequence[Node],
        int8: bool,
        exact: Collection[int] = (),
        prefix: str = "",
    ):
        self.prefix, self.given = prefix, tensors
        self.tensors = [np.asarray(t, np.float32) if t.dtype.kind in "fb" else t for t in tensors]
        nodes = nodes if int8 else []
        decisive = decisive_parameters(nodes)
        fixed = {*exact, *decisive}
        # The function for a matrix in 8 bits takes its bias in 16.
        whole = {node.args[1].node.detail for node in nodes if fixed & {arg.node.detail for arg in _bias(node)}}
        small = {i: rounded(self.tensors[i], axis) for i, axis in _row_axes(self.tensors, nodes).items()}
        # Zeros and ones of a mask are the same numbers in 8 bits.
        same = {i: one.as_float().astype(tensors[i].dtype) == tensors[i] for i, one in small.items()}
        masks = {i for i in decisive & small.keys() if same[i].all()}
        self.rounded = {i: one for i, one in small.items() if i in masks or i not in fixed | whole}
        vectors = _vectors(self.tensors, nodes, self.rounded, fixed)
        self.short = {index: _shortened(self.tensors[index]) for index in vectors}
        self.definitions: dict[str, str] = {}
        self.bytes = 0
        self._known: dict[object, str] = {}

    def values(self) -> list[NDArray[Any]]:
        """Returns the parameters as the generated code reads them."""
        replaced = {i: one.as_float() for i, one in self.rounded.items()}
        replaced |= {i: np.float32(unit) * values.astype(np.float32) for i, (values, unit) in self.short.items()}
        return [replaced[i].astype(tensor.dtype) if i in replaced else tensor for i, tensor in enumerate(self.given)]

    def element(self, view: View, indices: Sequence[str]) -> str:
        """Returns an element of a parameter within a loop over `indices`."""
        index, position = view.node.detail, affine(list(indices), view.strides, view.offset)
        small = self.rounded.get(index)
        if index in self.short:
            values, unit = self.short[index]
            return f"{number(unit)} * (float){self._define(('h', index), 'short', f'p{index}', 2, values)}[{position}]"
        if small is None:
            return f"{self._floats(('p', index), f'p{index}', self.tensors[index])}[{position}]"
        row = _row_strides(small, view)
        assert row is not None
        name = self._chars(("q", index), f"p{index}", small.values)
        scales = self._shorts(("s", index), f"p{index}_scale", small.scales)
        scale = f"(float){scales}[{affine(list(indices), *row)}]"
        return f"{number(small.unit)} * {scale} * (float){name}[{position}]"

    def bias(self, view: View | None, in_int8: bool) -> str:
        """Returns the bias of a product, if any, as one or two arguments of the multiplication function."""
        if view is None:
            return "0, 0.0f" if in_int8 else "0"
        name, index = f"b{len(self._known)}", view.node.detail
        if not in_int8:
            return self._floats(view.key, name, taken(self.values()[index], view))
        values, unit = self.short[index]
        return f"{self._define((view.key, 'h'), 'short', name, 2, taken(values, view))}, {number(unit)}"

    def indices(self, view: View) -> str:
        """Returns indices as an array of integers."""
        places = taken(self.tensors[view.node.detail], view)
        return self._shorts(view.key, f"g{len(self._known)}", places.astype(np.uint16))

    def matrix(self, view: View) -> str:
        """Returns a matrix (k, n) of a product as the first arguments of the multiplication function."""
        index, turned = view.node.detail, view.permuted([1, 0])
        small, name = self.rounded.get(index), f"w{len(self._known)}"
        if small is None:
            return self._floats((view.key, "w"), name, taken(self.tensors[index], turned))
        values = self._chars((view.key, "w"), name, taken(small.values, turned))
        rows = taken(small.rows(), turned)[:, 0]
        scales = self._shorts((view.key, "s"), f"{values}_scale", small.scales[rows])
        return f"{values}, {scales}, {number(small.unit)}"

    def is_rounded(self, view: View) -> bool:
        """Returns whether a matrix is stored in 8 bits."""
        return view.node.detail in self.rounded

    def _floats(self, key: object, name: str, array: NDArray[np.generic]) -> str:
        return self._define(key, "float", name, 4, array)

    def _chars(self, key: object, name: str, array: NDArray[np.int8]) -> str:
        return self._define(key, "signed char", name, 1, array)

    def _shorts(self, key: object, name: str, array: NDArray[np.uint16]) -> str:
        return self._define(key, "unsigned short", name, 2, array)

    def _define(self, key: object, kind: str, name: str, size: int, array: NDArray[Any]) -> str:
        if key not in self._known:
            name = self.prefix + name
            self._known[key] = name
            items = [number(float(value)) if kind == "float" else str(value) for value in array.reshape(-1)]
            self.definitions[name] = table(f"static const {kind}", name, items)
            self.bytes += size * len(items)
        return self._known[key]


def decisive_parameters(nodes: Sequence[Node]) -> set[int]:
    """Returns the parameters that are compared or used as positions, directly or after element-wise operations, sums
    and maxima: a small change of one may change which element is chosen. Weights of a product are not among them.
    """
    pending = [arg.node for node in nodes if node.op in _DECISIONS for arg in node.args]
    parameters, visited = set(), set[Node]()
    while pending:
        node = pending.pop()
        if node not in visited:
            visited.add(node)
            if node.op == "param":
                parameters.add(node.detail)
            elif node.op != "product":
                pending += [arg.node for arg in node.args]
    return parameters


def positions(view: View) -> NDArray[np.int64]:
    """Returns the position of each element of a view in its node's storage."""
    places = np.array(view.offset)
    for size, stride in zip(view.shape, view.strides, strict=True):
        places = places[..., None] + stride * np.arange(size)
    return places


def taken(array: NDArray[Any], view: View) -> NDArray[Any]:
    """Returns the elements of a view, from its node's storage."""
    return array.reshape(-1)[positions(view)]


def _bias(node: Node) -> tuple[View, ...]:
    """Returns the bias of a product, if any."""
    return node.args[2:] if node.op == "product" else ()


def _row_axes(tensors: Sequence[NDArray[Any]], nodes: Sequence[Node]) -> dict[int, int]:
    """Returns the axis of the scales of each matrix, except for matrices without an axis that fits all uses."""
    uses: dict[int, list[View]] = {}
    products: dict[int, list[View]] = {}
    for node in nodes:
        for index_of_argument, arg in enumerate(node.args):
            if arg.node.op == "param" and arg.node.kind == "float":
                is_matrix = node.op == "product" and index_of_argument == 1
                (products if is_matrix else uses).setdefault(arg.node.detail, []).append(arg)
    axes = {}
    biases = {arg.node.detail for node in nodes for arg in _bias(node)}
    for index in {*uses, *products} - biases:
        tensor = tensors[index]
        wide = [axis for axis, size in enumerate(tensor.shape) if size > 1]
        if tensor.size < _FEWEST or len(wide) < 2:
            continue
        for axis in wide:
            trial = rounded(tensor, axis)
            rows = [taken(trial.rows(), view) for view in products.get(index, [])]
            constant = all((row == row[:1]).all() for row in rows)
            if constant and all(_row_strides(trial, view) is not None for view in uses.get(index, [])):
                axes[index] = axis
                break
    return axes


def _vectors(
    tensors: Sequence[NDArray[Any]], nodes: Sequence[Node], matrices: Collection[int], exact: Collection[int]
) -> set[int]:
    """Returns the vectors to store in 16 bits: biases of rounded matrices, and others that lose little."""
    vectors = set()
    for node in nodes:
        for index_of_argument, arg in enumerate(node.args):
            index = arg.node.detail
            if arg.node.op != "param" or arg.node.kind != "float" or index in matrices or index in exact:
                continue
            if node.op == "product":
                if index_of_argument == 2 and node.args[1].node.detail in matrices:
                    vectors.add(index)
            elif tensors[index].size >= _SHORTEST and _loses_little(tensors[index]):
                vectors.add(index)
    return vectors


def _loses_little(tensor: NDArray[Any]) -> bool:
    """Returns whether 16 bits are enough: always for mixed signs; rates (of one sign) must keep their ratios."""
    size = np.abs(tensor)
    one_sign = (tensor >= 0).all() or (tensor <= 0).all()
    return not one_sign or bool(size.max() / _LARGEST_SHORT / 2 <= _MOST_LOST * size.min())


def _shortened(tensor: NDArray[Any]) -> tuple[NDArray[np.int16], float]:
    """Returns a vector in 16 bits, and its unit."""
    unit = float(np.float32(np.abs(tensor).max() / _LARGEST_SHORT)) or 1.0
    return np.clip(np.rint(tensor / np.float32(unit)), -_LARGEST_SHORT, _LARGEST_SHORT).astype(np.int16), unit


def _row_strides(small: Rounded, view: View) -> tuple[tuple[int, ...], int] | None:
    """Returns strides and offset of a view over the rows of a parameter; None if they are not regular."""
    rows = taken(small.rows(), view)
    first = int(rows.reshape(-1)[0])
    seconds = [np.take(rows, min(1, size - 1), axis=axis) for axis, size in enumerate(rows.shape)]
    strides = tuple(int(second.reshape(-1)[0]) - first for second in seconds)
    expected = np.array(first)
    for size, stride in zip(rows.shape, strides, strict=True):
        expected = expected[..., None] + stride * np.arange(size)
    return (strides, first) if (expected == rows).all() else None


# ---- C99 for numbers and texts ------------------------------------------------------------------------------


def affine(indices: list[str], strides: tuple[int, ...], offset: int) -> str:
    """Returns `offset + Σ index · stride` as C."""
    terms = [
        name if stride == 1 else f"{stride} * {name}" for name, stride in zip(indices, strides, strict=False) if stride
    ]
    if offset or not terms:
        terms.append(str(offset))
    return " + ".join(terms)


def number(value: float) -> str:
    """Returns a float32 as C, exactly."""
    value = float(np.float32(value))
    if value != value:
        return "(0.0f / 0.0f)"
    if value in (float("inf"), float("-inf")):
        return f"({'-' if value < 0 else ''}1.0f / 0.0f)"
    text = f"{value:.9g}"
    text = text if any(mark in text for mark in ".e") else f"{text}.0"
    return f"({text}f)" if value < 0 else f"{text}f"


def table(kind: str, name: str, items: Iterable[str], size: str | None = None) -> str:
    """Returns an array of constants, wrapped to full lines."""
    items = list(items)
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > _WIDTH:
            lines.append(line)
            line = "   "
        line += f" {item},"
    lines.append(line)
    return f"{kind} {name}[{size or len(items)}] = {{\n" + "\n".join(lines) + "\n};"


def string(text: str) -> str:
    """Returns a C string with this text, as UTF-8."""
    escaped = "".join(
        f"\\{byte:03o}" if byte < 32 or byte > 126 or chr(byte) in '"\\?' else chr(byte) for byte in text.encode()
    )
    return f'"{escaped}"'


def comment(text: str) -> str:
    """Returns text that cannot end a comment; anything but printable ASCII is replaced."""
    plain = "".join(char if char.isascii() and char.isprintable() else "?" for char in text)
    return plain.replace("*/", "* /").replace("/*", "/ *")
