"""Matrix products with the same bits for any number of threads: of weights, and of a whole input with a weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import ops
from ._modes import autocasts, why_not
from ._operator import operator


def product(a: Tensor, b: Tensor) -> Tensor:
    """Returns a (m, k) times b (k, n)."""
    return product_forward(ops.dense(a), b.contiguous(), None)


def addmm(bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """As `torch.addmm`: bias (n,) + a (m, k) times b (k, n); torch's own where no native kernel can run."""
    if why_not(a) is not None or autocasts(a):
        return torch.addmm(bias, a, b)
    return product_forward(ops.dense(a), b.contiguous(), bias.contiguous())


@operator("cpu")
def product_forward(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """a (m, k) times b (k, n) plus bias (n,), all contiguous."""
    m, k, n = _sizes(a, b)
    c = a.new_empty(m, n)
    ops.call("product", a.dtype, a, b, bias, c, m, k, n)
    return c


@product_forward.register_fake
def _(a, b, bias):
    m, _, n = _sizes(a, b)
    return a.new_empty(m, n)


def _sizes(a: Tensor, b: Tensor) -> tuple[int, int, int]:
    (m, k), (_, n) = ops.sizes("a", a, 2), ops.sizes("b", b, 2)
    return m, k, n


@operator("cpu")
def product_backward(
    a: Tensor, b: Tensor, grad: Tensor, with_da: bool, with_dbias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of a, b and the bias; the first and the last are empty unless wanted."""
    da, db, dbias = results = _gradients(a, b, with_da, with_dbias)
    wanted = (da if with_da else None, db, dbias if with_dbias else None)
    ops.call("product_backward", a.dtype, a, b, ops.dense(grad), *wanted, *_sizes(a, b))
    return results


@product_backward.register_fake
def _(a, b, grad, with_da, with_dbias):
    return _gradients(a, b, with_da, with_dbias)


def _gradients(a: Tensor, b: Tensor, with_da: bool, with_dbias: bool) -> tuple[Tensor, Tensor, Tensor]:
    da = torch.empty_like(a) if with_da else a.new_empty(0)
    return da, torch.empty_like(b), b.new_empty(b.shape[1] if with_dbias else 0)


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    with_da, _, with_dbias = ctx.needs_input_grad[:3]
    da, db, dbias = product_backward(*ctx.saved_tensors, grad, with_da, with_dbias)
    return da if with_da else None, db, dbias if with_dbias else None


product_forward.register_autograd(_backward, setup_context=_setup)
ops.refuse_double_backward(product_backward)
