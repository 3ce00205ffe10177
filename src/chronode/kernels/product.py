"""a @ b for weights that a kernel multiplies once per call, with the same bits for any number of threads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import ops


def product(a: Tensor, b: Tensor) -> Tensor:
    """a (m, k) times b (k, n)."""
    return product_forward(a.contiguous(), b.contiguous())


@torch.library.custom_op("chronode::product_forward", mutates_args=())
def product_forward(a: Tensor, b: Tensor) -> Tensor:
    """a (m, k) times b (k, n), both contiguous."""
    (m, k), (_, n) = ops.sizes("a", a, 2), ops.sizes("b", b, 2)
    c = a.new_empty(m, n)
    ops.call("product", a.dtype, a, b, c, m, k, n)
    return c


@product_forward.register_fake
def _(a, b):
    return a.new_empty(a.shape[0], b.shape[1])


@torch.library.custom_op("chronode::product_backward", mutates_args=())
def product_backward(a: Tensor, b: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of a and b."""
    da, db = torch.empty_like(a), torch.empty_like(b)
    (m, k), (_, n) = ops.sizes("a", a, 2), ops.sizes("b", b, 2)
    ops.call("product_backward", a.dtype, a, b, grad.contiguous(), da, db, m, k, n)
    return da, db


@product_backward.register_fake
def _(a, b, grad):
    return torch.empty_like(a), torch.empty_like(b)


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    return product_backward(*ctx.saved_tensors, grad)


product_forward.register_autograd(_backward, setup_context=_setup)
ops.refuse_double_backward(product_backward)
