"""Rules for sums, products and indexing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ._arrays import Array, Arrays
from ._recorded import Unsupported
from ._rules import RULES, Number, RowSum, RowSums, rule


@rule("sum")
def _sum(
    arrays: Arrays, a: Array, axes: Sequence[int] | None = None, keepdim: bool = False, **_: Any
) -> Array | RowSum:
    a = a.over(arrays.build.as_float(a.view))
    axes = [axis % a.dim for axis in axes] if axes else list(range(a.dim))
    if a.batch not in axes:
        return arrays.reduced("sum", a, axes, keepdim)
    rest = tuple(axis if axis == a.batch else a.axis(axis) for axis in axes if axis != a.batch or a.merged)
    full = [1 if axis in axes else a.view.shape[a.axis(axis)] for axis in range(a.dim)]
    shape = tuple(size for axis, size in enumerate(full) if keepdim or axis not in axes)
    return RowSum(arrays.build.row_sum(a.view), shape, more_axes=rest)


@rule("mean")
def _mean(arrays: Arrays, a: Array, axes: Sequence[int] | None = None, keepdim: bool = False, **_: Any) -> Array:
    axes = list(axes) if axes else list(range(a.dim))
    count = math.prod(a.view.shape[a.axis(axis)] for axis in axes)
    return arrays.pointwise("div", arrays.reduced("sum", a, axes, keepdim), float(count))


@rule("var")
def _var(
    arrays: Arrays, a: Array, axes: Sequence[int] | None = None, correction: Number = 1, keepdim: bool = False
) -> Array:
    axes = list(axes) if axes else list(range(a.dim))
    away = arrays.pointwise("sub", a, _mean(arrays, a, axes, keepdim=True))
    count = math.prod(a.view.shape[a.axis(axis)] for axis in axes) - correction
    total = arrays.reduced("sum", arrays.pointwise("mul", away, away), axes, keepdim)
    return arrays.pointwise("div", total, float(count))


@rule("var_mean")
def _var_mean(arrays: Arrays, a: Array, axes: Any = None, correction: Number = 1, keepdim: bool = False) -> list[Array]:
    return [_var(arrays, a, axes, correction, keepdim), _mean(arrays, a, axes, keepdim)]


@rule("std")
def _std(arrays: Arrays, a: Array, axes: Any = None, correction: Number = 1, keepdim: bool = False) -> Array:
    return arrays.pointwise("sqrt", _var(arrays, a, axes, correction, keepdim))


@rule("native_layer_norm")
def _layer_norm(
    arrays: Arrays, a: Array, shape: Sequence[int], weight: Array | None, bias: Array | None, eps: Number
) -> list[Array]:
    axes = list(range(a.dim - len(shape), a.dim))
    mean = _mean(arrays, a, axes, keepdim=True)
    spread = arrays.pointwise("add", _var(arrays, a, axes, 0, keepdim=True), float(eps))
    scale = arrays.pointwise("rsqrt", spread)
    y = arrays.pointwise("mul", arrays.pointwise("sub", a, mean), scale)
    if weight is not None:
        y = arrays.pointwise("mul", y, weight)
    return [y if bias is None else arrays.pointwise("add", y, bias), mean, scale]


@rule("amax")
def _amax(arrays: Arrays, a: Array, axes: Sequence[int] = (), keepdim: bool = False) -> Array:
    return arrays.reduced("max", a, axes or list(range(a.dim)), keepdim)


@rule("_softmax")
def _softmax(arrays: Arrays, a: Array, axis: int, half: bool) -> Array:
    largest = arrays.reduced("max", a, [axis], True)
    powers = arrays.pointwise("exp", arrays.pointwise("sub", a, largest))
    return arrays.pointwise("div", powers, arrays.reduced("sum", powers, [axis], True))


@rule("_safe_softmax")
def _safe_softmax(arrays: Arrays, a: Array, axis: int, dtype: Any = None) -> Array:
    """Returns a softmax that is 0 where all elements are -inf."""
    masked = arrays.pointwise("eq", arrays.reduced("max", a, [axis], True), float("-inf"), kind="bool")
    return arrays.pointwise("where", masked, 0.0, _softmax(arrays, a, axis, False))


@rule("_softmax_backward_data")
def _softmax_backward(arrays: Arrays, grad: Array, y: Array, axis: int, dtype: Any) -> Array:
    product = arrays.pointwise("mul", grad, y)
    total = arrays.reduced("sum", product, [axis], True)
    return arrays.pointwise("sub", product, arrays.pointwise("mul", y, total))


@rule("mm")
def _mm(arrays: Arrays, a: Array, b: Array) -> Array | RowSum:
    if a.batch == 0 and b.batch is None:
        return a.over(arrays.build.product(a.view, b.view))
    if a.batch == 1 and b.batch == 0:
        # A sum over the rows of the batch: the gradient of a weight.
        left, right = arrays.permuted(a, [1, 0]).view, b.view
        k, n = left.shape[-1], right.shape[-1]
        if _tiles(n, k) < _tiles(k, n):
            return RowSum(arrays.build.outer(right, left), (k, n), transposed=True)
        return RowSum(arrays.build.outer(left, right), (k, n))
    if a.batch is None and b.batch == 1:
        product = _mm(arrays, arrays.permuted(b, [1, 0]), arrays.permuted(a, [1, 0]))
        return arrays.permuted(product, [1, 0])
    raise Unsupported("multiplies rows of the batch with each other")


def _tiles(k: int, n: int) -> int:
    """Returns the number of register tiles, of about 8 rows and 32 columns, of a k × n gradient."""
    return math.ceil(k / 8) * math.ceil(n / 32)


@rule("addmm")
def _addmm(arrays: Arrays, bias: Array, a: Array, b: Array, beta: Number = 1, alpha: Number = 1) -> Array:
    if beta != 1 or alpha != 1 or a.batch != 0 or b.batch is not None:
        raise Unsupported("uses addmm with factors or on transposed rows")
    if bias.batch is None and bias.view.node.op == "param" and bias.view.shape == (b.view.shape[1],):
        return a.over(arrays.build.product(a.view, b.view, bias.view))
    return arrays.pointwise("add", a.over(arrays.build.product(a.view, b.view)), bias)


@rule("bmm")
def _bmm(arrays: Arrays, a: Array, b: Array) -> Array | RowSums:
    if a.batch == 0 and b.batch == 0:
        terms = arrays.pointwise("mul", arrays.unsqueezed(a, 3), arrays.unsqueezed(b, 1))
        return arrays.reduced("sum", terms, [2], False)
    select = RULES["select"]
    if 0 in (a.batch, b.batch):
        raise Unsupported("multiplies rows of the batch with parameters of which there is one per row")
    count = a.view.shape[0]
    products = [_mm(arrays, select(arrays, a, 0, i), select(arrays, b, 0, i)) for i in range(count)]
    sums = [product for product in products if isinstance(product, RowSum)]
    return RowSums(tuple(sums)) if sums else RULES["stack"](arrays, products)


@rule("baddbmm")
def _baddbmm(arrays: Arrays, c: Array, a: Array, b: Array, beta: Number = 1, alpha: Number = 1) -> Array:
    product = _bmm(arrays, a, b)
    if isinstance(product, RowSums):
        raise Unsupported("multiplies rows of the batch with each other")
    terms = [arrays.pointwise("mul", term, float(factor)) for term, factor in ((c, beta), (product, alpha))]
    return arrays.pointwise("add", *terms)


@rule("index")
def _index(arrays: Arrays, a: Array, indices: Sequence[Array | None]) -> Array:
    axis, index = _one_index(a, indices)
    if index.view.node.op != "param" or axis != a.dim - 1 or len(index.view.shape) != 1 or a.batch is None:
        raise Unsupported("selects elements at indices that depend on the data, or not along the last axis")
    return a.over(arrays.build.gather(a.view, index.view))


@rule("index_select")
def _index_select(arrays: Arrays, a: Array, axis: int, index: Array) -> Array:
    return _index(arrays, a, [None] * (axis % a.dim) + [index])


@rule("index_add")
def _index_add(arrays: Arrays, a: Array, axis: int, index: Array, values: Array, alpha: Number = 1) -> Array:
    return _index_put(arrays, a, [None] * (axis % a.dim) + [index], values, accumulate=alpha == 1)


@rule("index_put")
def _index_put(
    arrays: Arrays, a: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False
) -> Array:
    axis, index = _one_index(a, indices)
    zeros = a.view.node.op == "const" and float(a.view.node.detail) == 0
    if not accumulate or not zeros or axis != a.dim - 1 or a.batch is None:
        raise Unsupported("writes elements at given indices")
    return a.over(arrays.build.scatter(values.view, index.view, a.view.shape[-1]))


def _one_index(a: Array, indices: Sequence[Array | None]) -> tuple[int, Array]:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].kind != "int":
        raise Unsupported("indexes with a mask or along several axes at once")
    return given[0]
