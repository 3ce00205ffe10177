"""Rules for element-wise operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._arrays import Array, Arrays
from ._node import MASKS
from ._recorded import Unsupported
from ._rules import RULES, Number, rule


def _unary(name: str) -> Callable[..., Any]:
    return lambda arrays, a: arrays.pointwise(name, a)


for _name in ("neg", "abs", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid"):
    RULES[_name] = _unary(_name)
for _name in ("sin", "cos", "floor", "ceil", "erf", "atan"):
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
    """Returns a mask as 0 and 1; other values are unchanged."""
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


@rule("bitwise_xor", "logical_xor")
def _xor(arrays: Arrays, a: Array, b: Array) -> Array:
    return _and(arrays, _or(arrays, a, b), _not(arrays, _and(arrays, a, b)))


@rule("isnan")
def _isnan(arrays: Arrays, a: Array) -> Array:
    return arrays.pointwise("ne", a, a, kind="bool")


RULES["isposinf"] = lambda arrays, a: arrays.pointwise("eq", a, float("inf"), kind="bool")
RULES["isneginf"] = lambda arrays, a: arrays.pointwise("eq", a, float("-inf"), kind="bool")


@rule("bitwise_not", "logical_not")
def _not(arrays: Arrays, a: Array) -> Array:
    return arrays.pointwise("not", a, kind="bool")


@rule("softplus")
def _softplus(arrays: Arrays, a: Array, beta: Number = 1, threshold: Number = 20) -> Array:
    if threshold != 20:
        raise Unsupported("uses softplus with a non-default threshold")
    if beta == 1:
        return arrays.pointwise("softplus", a)
    scaled = arrays.pointwise("softplus", arrays.pointwise("mul", a, float(beta)))
    return arrays.pointwise("div", scaled, float(beta))


@rule("softplus_backward")
def _softplus_backward(arrays: Arrays, grad: Array, a: Array, beta: Number, threshold: Number) -> Array:
    scaled = arrays.pointwise("mul", a, float(beta))
    return arrays.pointwise("mul", grad, arrays.pointwise("sigmoid", scaled))


@rule("mish_backward")
def _mish_backward(arrays: Arrays, grad: Array, a: Array) -> Array:
    inner = arrays.pointwise("tanh", arrays.pointwise("softplus", a))
    slope = arrays.pointwise("mul", a, arrays.pointwise("sigmoid", a))
    rest = arrays.pointwise("sub", 1.0, arrays.pointwise("mul", inner, inner))
    return arrays.pointwise("mul", grad, arrays.pointwise("add", inner, arrays.pointwise("mul", slope, rest)))


@rule("_prelu_kernel")
def _prelu(arrays: Arrays, a: Array, weight: Array) -> Array:
    above = arrays.pointwise("gt", a, 0.0, kind="bool")
    return arrays.pointwise("where", above, a, arrays.pointwise("mul", weight, a))


@rule("_prelu_kernel_backward")
def _prelu_backward(arrays: Arrays, grad: Array, a: Array, weight: Array) -> list[Array]:
    above = arrays.pointwise("gt", a, 0.0, kind="bool")
    of_a = arrays.pointwise("where", above, grad, arrays.pointwise("mul", weight, grad))
    return [of_a, arrays.pointwise("where", above, 0.0, arrays.pointwise("mul", a, grad))]


@rule("threshold")
def _threshold(arrays: Arrays, a: Array, threshold: Number, value: Number) -> Array:
    return arrays.pointwise("where", arrays.pointwise("le", a, float(threshold), kind="bool"), float(value), a)


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
