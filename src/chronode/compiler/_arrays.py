"""Arrays as torch's operators see them: a view of a value of the graph, with the position of the batch axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ._graph import Builder
from ._recorded import Unsupported
from ._views import Shape, View


@dataclass(frozen=True)
class Array:
    """A tensor of the traced graph.

    Attributes:
        view: Its elements, without the batch axis.
        batch: Index of the batch axis among the tensor's axes; None if the tensor has none.
        merged: Whether the tensor's batch axis contains the next axis too, as after `x.flatten(0, 1)`; the view has
            that axis at index `batch`.
    """

    view: View
    batch: int | None = None
    merged: bool = False

    @property
    def dim(self) -> int:
        """The number of axes of the tensor."""
        return len(self.view.shape) + (self.batch is not None) - self.merged

    @property
    def kind(self) -> str:
        """Kind of its elements."""
        return self.view.node.kind

    def axis(self, axis: int) -> int:
        """Returns the view's axis for one of the tensor's; the batch axis has none."""
        axis %= max(self.dim, 1)
        if axis == self.batch:
            raise Unsupported("operates along the batch axis: rows of the batch must not depend on each other")
        return axis - (self.batch is not None and axis > self.batch and not self.merged)

    def over(self, view: View) -> Array:
        """Returns another view with the same batch axis."""
        return Array(view, self.batch, self.merged)


class Arrays:
    """Operations on arrays that every rule uses; `batch` is the size that identifies the batch axis."""

    def __init__(self, builder: Builder, batch: int):
        self.build = builder
        self.batch = batch

    def constant(self, value: float | bool, shape: Sequence[int] = ()) -> Array:
        """Returns a number in the shape of a traced tensor."""
        rows, position, merged = self.split_shape(shape)
        return Array(self.build.constant(value, rows), position, merged)

    def split_shape(self, shape: Sequence[int]) -> tuple[Shape, int | None, bool]:
        """Returns the shape of a traced tensor without its batch, the position of the batch, and whether the next
        axis is merged with it.
        """
        axes = [axis for axis, size in enumerate(shape) if size and size % self.batch == 0]
        if len(axes) > 1:
            raise Unsupported("has two batch axes in one tensor")
        if not axes:
            return tuple(shape), None, False
        more = shape[axes[0]] // self.batch
        rows = (*shape[: axes[0]], *([more] if more > 1 else []), *shape[axes[0] + 1 :])
        return rows, axes[0], more > 1

    def pointwise(self, op: str, *args: Array | float | bool, kind: str = "float") -> Array:
        """Returns an element-wise operation with torch's broadcasting."""
        arrays = [arg if isinstance(arg, Array) else self.constant(arg) for arg in args]
        dim = max(array.dim for array in arrays)
        behind = {array.dim - array.batch for array in arrays if array.batch is not None}
        if len(behind) > 1:
            raise Unsupported("mixes rows of the batch: the batch axes of two operands do not match")
        position = dim - behind.pop() if behind else None
        merged = any(array.merged for array in arrays)
        if merged and not all(array.merged or array.batch is None for array in arrays):
            raise Unsupported("mixes rows of the batch: another axis is merged with the batch axis of one operand")
        views = [self._without_batch(array, dim, position, merged) for array in arrays]
        shape = tuple(max(sizes) for sizes in zip(*(view.shape for view in views), strict=True))
        result = self.build.pointwise(op, *(view.broadcast(shape) for view in views), kind=kind)
        return Array(result, position, merged)

    @staticmethod
    def _without_batch(array: Array, dim: int, position: int | None, merged: bool) -> View:
        """Returns the array's view with as many axes as the result has, without the batch axis."""
        view = array.view
        axes = array.dim
        if position is not None and array.batch is None and axes >= dim - position:
            # This array has an axis of one element where the others have the batch axis.
            axis = position - (dim - axes)
            if view.shape[axis] != 1:
                raise Unsupported("mixes rows of the batch: a parameter has an axis where the batch is")
            view = view if merged else view.without(axis)
        wanted = dim - (position is not None) + merged
        while len(view.shape) < wanted:
            view = view.with_axis(0)
        return view

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        """Implements `torch.Tensor.view`."""
        if -1 in shape:
            given_size = -math.prod(shape)
            total = (1 if array.batch is None else self.batch) * math.prod(array.view.shape)
            shape = [total // given_size if size == -1 else size for size in shape]
        rows, position, merged = self.split_shape(shape)
        before = None if position is None else math.prod(rows[:position])
        if before != (None if array.batch is None else math.prod(array.view.shape[: array.batch])):
            raise Unsupported("merges the batch with another axis")
        view = array.view.reshaped(rows)
        if view is None:
            view = self.build.pointwise("copy", array.view).reshaped(rows)
        assert view is not None
        return Array(view, position, merged)

    def expanded(self, array: Array, shape: Sequence[int]) -> Array:
        """Implements `torch.Tensor.expand`."""
        missing = len(shape) - array.dim
        sizes = [self.size(array, i - missing) if size == -1 else size for i, size in enumerate(shape)]
        rows, position, merged = self.split_shape(sizes)
        if array.batch is not None and (position != array.batch + missing or merged != array.merged):
            raise Unsupported("moves the batch axis")
        view = self._without_batch(array, len(sizes), position, merged)
        return Array(view.broadcast(rows), position, merged)

    def size(self, array: Array, axis: int) -> int:
        """Returns the size of one of a tensor's axes."""
        axis %= array.dim
        if axis == array.batch:
            return self.batch * (array.view.shape[axis] if array.merged else 1)
        return array.view.shape[array.axis(axis)]

    def unsqueezed(self, array: Array, axis: int) -> Array:
        """Returns the array with one more axis."""
        axis %= array.dim + 1
        if array.batch is None:
            return Array(array.view.with_axis(axis))
        ahead = axis <= array.batch
        index = axis if ahead or array.merged else axis - 1
        return Array(array.view.with_axis(index), array.batch + ahead, array.merged)

    def squeezed(self, array: Array, axes: Sequence[int]) -> Array:
        """Returns the array without axes of one element."""
        view, position = array.view, array.batch
        for axis in sorted((axis % array.dim for axis in axes), reverse=True):
            if axis == array.batch or view.shape[array.axis(axis)] != 1:
                continue
            view = view.without(array.axis(axis))
            position = position - (axis < position) if position is not None else None
        return Array(view, position, array.merged)

    def permuted(self, array: Array, order: Sequence[int]) -> Array:
        """Returns the axes in another order."""
        order = [axis % array.dim for axis in order]
        position = order.index(array.batch) if array.batch is not None else None
        axes = [axis if axis == array.batch else array.axis(axis) for axis in order]
        if position is not None and not array.merged:
            del axes[position]
        return Array(array.view.permuted(axes), position, array.merged)

    def reduced(self, op: str, array: Array, axes: Sequence[int], keepdim: bool) -> Array:
        """Returns a sum or maximum over axes other than the batch axis."""
        axes = sorted(axis % array.dim for axis in axes)
        result = array.over(self.build.reduce(op, array.view, [array.axis(axis) for axis in axes]))
        position = array.batch
        if position is not None and not keepdim:
            position -= sum(axis < position for axis in axes)
        if not keepdim:
            return Array(result.view, position, array.merged)
        view = result.view
        for axis in axes:
            view = view.with_axis(array.axis(axis))
        return array.over(view)
