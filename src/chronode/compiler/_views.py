"""Strided views of a value: how slices, transposes, splits and broadcasts become index arithmetic.

A value of the graph is stored densely, row-major, once per row of the batch. A `View` reads element
`offset + Σ index_i · strides_i` of it; neither includes the batch axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._node import Node

Shape = tuple[int, ...]


def dense_strides(shape: Sequence[int]) -> Shape:
    """Returns the strides of a row-major array."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


@dataclass(frozen=True)
class View:
    """Elements of the storage of `node`, with shape `shape`."""

    node: Node
    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def key(self) -> tuple[int, Shape, Shape, int]:
        """The key that identifies the view."""
        return self.node.number, self.shape, self.strides, self.offset

    def is_whole(self) -> bool:
        """Returns whether it is the whole storage of the node, in order (its axes may be grouped differently)."""
        return self.offset == 0 and self.is_dense() and math.prod(self.shape) == self.node.size

    def is_all(self) -> bool:
        """Returns whether it is the whole node, with the node's shape."""
        return self.is_whole() and self.shape == self.node.shape

    def is_dense(self) -> bool:
        """Returns whether its elements are contiguous and in order."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and stride != expected:
                return False
            expected *= size
        return True

    def squeezed(self) -> View:
        """Returns the view without axes of one element."""
        kept = [(size, stride) for size, stride in zip(self.shape, self.strides, strict=True) if size != 1]
        return View(self.node, tuple(s for s, _ in kept), tuple(s for _, s in kept), self.offset)

    def narrowed(self, axis: int, start: int, size: int, step: int = 1) -> View:
        """Returns the elements start, start + step, ... of an axis."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis]
        shape[axis], strides[axis] = size, strides[axis] * step
        return View(self.node, tuple(shape), tuple(strides), offset)

    def without(self, axis: int) -> View:
        """Returns the first element of an axis; the axis is dropped."""
        shape, strides = list(self.shape), list(self.strides)
        del shape[axis], strides[axis]
        return View(self.node, tuple(shape), tuple(strides), self.offset)

    def with_axis(self, axis: int, size: int = 1) -> View:
        """Returns the view with one more axis, along which it is constant."""
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(axis, size)
        strides.insert(axis, 0)
        return View(self.node, tuple(shape), tuple(strides), self.offset)

    def permuted(self, order: Sequence[int]) -> View:
        """Returns the axes in another order."""
        return View(self.node, tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order), self.offset)

    def broadcast(self, shape: Shape) -> View:
        """Returns the view broadcast to `shape`; axes are matched from the last one."""
        missing = len(shape) - len(self.shape)
        sizes, strides = (1,) * missing + self.shape, (0,) * missing + self.strides
        wide = tuple(
            0 if length != size else stride for length, size, stride in zip(sizes, shape, strides, strict=True)
        )
        return View(self.node, shape, wide, self.offset)

    def reshaped(self, shape: Shape) -> View | None:
        """Returns the same elements with another shape; None if that is not a view."""
        old = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        strides, i = [], 0
        position = 0
        while i < len(shape):
            if shape[i] == 1:
                strides.append(0)
                i += 1
                continue
            if position == len(old):
                return None
            group, size, j = [old[position]], shape[i], i + 1
            position += 1
            while math.prod(n for n, _ in group) != size:
                if math.prod(n for n, _ in group) < size:
                    if position == len(old) or group[-1][1] != old[position][0] * old[position][1]:
                        return None
                    group.append(old[position])
                    position += 1
                else:
                    if j == len(shape):
                        return None
                    size *= shape[j]
                    j += 1
            inner = [group[-1][1] * math.prod(shape[k + 1 : j]) for k in range(i, j)]
            strides.extend(inner)
            i = j
        return View(self.node, shape, tuple(strides), self.offset) if position == len(old) else None


def compose(inner: View, outer: View) -> View | None:
    """Returns the view of `inner.node` that `outer`, a view of a value with `inner`'s shape, sees through it.

    Returns None if an index of `outer` would run past the end of an axis into the next one.
    """
    shape = inner.shape
    unit = dense_strides(shape)
    start, steps = _digits(outer.offset, shape, unit), [_digits(s, shape, unit) for s in outer.strides]
    for axis, size in enumerate(shape):
        reach = start[axis] + sum(step[axis] * (n - 1) for step, n in zip(steps, outer.shape, strict=True))
        if reach >= size:
            return None
    strides = tuple(sum(d * s for d, s in zip(step, inner.strides, strict=True)) for step in steps)
    offset = inner.offset + sum(d * s for d, s in zip(start, inner.strides, strict=True))
    return View(inner.node, outer.shape, strides, offset)


def _digits(flat: int, shape: Shape, unit: Shape) -> list[int]:
    digits = []
    for size, stride in zip(shape, unit, strict=True):
        digits.append(flat // stride if size > 1 else 0)
        flat -= digits[-1] * stride
    return digits
