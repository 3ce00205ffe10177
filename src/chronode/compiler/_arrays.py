"""Arrays as torch's operators see them: a view of a value of the graph, with the position of the batch axis."""

from __future__ import annotations

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
    """

    view: View
    batch: int | None = None

    @property
    def dim(self) -> int:
        """The number of axes of the tensor."""
        return len(self.view.shape) + (self.batch is not None)

    @property
    def kind(self) -> str:
        """Kind of its elements."""
        return self.view.node.kind

    def axis(self, axis: int) -> int:
        """Returns the view's axis for one of the tensor's; the batch axis has none."""
        axis %= max(self.dim, 1)
        if axis == self.batch:
            raise Unsupported("operates along the batch axis: rows of the batch must not depend on each other")
        return axis - (self.batch is not None and axis > self.batch)

    def over(self, view: View) -> Array:
        """Returns another view with the same batch axis."""
        return Array(view, self.batch)


class Arrays:
    """Operations on arrays that every rule uses; `batch` is the size that identifies the batch axis."""

    def __init__(self, builder: Builder, batch: int):
        self.build = builder
        self.batch = batch

    def constant(self, value: float | bool, shape: Sequence[int] = ()) -> Array:
        """Returns a number in the shape of a traced tensor."""
        rows, position = self.split_shape(shape)
        return Array(self.build.constant(value, rows), position)

    def split_shape(self, shape: Sequence[int]) -> tuple[Shape, int | None]:
        """Returns the shape of a traced tensor without its batch axis, and the position of that axis."""
        if any(size % self.batch == 0 and size not in (0, self.batch) for size in shape):
            raise Unsupported("merges the batch with another axis")
        places = [axis for axis, size in enumerate(shape) if size == self.batch]
        if len(places) > 1:
            raise Unsupported("has two batch axes in one tensor")
        position = places[0] if places else None
        return tuple(size for axis, size in enumerate(shape) if axis != position), position

    def pointwise(self, op: str, *args: Array | float | bool, kind: str = "float") -> Array:
        """Returns an element-wise operation with torch's broadcasting."""
        arrays = [arg if isinstance(arg, Array) else self.constant(arg) for arg in args]
        dim = max(array.dim for array in arrays)
        behind = {array.dim - array.batch for array in arrays if array.batch is not None}
        if len(behind) > 1:
            raise Unsupported("mixes rows of the batch: the batch axes of two operands do not match")
        position = dim - behind.pop() if behind else None
        views = [self._without_batch(array, dim, position) for array in arrays]
        shape = tuple(max(view.shape[axis] for view in views) for axis in range(dim - (position is not None)))
        return Array(self.build.pointwise(op, *(view.broadcast(shape) for view in views), kind=kind), position)

    @staticmethod
    def _without_batch(array: Array, dim: int, position: int | None) -> View:
        """Returns the array's view with as many axes as the result has, without the batch axis."""
        view = array.view
        axes = array.dim
        if position is not None and array.batch is None and axes >= dim - position:
            # This array has an axis of one element where the others have the batch axis.
            axis = position - (dim - axes)
            if view.shape[axis] != 1:
                raise Unsupported("mixes rows of the batch: a parameter has an axis where the batch is")
            view = view.without(axis)
        wanted = dim - (position is not None)
        while len(view.shape) < wanted:
            view = view.with_axis(0)
        return view

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        """Implements `torch.Tensor.view`."""
        if -1 in shape:
            given_size = -1
            for size in shape:
                given_size *= size
            total = 1 if array.batch is None else self.batch
            for size in array.view.shape:
                total *= size
            shape = [total // given_size if size == -1 else size for size in shape]
        rows, position = self.split_shape(shape)
        if (position is None) != (array.batch is None):
            raise Unsupported("merges the batch with another axis")
        view = array.view.reshaped(rows)
        if view is None:
            view = self.build.pointwise("copy", array.view).reshaped(rows)
        assert view is not None
        return Array(view, position)

    def expanded(self, array: Array, shape: Sequence[int]) -> Array:
        """Implements `torch.Tensor.expand`."""
        missing = len(shape) - array.dim
        sizes = [self._size(array, i - missing) if size == -1 else size for i, size in enumerate(shape)]
        rows, position = self.split_shape(sizes)
        if array.batch is not None and position != array.batch + missing:
            raise Unsupported("moves the batch axis")
        view = self._without_batch(array, len(sizes), position)
        return Array(view.broadcast(rows), position)

    def _size(self, array: Array, axis: int) -> int:
        return self.batch if axis == array.batch else array.view.shape[array.axis(axis)]

    def unsqueezed(self, array: Array, axis: int) -> Array:
        """Returns the array with one more axis."""
        axis %= array.dim + 1
        if array.batch is None:
            return Array(array.view.with_axis(axis))
        behind = axis <= array.batch
        return Array(array.view.with_axis(axis - (not behind)), array.batch + behind)

    def squeezed(self, array: Array, axes: Sequence[int]) -> Array:
        """Returns the array without axes of one element."""
        view, position = array.view, array.batch
        for axis in sorted((axis % array.dim for axis in axes), reverse=True):
            if axis == array.batch or view.shape[array.axis(axis)] != 1:
                continue
            view = view.without(array.axis(axis))
            position = position - (axis < position) if position is not None else None
        return Array(view, position)

    def permuted(self, array: Array, order: Sequence[int]) -> Array:
        """Returns the axes in another order."""
        order = [axis % array.dim for axis in order]
        position = order.index(array.batch) if array.batch is not None else None
        return Array(array.view.permuted([array.axis(axis) for axis in order if axis != array.batch]), position)

    def reduced(self, op: str, array: Array, axes: Sequence[int], keepdim: bool) -> Array:
        """Returns a sum or maximum over axes other than the batch axis."""
        axes = sorted(axis % array.dim for axis in axes)
        result = array.over(self.build.reduce(op, array.view, [array.axis(axis) for axis in axes]))
        position = array.batch
        if position is not None and not keepdim:
            position -= sum(axis < position for axis in axes)
        if not keepdim:
            return Array(result.view, position)
        view = result.view
        for axis in axes:
            view = view.with_axis(array.axis(axis))
        return Array(view, array.batch)
