"""Rules for operators that create, slice and concatenate arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._arrays import Array, Arrays
from ._recorded import Unsupported
from ._rules import RULES, Number, rule
from ._views import View


@rule("zeros_like", "ones_like", "full_like")
def _like(arrays: Arrays, a: Array, value: Number = 0, **_: Any) -> Array:
    return a.over(arrays.build.constant(float(value), a.view.shape))


RULES["ones_like"] = lambda arrays, a, **_: _like(arrays, a, 1)


@rule("new_zeros")
def _new_zeros(arrays: Arrays, a: Array, shape: Sequence[int], **_: Any) -> Array:
    return arrays.constant(0.0, shape)


@rule("zeros", "ones", "full", "scalar_tensor", "new_full", "new_ones")
def _filled(arrays: Arrays, *args: Any, **_: Any) -> Array:
    raise NotImplementedError


RULES["zeros"] = lambda arrays, shape, **_: arrays.constant(0.0, shape)
RULES["ones"] = lambda arrays, shape, **_: arrays.constant(1.0, shape)
RULES["full"] = lambda arrays, shape, value, **_: arrays.constant(float(value), shape)
RULES["scalar_tensor"] = lambda arrays, value, **_: arrays.constant(float(value))
RULES["new_ones"] = lambda arrays, a, shape, **_: arrays.constant(1.0, shape)
RULES["new_full"] = lambda arrays, a, shape, value, **_: arrays.constant(float(value), shape)

RULES["view"] = RULES["_unsafe_view"] = RULES["reshape"] = lambda arrays, a, shape: arrays.reshaped(a, shape)
RULES["expand"] = lambda arrays, a, shape, **_: arrays.expanded(a, shape)
RULES["unsqueeze"] = lambda arrays, a, axis: arrays.unsqueezed(a, axis)
RULES["permute"] = lambda arrays, a, order: arrays.permuted(a, order)


@rule("squeeze")
def _squeeze(arrays: Arrays, a: Array, axes: Any = None) -> Array:
    axes = range(a.dim) if axes is None else [axes] if isinstance(axes, int) else axes
    return arrays.squeezed(a, axes)


@rule("t")
def _t(arrays: Arrays, a: Array) -> Array:
    return a if a.dim < 2 else arrays.permuted(a, [1, 0])


@rule("transpose")
def _transpose(arrays: Arrays, a: Array, first: int, second: int) -> Array:
    order = list(range(a.dim))
    order[first], order[second] = order[second], order[first]
    return arrays.permuted(a, order)


@rule("slice")
def _slice(
    arrays: Arrays, a: Array, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    axis %= a.dim
    if axis == a.batch and (start or 0) == 0 and (end is None or end >= arrays.size(a, axis)) and step == 1:
        return a
    view_axis = a.axis(axis)
    places = range(a.view.shape[view_axis])[slice(start, end, step)]
    return a.over(a.view.narrowed(view_axis, places.start if len(places) else 0, len(places), step))


@rule("select")
def _select(arrays: Arrays, a: Array, axis: int, index: int) -> Array:
    axis %= a.dim
    view_axis = a.axis(axis)
    view = a.view.narrowed(view_axis, index % a.view.shape[view_axis], 1).without(view_axis)
    return Array(view, None if a.batch is None else a.batch - (axis < a.batch), a.merged)


@rule("unbind")
def _unbind(arrays: Arrays, a: Array, axis: int = 0) -> list[Array]:
    return [_select(arrays, a, axis, i) for i in range(a.view.shape[a.axis(axis)])]


@rule("split_with_sizes", "unsafe_split_with_sizes")
def _split_with_sizes(arrays: Arrays, a: Array, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    view_axis, pieces, start = a.axis(axis), [], 0
    for size in sizes:
        pieces.append(a.over(a.view.narrowed(view_axis, start, size)))
        start += size
    return pieces


@rule("split", "unsafe_split")
def _split(arrays: Arrays, a: Array, size: int, axis: int = 0) -> list[Array]:
    total = a.view.shape[a.axis(axis)]
    return _split_with_sizes(arrays, a, [min(size, total - i) for i in range(0, total, size)], axis)


@rule("cat")
def _cat(arrays: Arrays, parts: Sequence[Array], axis: int = 0) -> Array:
    parts = [part for part in parts if not (part.dim == 1 and part.view.shape == (0,))]
    with_batch = [part for part in parts if part.batch is not None]
    if not with_batch:
        raise Unsupported("concatenates parameters within the step")
    first, axis = with_batch[0], axis % with_batch[0].dim
    if any((part.batch, part.merged) != (first.batch, first.merged) for part in parts):
        raise Unsupported("concatenates along the batch axis")
    views = [arrays.build.as_float(part.view) for part in parts]
    return first.over(arrays.build.concat(views, first.axis(axis)))


@rule("stack")
def _stack(arrays: Arrays, parts: Sequence[Array], axis: int = 0) -> Array:
    axis %= parts[0].dim + 1
    return _cat(arrays, [arrays.unsqueezed(part, axis) for part in parts], axis)


@rule("slice_backward")
def _slice_backward(
    arrays: Arrays, grad: Array, shape: Sequence[int], axis: int, start: int, end: int, step: int
) -> Array:
    if axis % grad.dim == grad.batch:
        return grad
    zeros = grad.over(arrays.build.constant(0.0, _with(grad.view.shape, grad.axis(axis), shape[axis])))
    return _slice_scatter(arrays, zeros, grad, axis, start, end, step)


@rule("slice_scatter")
def _slice_scatter(
    arrays: Arrays,
    a: Array,
    source: Array,
    axis: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Array:
    axis %= a.dim
    if axis == a.batch:
        return source
    index = a.axis(axis)
    indices = range(a.view.shape[index])[slice(start, end, step)]
    if not indices:
        return a
    source = arrays.expanded(source, [arrays.size(a, i) if i != axis else len(indices) for i in range(a.dim)])
    if step == 1:
        inner = source.view
    else:  # between two elements come those of `a` that are not replaced
        count = len(indices) - 1
        between = _windows(a.view.narrowed(index, indices.start + 1, count * step), index, count, step, step - 1)
        first = source.view.narrowed(index, 0, count).with_axis(index + 1)
        woven = arrays.build.concat([first, between], index + 1)
        flat = woven.reshaped(_with(source.view.shape, index, count * step))
        assert flat is not None
        inner = arrays.build.concat([flat, source.view.narrowed(index, count, 1)], index)
    left, right = indices.start, indices[-1] + 1
    ends = [a.view.narrowed(index, 0, left), a.view.narrowed(index, right, a.view.shape[index] - right)]
    return a.over(arrays.build.concat([ends[0], inner, ends[1]], index))


def _windows(view: View, axis: int, count: int, step: int, size: int) -> View:
    """Returns the first `size` of every `step` elements of an axis, along one more axis."""
    shape, strides = list(view.shape), list(view.strides)
    shape[axis : axis + 1] = [count, size]
    strides[axis : axis + 1] = [strides[axis] * step, strides[axis]]
    return View(view.node, tuple(shape), tuple(strides), view.offset)


@rule("select_scatter")
def _select_scatter(arrays: Arrays, a: Array, source: Array, axis: int, index: int) -> Array:
    index %= a.view.shape[a.axis(axis)]
    return _slice_scatter(arrays, a, arrays.unsqueezed(source, axis % a.dim), axis, index, index + 1)


@rule("constant_pad_nd")
def _pad(arrays: Arrays, a: Array, widths: Sequence[int], value: Number = 0) -> Array:
    for i in range(len(widths) // 2):
        axis = a.dim - 1 - i
        left, right = widths[2 * i : 2 * i + 2]
        if left or right:
            index = a.axis(axis)
            size = a.view.shape[index]
            inner = a.view.narrowed(index, max(0, -left), size + min(0, left) + min(0, right))
            ends = [arrays.build.constant(float(value), _with(inner.shape, index, max(0, n))) for n in (left, right)]
            a = a.over(arrays.build.concat([ends[0], inner, ends[1]], index))
    return a


@rule("select_backward")
def _select_backward(arrays: Arrays, grad: Array, shape: Sequence[int], axis: int, index: int) -> Array:
    index %= shape[axis]
    return _slice_backward(arrays, arrays.unsqueezed(grad, axis), shape, axis, index, index + 1, 1)


def _with(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])
