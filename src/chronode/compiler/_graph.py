"""The graph of one step: values per row of the batch, and the operations that compute them.

A node is an input, a parameter, a number, an element-wise operation, a product with a matrix, a sum or maximum over
axes, a concatenation, or a sum over the rows of the batch (a parameter's gradient). Nodes are created by a `Builder`,
which also resolves views: an element-wise operation on a slice is itself sliced, an operation on a concatenation
is applied to its pieces, and equal nodes are merged.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from ._node import EXPENSIVE, Node
from ._views import Shape, View, compose, dense_strides

_NARROW = 16  # elements of a last axis below which vectors would stay half empty


class Builder:
    """Creates nodes; equal nodes are merged.

    Attributes:
        nodes: The nodes.
        in_backward: Whether nodes belong to the backward pass, where 0 times a finite value may be left out.
    """

    def __init__(self) -> None:
        self.in_backward = False
        self.nodes: list[Node] = []
        self._known: dict[tuple[Any, ...], Node] = {}

    def _node(self, op: str, args: Sequence[View], shape: Shape, kind: str = "float", detail: Any = None) -> Node:
        key = (op, tuple(arg.key for arg in args), shape, kind, detail)
        if key not in self._known:
            node = Node(len(self.nodes), op, tuple(args), shape, kind, detail)
            self.nodes.append(node)
            self._known[key] = node
        return self._known[key]

    # ---- leaves ----------------------------------------------------------------------------------------

    def input(self, name: str, shape: Shape) -> View:
        """Returns a value per row: x, dt, a part of the state, or an incoming gradient."""
        return self._node("input", (), shape, detail=name).view()

    def param(self, index: int, shape: Shape, kind: str = "float") -> View:
        """Returns a tensor that all rows share."""
        return self._node("param", (), shape, kind, index).view()

    def constant(self, value: float | bool, shape: Shape = ()) -> View:
        """Returns a number."""
        kind = "bool" if isinstance(value, bool) else "float"
        node = self._node("const", (), (), kind, repr(value if kind == "bool" else float(value)))
        return View(node, shape, (0,) * len(shape))

    # ---- element-wise ----------------------------------------------------------------------------------

    def pointwise(self, op: str, *views: View, kind: str = "float") -> View:
        """Returns an element-wise operation; all views have the same shape."""
        shape = views[0].shape
        simple = self._simplified(op, views)
        if simple is not None:
            return simple
        axes = [axis for axis, size in enumerate(shape) if size != 1]
        parts = self._pieces([view.squeezed() for view in views])
        if parts is not None:
            axis, pieces = parts
            result = self.concat([self.pointwise(op, *piece, kind=kind) for piece in pieces], axis).squeezed()
        else:
            args = [self.resolved(view.squeezed()) for view in views]
            simple = self._simplified(op, args)  # a piece of a concatenation may be a number
            result = simple or self._node(op, args, tuple(shape[axis] for axis in axes), kind).view()
        return _unsqueezed(result, shape)

    def _simplified(self, op: str, views: Sequence[View]) -> View | None:
        numbers = [number_of(view) for view in views]
        if op == "add" and 0.0 in numbers[:2]:
            return views[1 - numbers.index(0.0)]
        if op == "mul" and 1.0 in numbers[:2]:
            return views[1 - numbers.index(1.0)]
        if (op == "sub" and numbers[1] == 0.0) or (op == "div" and numbers[1] == 1.0):
            return views[0]
        factors = {"mul": numbers[:2], "div": numbers[:1], "neg": numbers[:1]}
        if self.in_backward and 0.0 in factors.get(op, ()):
            return self.constant(0.0, views[0].shape)
        return None

    def _pieces(self, views: Sequence[View]) -> tuple[int, list[list[View]]] | None:
        """Returns the axis of an argument that is a concatenation, and all arguments cut at its boundaries."""
        whole = [view for view in views if view.node.op == "concat" and view.is_all()]
        if not whole:
            return None
        axis = whole[0].node.detail
        seams = {0, whole[0].shape[axis]}
        for view in whole:
            if view.node.detail == axis:
                position = 0
                for piece in view.node.args:
                    position += piece.shape[axis]
                    seams.add(position)
        cuts = sorted(seams)
        return axis, [
            [view.narrowed(axis, start, end - start) for view in views] for start, end in itertools.pairwise(cuts)
        ]

    def resolved(self, view: View) -> View:
        """Returns the view as a view of a stored value, or a value with exactly this shape."""
        node = view.node
        if node.op == "concat":
            part = self._in_piece(view)
            return self._mask_from_storage(part) if part.node.op == "concat" and part.node.kind == "bool" else part
        if not node.is_pointwise or node.op == "const":
            return view
        if view.is_all():
            return view
        spread = any(stride == 0 and size > 1 for size, stride in zip(view.shape, view.strides, strict=True))
        args = [compose(arg, view) for arg in node.args]
        if (spread and node.expensive) or any(arg is None for arg in args):
            if node.kind == "bool":
                return self._mask_from_storage(view)
            node.forced = True
            return view
        result = self.pointwise(node.op, *(arg for arg in args if arg is not None), kind=node.kind)
        # An operation without effect returns its argument, still seen through a view.
        return result if result.squeezed().is_all() else self.resolved(result)

    def _mask_from_storage(self, view: View) -> View:
        """Returns a view of a mask that cannot be resolved: masks are never stored as such, but as 0 and 1."""
        stored = self.as_float(view.node.view()).node
        stored.forced |= stored.is_pointwise
        stored_view = View(stored, view.shape, view.strides, view.offset)
        return self._node("ne", (stored_view, self.constant(0.0, view.shape)), view.shape, "bool").view()

    def as_float(self, view: View) -> View:
        """Returns 1 where a mask is set, else 0."""
        if view.node.kind == "float":
            return view
        return self.pointwise("where", view, self.constant(1.0, view.shape), self.constant(0.0, view.shape))

    def _in_piece(self, view: View) -> View:
        """Returns a view of a concatenation as a view of the piece that contains it entirely."""
        concat, axis = view.node, view.node.detail
        identity = compose(concat.view(), view)
        if identity is None:
            return view
        unit = dense_strides(concat.shape)
        first = view.offset // unit[axis] % concat.shape[axis]
        last = (view.offset + sum(s * (n - 1) for s, n in zip(view.strides, view.shape, strict=True))) // unit[axis]
        position = 0
        for piece in concat.args:
            end = position + piece.shape[axis]
            if position <= first and last % concat.shape[axis] < end:
                strides, offset = _moved(view, concat.shape, piece.shape, axis, position)
                # Only shapes matter to `compose`: the node represents one with the shape of the piece.
                part = compose(piece, View(concat, view.shape, strides, offset))
                return view if part is None else self.resolved(part)
            position = end
        return view

    # ---- the rest --------------------------------------------------------------------------------------

    def dense(self, view: View) -> View:
        """Returns the elements of a view as a separate stored value."""
        view = self.resolved(view)
        if view.is_dense() and (not view.node.is_pointwise or view.is_whole()):
            return view
        return self.pointwise("copy", view)

    def concat(self, views: Sequence[View], axis: int) -> View:
        """Returns the concatenation of values."""
        views = [view for view in views if view.shape[axis] > 0]
        if len(views) == 1:
            return views[0]
        flat: list[View] = []
        for view in map(self.resolved, views):
            inner = view.node
            if inner.op == "concat" and inner.detail == axis and view.is_all():
                flat.extend(inner.args)
            else:
                flat.append(view)
        shape = list(flat[0].shape)
        shape[axis] = sum(view.shape[axis] for view in flat)
        kind = "bool" if all(view.node.kind == "bool" for view in flat) else "float"
        if kind == "float":
            flat = [self.as_float(view) for view in flat]
        return self._node("concat", flat, tuple(shape), kind, axis).view()

    def reduce(self, op: str, view: View, axes: Sequence[int]) -> View:
        """Returns the sum or the maximum over axes, which are dropped."""
        kept = tuple(size for axis, size in enumerate(view.shape) if axis not in axes)
        wide = [axis for axis, size in enumerate(view.shape) if size != 1]
        summed = tuple(position for position, axis in enumerate(wide) if axis in axes)
        if not summed:
            for axis in sorted(axes, reverse=True):
                view = view.without(axis)
            return view
        whole = view.squeezed()
        if op == "sum" and whole.node.op == "concat" and whole.is_all() and whole.node.detail in summed:
            zero = self.constant(0.0, tuple(size for size in kept if size != 1))
            parts = (self.reduce(op, part, summed) for part in whole.node.args if number_of(part) != 0.0)
            return _unsqueezed(functools.reduce(lambda a, b: self.pointwise("add", a, b), parts, zero), kept)
        shape = tuple(size for size in kept if size != 1)
        if view.squeezed().shape[-1] < _NARROW:
            self._store_expensive(view.node)
        return _unsqueezed(self._node(op, (self.resolved(view.squeezed()),), shape, detail=summed).view(), kept)

    def _store_expensive(self, node: Node) -> None:
        """Stores values that a narrow loop would compute in few vector lanes; a separate loop fills the lanes."""
        pending = [node]
        while pending:
            node = pending.pop()
            if node.op in EXPENSIVE and len(node.shape) > 1:
                node.forced = True
            elif node.expensive:
                pending.extend(arg.node for arg in node.args)

    def product(self, a: View, matrix: View, bias: View | None = None) -> View:
        """Returns a (..., k) times a parameter (k, n), plus a bias (n)."""
        if self.in_backward and bias is None and number_of(a) == 0.0:
            return self.constant(0.0, (*a.shape[:-1], matrix.shape[1]))
        a = self.matrix_rows(a)
        args = (a, matrix) if bias is None else (a, matrix, bias)
        return self._node("product", args, (*a.shape[:-1], matrix.shape[1])).view()

    def matrix_rows(self, view: View) -> View:
        """Returns a view that a product can read: a stored value whose last axis is dense."""
        view = self.resolved(view)
        if len(view.shape) == 1 and (view.strides[0] == 1 or view.shape[0] == 1) and not view.node.is_parameter:
            if not view.node.is_pointwise or view.is_whole():
                return view
        elif view.is_whole() and not view.node.is_parameter:
            return view
        return self.pointwise("copy", view)

    def gather(self, view: View, index: View) -> View:
        """Returns the elements of the last axis at the indices in a parameter."""
        stored = self._as_stored(view)
        return self._node("gather", (stored, index), (*view.shape[:-1], index.shape[0])).view()

    def scatter(self, view: View, index: View, size: int) -> View:
        """Returns the inverse of `gather`: zeros, with elements added at these indices."""
        return self._node("scatter", (self._as_stored(view), index), (*view.shape[:-1], size)).view()

    def _as_stored(self, view: View) -> View:
        view = self.resolved(view)
        view.node.forced |= view.node.is_pointwise
        return view

    def row_sum(self, view: View) -> Node:
        """Returns the sum over rows and time."""
        return self._node("row_sum", (self.resolved(view.squeezed()),), view.shape)

    def outer(self, a: View, b: View) -> Node:
        """Returns the sum over rows and time of aᵀ b."""
        a, b = self.matrix_rows(a), self.matrix_rows(b)
        return self._node("outer", (a, b), (a.shape[-1], b.shape[-1]))


def _moved(view: View, whole: Shape, piece: Shape, axis: int, start: int) -> tuple[Shape, int]:
    """Returns strides and offset of a view of a concatenation, in the storage of one piece."""
    wide, narrow = dense_strides(whole), dense_strides(piece)

    def translate(flat: int, shift: int = 0) -> int:
        total = 0
        for i, size in enumerate(whole):
            digit = flat // wide[i] if size > 1 else 0
            flat -= digit * wide[i]
            total += (digit - (shift if i == axis else 0)) * narrow[i]
        return total

    return tuple(translate(s) for s in view.strides), translate(view.offset, start)


def number_of(view: View) -> float | None:
    """Returns the value of a constant; None for other values."""
    node = view.node
    return float(node.detail) if node.op == "const" and node.kind == "float" else None


def _unsqueezed(view: View, shape: Shape) -> View:
    for axis, size in enumerate(shape):
        if size == 1:
            view = view.with_axis(axis)
    return view
