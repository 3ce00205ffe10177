"""What each of torch's operators is in the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ._arrays import Array, Arrays
from ._graph import MASKS, Node
from ._trace import Unsupported

Number = float | int | bool
RULES: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class RowSum:
    """A sum over rows and time, and what makes the traced tensor of it."""

    node: Node
    shape: tuple[int, ...]
    transposed: bool = False
    more_axes: tuple[int, ...] = ()


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a rule for operators of these ATen names."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


# ---- element-wise --------------------------------------------------------------------------------------


def _unary(name: str) -> Callable[..., Any]:
    return lambda arrays, a: arrays.pointwise(name, a)


for _name in ("neg", "abs", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid"):
    RULES[_name] = _unary(_name)
for _name in ("sin", "cos", "floor", "ceil", "erf"):
    RULES[_name] = _unary(_name)
RULES["round"] = lambda arrays, a, decimals=0: arrays.pointwise("round", a)
RULES["sign"] = RULES["sgn"] = _unary("sign")


def _binary(name: str) -> Callable[..., Any]:
    kind = "bool" if name in MASKS else "float"
    return lambda arrays, a, b: arrays.pointwise(name, _float(arrays, a), _float(arrays, b), kind=kind)


for _name in ["lt", "le", "gt", "ge", "eq", "ne"]:
    RULES[_name] = _binary(_name)
RULES |= {"minimum": _binary("minimum"), "maximum": _binary("maximum"), "remainder": _binary("remainder")}
RULES["mul"] = _binary("mul")


def _float(arrays: Arrays, a: Array | Number) -> Array | Number:
    """A mask as 0 and 1, a number of any kind as it is."""
    if isinstance(a, Array) and a.kind == "bool":
        return a.over(arrays.build.as_float(a.view))
    if isinstance(a, Array) and a.kind == "int":
        raise Unsupported("computes with whole numbers")
    return a if isinstance(a, Array) else float(a)


@rule("add")
def _add(arrays: Arrays, a: Any, b: Any, alpha: Number = 1) -> Array:
    b = _float(arrays, b)
    return arrays.pointwise("add", _float(arrays, a), b if alpha == 1 else arrays.pointwise("mul", b, float(alpha)))


@rule("sub")
def _sub(arrays: Arrays, a: Any, b: Any, alpha: Number = 1) -> Array:
    b = _float(arrays, b)
    return arrays.pointwise("sub", _float(arrays, a), b if alpha == 1 else arrays.pointwise("mul", b, float(alpha)))


@rule("rsub")
def _rsub(arrays: Arrays, a: Any, b: Any, alpha: Number = 1) -> Array:
    return _sub(arrays, b, a, alpha)


@rule("div")
def _div(arrays: Arrays, a: Any, b: Any, rounding_mode: str | None = None) -> Array:
    quotient = arrays.pointwise("div", _float(arrays, a), _float(arrays, b))
    if rounding_mode is None:
        return quotient
    if rounding_mode == "floor":
        return arrays.pointwise("floor", quotient)
    raise Unsupported(f"divides with rounding_mode={rounding_mode!r}")


@rule("pow")
def _pow(arrays: Arrays, a: Any, exponent: Any) -> Array:
    if isinstance(exponent, Array) or not isinstance(a, Array):
        return arrays.pointwise("pow", _float(arrays, a), _float(arrays, exponent))
    if exponent == 2:
        return arrays.pointwise("mul", a, a)
    if exponent == 3:
        return arrays.pointwise("mul", arrays.pointwise("mul", a, a), a)
    if exponent in (0.5, 1, -1):
        return a if exponent == 1 else arrays.pointwise("sqrt" if exponent == 0.5 else "reciprocal", a)
    return arrays.pointwise("pow", a, float(exponent))


@rule("relu")
def _relu(arrays: Arrays, a: Array) -> Array:
    return arrays.pointwise("relu", a)


@rule("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(arrays: Arrays, a: Array, low: Any = None, high: Any = None, **named: Any) -> Array:
    low, high = named.get("min", low), named.get("max", high)
    if low is not None:
        a = arrays.pointwise("maximum", a, _float(arrays, low))
    return a if high is None else arrays.pointwise("minimum", a, _float(arrays, high))


RULES["clamp_max"] = lambda arrays, a, high: _clamp(arrays, a, None, high)


@rule("where")
def _where(arrays: Arrays, mask: Array, a: Any, b: Any) -> Array:
    if mask.kind != "bool":
        mask = arrays.pointwise("ne", mask, 0.0, kind="bool")
    return arrays.pointwise("where", mask, _float(arrays, a), _float(arrays, b))


@rule("masked_fill", "masked_fill_")
def _masked_fill(arrays: Arrays, a: Array, mask: Array, value: Any) -> Array:
    return arrays.pointwise("where", mask, _float(arrays, value), a)


@rule("bitwise_and", "logical_and", "logical_and_")
def _and(arrays: Arrays, a: Array, b: Array) -> Array:
    return arrays.pointwise("and", a, b, kind="bool")


@rule("bitwise_or", "logical_or")
def _or(arrays: Arrays, a: Array, b: Array) -> Array:
    return arrays.pointwise("or", a, b, kind="bool")


@rule("bitwise_not", "logical_not")
def _not(arrays: Arrays, a: Array) -> Array:
    return arrays.pointwise("not", a, kind="bool")


@rule("softplus")
def _softplus(arrays: Arrays, a: Array, beta: Number = 1, threshold: Number = 20) -> Array:
    if beta != 1 or threshold != 20:
        raise Unsupported("uses softplus with a beta or threshold of its own")
    return arrays.pointwise("softplus", a)


@rule("softplus_backward")
def _softplus_backward(arrays: Arrays, grad: Array, a: Array, beta: Number, threshold: Number) -> Array:
    return arrays.pointwise("mul", grad, arrays.pointwise("sigmoid", a))


@rule("tanh_backward")
def _tanh_backward(arrays: Arrays, grad: Array, y: Array) -> Array:
    return arrays.pointwise("mul", grad, arrays.pointwise("sub", 1.0, arrays.pointwise("mul", y, y)))


@rule("sigmoid_backward")
def _sigmoid_backward(arrays: Arrays, grad: Array, y: Array) -> Array:
    slope = arrays.pointwise("mul", arrays.pointwise("sub", 1.0, y), y)
    return arrays.pointwise("mul", grad, slope)


@rule("threshold_backward")
def _threshold_backward(arrays: Arrays, grad: Array, a: Array, threshold: Number) -> Array:
    above = arrays.pointwise("le", a, float(threshold), kind="bool")
    return arrays.pointwise("where", above, 0.0, grad)


@rule("clone", "alias", "detach", "contiguous", "lift_fresh_copy", "lift_fresh")
def _same(arrays: Arrays, a: Array, **_: Any) -> Array:
    return a


@rule("_to_copy")
def _to_copy(arrays: Arrays, a: Array, dtype: torch.dtype | None = None, **_: Any) -> Array:
    if dtype is None or (dtype.is_floating_point and a.kind == "float"):
        return a
    if dtype.is_floating_point:
        return a.over(arrays.build.as_float(a.view))
    if dtype == torch.bool:
        return a if a.kind == "bool" else arrays.pointwise("ne", a, 0.0, kind="bool")
    raise Unsupported("computes with whole numbers")


# ---- shapes --------------------------------------------------------------------------------------------


@rule("zeros_like", "ones_like", "full_like")
def _like(arrays: Arrays, a: Array, value: Number = 0, **_: Any) -> Array:
    return Array(arrays.build.constant(float(value), a.view.shape), a.batch)


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
    if axis == a.batch and (start or 0) == 0 and (end is None or end >= arrays.batch) and step == 1:
        return a
    own = a.axis(axis)
    places = range(a.view.shape[own])[slice(start, end, step)]
    return a.over(a.view.narrowed(own, places.start if len(places) else 0, len(places), step))


@rule("select")
def _select(arrays: Arrays, a: Array, axis: int, index: int) -> Array:
    axis %= a.dim
    own = a.axis(axis)
    view = a.view.narrowed(own, index % a.view.shape[own], 1).without(own)
    return Array(view, None if a.batch is None else a.batch - (axis < a.batch))


@rule("unbind")
def _unbind(arrays: Arrays, a: Array, axis: int = 0) -> list[Array]:
    return [_select(arrays, a, axis, i) for i in range(a.view.shape[a.axis(axis)])]


@rule("split_with_sizes")
def _split_with_sizes(arrays: Arrays, a: Array, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    own, pieces, start = a.axis(axis), [], 0
    for size in sizes:
        pieces.append(a.over(a.view.narrowed(own, start, size)))
        start += size
    return pieces


@rule("split")
def _split(arrays: Arrays, a: Array, size: int, axis: int = 0) -> list[Array]:
    total = a.view.shape[a.axis(axis)]
    return _split_with_sizes(arrays, a, [min(size, total - i) for i in range(0, total, size)], axis)


@rule("cat")
def _cat(arrays: Arrays, parts: Sequence[Array], axis: int = 0) -> Array:
    parts = [part for part in parts if not (part.dim == 1 and part.view.shape == (0,))]
    with_batch = [part for part in parts if part.batch is not None]
    if not with_batch:
        raise Unsupported("concatenates parameters within the step")
    position, axis = with_batch[0].batch, axis % with_batch[0].dim
    own = with_batch[0].axis(axis)
    views = [arrays.build.as_float(part.view) if part.batch == position else None for part in parts]
    if any(view is None for view in views):
        raise Unsupported("concatenates along the batch axis")
    return Array(arrays.build.concat([view for view in views if view is not None], own), position)


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
    if step != 1:
        raise Unsupported("has the gradient of a slice with a step")
    own = grad.axis(axis)
    total, size = shape[axis], grad.view.shape[own]
    start = range(total)[slice(start, end)].start
    zeros = [arrays.build.constant(0.0, _with(grad.view.shape, own, n)) for n in (start, total - start - size)]
    return grad.over(arrays.build.concat([zeros[0], grad.view, zeros[1]], own))


@rule("select_backward")
def _select_backward(arrays: Arrays, grad: Array, shape: Sequence[int], axis: int, index: int) -> Array:
    index %= shape[axis]
    return _slice_backward(arrays, arrays.unsqueezed(grad, axis), shape, axis, index, index + 1, 1)


def _with(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


# ---- reductions and products ---------------------------------------------------------------------------


@rule("sum")
def _sum(
    arrays: Arrays, a: Array, axes: Sequence[int] | None = None, keepdim: bool = False, **_: Any
) -> Array | RowSum:
    a = a.over(arrays.build.as_float(a.view))
    axes = [axis % a.dim for axis in axes] if axes else list(range(a.dim))
    if a.batch not in axes:
        return arrays.reduced("sum", a, axes, keepdim)
    rest = tuple(a.axis(axis) for axis in axes if axis != a.batch)
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


@rule("_softmax_backward_data")
def _softmax_backward(arrays: Arrays, grad: Array, y: Array, axis: int, dtype: Any) -> Array:
    product = arrays.pointwise("mul", grad, y)
    total = arrays.reduced("sum", product, [axis], True)
    return arrays.pointwise("sub", product, arrays.pointwise("mul", y, total))


@rule("mm")
def _mm(arrays: Arrays, a: Array, b: Array) -> Array | RowSum:
    if a.batch == 0 and b.batch is None:
        return Array(arrays.build.product(a.view, b.view), 0)
    if a.batch == 1 and b.batch == 0:
        # The rows of the batch are summed over: a weight's gradient.
        k, n = a.view.shape[0], b.view.shape[0]
        if _tiles(n, k) < _tiles(k, n):
            return RowSum(arrays.build.outer(b.view, a.view), (k, n), transposed=True)
        return RowSum(arrays.build.outer(a.view, b.view), (k, n))
    if a.batch is None and b.batch == 1:
        made = _mm(arrays, arrays.permuted(b, [1, 0]), arrays.permuted(a, [1, 0]))
        return arrays.permuted(made, [1, 0])
    raise Unsupported("multiplies rows of the batch with each other")


def _tiles(k: int, n: int) -> int:
    """Register tiles, of about 8 rows and 32 columns, that a k × n gradient takes."""
    return math.ceil(k / 8) * math.ceil(n / 32)


@rule("addmm")
def _addmm(arrays: Arrays, bias: Array, a: Array, b: Array, beta: Number = 1, alpha: Number = 1) -> Array:
    if beta != 1 or alpha != 1 or a.batch != 0 or b.batch is not None:
        raise Unsupported("uses addmm with factors or on transposed rows")
    if bias.batch is None and bias.view.node.op == "param" and bias.view.shape == (b.view.shape[1],):
        return Array(arrays.build.product(a.view, b.view, bias.view), 0)
    return arrays.pointwise("add", Array(arrays.build.product(a.view, b.view), 0), bias)


@rule("bmm")
def _bmm(arrays: Arrays, a: Array, b: Array) -> Array:
    if a.batch != 0 or b.batch != 0:
        raise Unsupported("multiplies a batch of matrices with parameters")
    terms = arrays.pointwise("mul", arrays.unsqueezed(a, 3), arrays.unsqueezed(b, 1))
    return arrays.reduced("sum", terms, [2], False)


@rule("index")
def _index(arrays: Arrays, a: Array, indices: Sequence[Array | None]) -> Array:
    axis, index = _one_index(a, indices)
    if index.view.node.op != "param" or axis != a.dim - 1 or len(index.view.shape) != 1 or a.batch is None:
        raise Unsupported("picks elements at places that depend on the data, or not along the last axis")
    return a.over(arrays.build.gather(a.view, index.view))


@rule("index_put")
def _index_put(
    arrays: Arrays, a: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False
) -> Array:
    axis, index = _one_index(a, indices)
    zeros = a.view.node.op == "const" and float(a.view.node.detail) == 0
    if not accumulate or not zeros or axis != a.dim - 1 or a.batch is None:
        raise Unsupported("writes elements at given places")
    return a.over(arrays.build.scatter(values.view, index.view, a.view.shape[-1]))


def _one_index(a: Array, indices: Sequence[Array | None]) -> tuple[int, Array]:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].kind != "int":
        raise Unsupported("indexes with a mask or along several axes at once")
    return given[0]
