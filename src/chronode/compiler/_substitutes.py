"""Functions of torch written with the operators that the compiler has rules for; used while a step is recorded.

A substitute has the value and the gradient of its function up to rounding. Where a gradient of torch looks at values
(`prod`), or an operator would need a rule for itself, for its gradient and in every emitter, this is less work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_SUBSTITUTES: dict[Any, Callable[..., Any]] = {}


class Substituted(TorchFunctionMode):
    """Calls the substitutes of functions for tensors that have a batch axis, which is recognized by its size."""

    def __init__(self, batch: int):
        super().__init__()
        self.batch = batch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        substitute = _SUBSTITUTES.get(func)
        if substitute is not None and any(self._has_batch(arg) for arg in args):
            return substitute(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _has_batch(self, arg: Any) -> bool:
        return isinstance(arg, Tensor) and any(size % self.batch == 0 for size in arg.shape if size)


def _replaces(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a substitute for functions of torch; a name stands for the function and the method of that name."""

    def add(substitute: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            if isinstance(function, str):
                for owner in (torch, Tensor):
                    if hasattr(owner, function):
                        _SUBSTITUTES[getattr(owner, function)] = substitute
            else:
                _SUBSTITUTES[function] = substitute
        return substitute

    return add


def _whole_axes(values: Any, more: Sequence[Any]) -> list[int]:
    """Returns arguments such as `repeat(2, 3)` and `repeat((2, 3))` as a list."""
    return [*values] if isinstance(values, (list, tuple)) else [values, *more]


# ---- order ----------------------------------------------------------------------------------------------


@_replaces("flip")
def _flip(a: Tensor, dims: Any, *more: int) -> Tensor:
    for axis in _whole_axes(dims, more):
        order = torch.arange(a.shape[axis] - 1, -1, -1)
        a = a.movedim(axis, -1)[..., order].movedim(-1, axis)
    return a


@_replaces("roll")
def _roll(a: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    if dims == ():
        return _roll(a.flatten(), shifts, 0).view_as(a)
    for shift, axis in zip(_whole_axes(shifts, ()), _whole_axes(dims, ()), strict=True):
        size = a.shape[axis]
        cut = -shift % size if size else 0
        a = torch.cat([a.narrow(axis, cut, size - cut), a.narrow(axis, 0, cut)], axis)
    return a


@_replaces("repeat", "tile")
def _repeat(a: Tensor, sizes: Any, *more: int) -> Tensor:
    counts = _whole_axes(sizes, more)
    counts = [1] * (a.dim() - len(counts)) + counts
    a = a.reshape(*[1] * (len(counts) - a.dim()), *a.shape)
    for axis, count in enumerate(counts):
        a = a if count == 1 else torch.cat([a] * count, axis)
    return a


def _masked(of: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def triangle(a: Tensor, diagonal: int = 0) -> Tensor:
        mask = of(torch.ones(a.shape[-2:], dtype=a.dtype), diagonal) > 0
        return torch.where(mask, a, torch.zeros_like(a))

    return triangle


_replaces("triu")(_masked(torch.triu))
_replaces("tril")(_masked(torch.tril))


@_replaces("diagonal")
def _diagonal(a: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    a = a.movedim((dim1, dim2), (-2, -1))
    rows, columns = a.shape[-2:]
    first = torch.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0))))
    flat = (first - min(offset, 0)) * columns + first + max(offset, 0)
    return a.flatten(-2)[..., flat]


# ---- sums and products over units -----------------------------------------------------------------------


@_replaces("cumsum")
def _cumsum(a: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    size = a.shape[dim]
    return (a.movedim(dim, -1) @ torch.ones(size, size, dtype=a.dtype).triu()).movedim(-1, dim)


@_replaces("prod")
def _prod(a: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    if dim is None:
        a, dim = a.flatten(), 0
    while (size := a.shape[dim]) > 1:
        half = size // 2
        pairs = a.narrow(dim, 0, half) * a.narrow(dim, half, half)
        a = pairs if size % 2 == 0 else torch.cat([pairs, a.narrow(dim, size - 1, 1)], dim)
    return a if keepdim else a.squeeze(dim)


@_replaces("cumprod")
def _cumprod(a: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    size, step = a.shape[dim], 1
    while step < size:
        a = torch.cat([a.narrow(dim, 0, step), a.narrow(dim, step, size - step) * a.narrow(dim, 0, size - step)], dim)
        step *= 2
    return a


@_replaces("amin")
def _amin(a: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    return -torch.amax(-a, dim, keepdim)


@_replaces("std_mean")
def _std_mean(a: Tensor, dim: Any = None, **options: Any) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(a, dim, **options)
    return variance.sqrt(), mean


@_replaces(functional.group_norm)
def _group_norm(
    a: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    groups = a.unflatten(1, (num_groups, -1)).flatten(2)
    variance, mean = torch.var_mean(groups, -1, correction=0, keepdim=True)
    normal = ((groups - mean) / torch.sqrt(variance + eps)).reshape(a.shape)
    rest = [1] * (a.dim() - 2)
    normal = normal if weight is None else normal * weight.view(-1, *rest)
    return normal if bias is None else normal + bias.view(-1, *rest)


@_replaces(functional.bilinear)
def _bilinear(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    outputs, left, right = weight.shape
    rows = (a @ weight.movedim(1, 0).reshape(left, outputs * right)).unflatten(-1, (outputs, right))
    product = (rows * b.unsqueeze(-2)).sum(-1)
    return product if bias is None else product + bias


# ---- element-wise ---------------------------------------------------------------------------------------


@_replaces("atan2", "arctan2")
def _atan2(y: Tensor, x: Tensor) -> Tensor:
    # The larger of both is the divisor, so that neither quotient nor gradient overflows.
    flat = x.abs() >= y.abs()
    quotient = torch.where(flat, y, x) / torch.where(flat, torch.where(flat, x, torch.ones_like(x)), y)
    angle = torch.atan(quotient)
    half = math.pi / 2
    behind = torch.where(x < 0, torch.where(y < 0, angle - math.pi, angle + math.pi), angle)
    return torch.where(flat, torch.where((x == 0) & (y == 0), torch.zeros_like(x), behind), half * y.sign() - angle)


@_replaces("acos", "arccos")
def _acos(a: Tensor) -> Tensor:
    return math.pi / 2 - _asin(a)


@_replaces("asin", "arcsin")
def _asin(a: Tensor) -> Tensor:
    return torch.atan(a / torch.sqrt((1 - a) * (1 + a)))


@_replaces("tan")
def _tan(a: Tensor) -> Tensor:
    return torch.sin(a) / torch.cos(a)


@_replaces("sinh")
def _sinh(a: Tensor) -> Tensor:
    return 0.5 * (torch.expm1(a) - torch.expm1(-a))


@_replaces("cosh")
def _cosh(a: Tensor) -> Tensor:
    return 0.5 * (torch.exp(a) + torch.exp(-a))


@_replaces("asinh", "arcsinh")
def _asinh(a: Tensor) -> Tensor:
    size = a.abs()
    return a.sign() * torch.log1p(size + a * a / (1 + torch.sqrt(a * a + 1)))


@_replaces("acosh", "arccosh")
def _acosh(a: Tensor) -> Tensor:
    return torch.log(a + torch.sqrt((a - 1) * (a + 1)))


@_replaces("atanh", "arctanh")
def _atanh(a: Tensor) -> Tensor:
    return 0.5 * (torch.log1p(a) - torch.log1p(-a))


@_replaces("exp2")
def _exp2(a: Tensor) -> Tensor:
    return torch.exp(math.log(2) * a)


@_replaces("log2")
def _log2(a: Tensor) -> Tensor:
    return torch.log(a) / math.log(2)


@_replaces("log10")
def _log10(a: Tensor) -> Tensor:
    return torch.log(a) / math.log(10)


@_replaces("erfc")
def _erfc(a: Tensor) -> Tensor:
    return 1 - torch.erf(a)


@_replaces("hypot")
def _hypot(a: Tensor, b: Tensor) -> Tensor:
    return torch.sqrt(a * a + b * b)


@_replaces("trunc", "fix")
def _trunc(a: Tensor) -> Tensor:
    return (a.sign() * torch.floor(a.abs())).detach() + 0 * a


@_replaces("frac")
def _frac(a: Tensor) -> Tensor:
    return a - _trunc(a)


@_replaces("fmod")
def _fmod(a: Tensor, b: Tensor | float) -> Tensor:
    quotient = a / b
    return a - (quotient.sign() * torch.floor(quotient.abs())).detach() * b


# ---- random numbers, the same as those of the function -----------------------------------------------------


@_replaces("bernoulli")
def _bernoulli(a: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    if p is not None:
        return torch.empty_like(a).bernoulli_(p, generator=generator)
    return (torch.rand_like(a) < a).to(a.dtype)


@_replaces("normal")
def _normal(mean: Any, std: Any = 1.0, **options: Any) -> Tensor:
    return (mean + std * torch.randn_like(mean if isinstance(mean, Tensor) else std)).detach()
