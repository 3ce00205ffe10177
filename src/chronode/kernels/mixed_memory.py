"""mmRNN over a whole sequence: autograd around native/mixed_memory.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import ops
from ._bound import Bound, BoundCall, State
from ._operator import operator
from ._product import product

# The orders in native/mixed_memory.h.
_VARIANTS = ("gated", "paper", "driven")
METHODS = ("euler", "midpoint", "heun", "rk4")
_WEIGHTS = 10
_INNER, _PRODUCT, _SCALE, _DRIVE = slice(2, 4), slice(4, 8), 8, 9


@operator()
def mixed_memory_forward(
    x: Tensor,
    dt: Tensor,
    c0: Tensor,
    h0: Tensor,
    weights: Sequence[Tensor],
    lengths: Tensor | None,
    variant: str,
    method: str,
    steps: int,
    keep_h: bool,
    keep_c: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """h and c after every step, `(T, B, H)` (empty without `keep_h`, `keep_c`), and c and h after each last valid step.

    The weights are in the order of native/mixed_memory.h; those that a setting does not have are empty.
    """
    y, c, c_end, h_end = results = _results(x, c0, h0, keep_h, keep_c)
    problem = _problem(x, dt, c0, h0, weights, lengths, variant, method, steps)
    ops.call("mixed_memory_forward", x.dtype, *problem, c if keep_c else None, y if keep_h else None, c_end, h_end)
    return results


@mixed_memory_forward.register_fake
def _(x, dt, c0, h0, weights, lengths, variant, method, steps, keep_h, keep_c):
    return _results(x, c0, h0, keep_h, keep_c)


def _results(x: Tensor, c0: Tensor, h0: Tensor, keep_h: bool, keep_c: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (steps, batch, _), (_, hidden) = ops.sizes("x", x, 3), ops.sizes("h0", h0, 2)
    shape = (steps, batch, hidden)
    y, c = (x.new_empty(shape if keep else (0,)) for keep in (keep_h, keep_c))
    return y, c, torch.empty_like(c0), torch.empty_like(h0)


@operator()
def mixed_memory_backward(
    x: Tensor,
    dt: Tensor,
    c0: Tensor,
    h0: Tensor,
    weights: Sequence[Tensor],
    lengths: Tensor | None,
    variant: str,
    method: str,
    steps: int,
    y: Tensor,
    c: Tensor,
    grad_y: Tensor | None,
    grad_c: Tensor | None,
    grad_h: Tensor | None,
    with_dx: bool,
) -> list[Tensor]:
    """Returns the gradients of x (empty if not wanted), dt, c0, h0 and the weights."""
    gradients = _gradients(x, dt, c0, h0, weights, with_dx)
    incoming = (None if grad is None else ops.dense(grad) for grad in (grad_y, grad_c, grad_h))
    problem = _problem(x, dt, c0, h0, weights, lengths, variant, method, steps)
    ops.call("mixed_memory_backward", x.dtype, *problem, c, y, *incoming, *map(_or_null, gradients))
    return gradients


@mixed_memory_backward.register_fake
def _(x, dt, c0, h0, weights, lengths, variant, method, steps, y, c, grad_y, grad_c, grad_h, with_dx):
    return _gradients(x, dt, c0, h0, weights, with_dx)


def _gradients(x: Tensor, dt: Tensor, c0: Tensor, h0: Tensor, weights: Sequence[Tensor], with_dx: bool) -> list[Tensor]:
    wanted = (x if with_dx else x.new_empty(0), dt, c0, h0, *weights)
    return [torch.empty_like(tensor) for tensor in wanted]


def _problem(
    x: Tensor,
    dt: Tensor,
    c0: Tensor,
    h0: Tensor,
    weights: Sequence[Tensor],
    lengths: Tensor | None,
    variant: str,
    method: str,
    steps: int,
) -> tuple[Any, ...]:
    """Returns the arguments that both C functions begin with."""
    sizes = (*ops.sizes("x", x, 3), ops.sizes("h0", h0, 2)[1])
    options = (_VARIANTS.index(variant), METHODS.index(method), steps)
    return (x, dt, c0, h0, *map(_or_null, weights), lengths, *sizes, *options)


def _or_null(tensor: Tensor) -> Tensor | None:
    return tensor if tensor.numel() else None


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, dt, c0, h0, weights, lengths, *ctx.options, _, _ = inputs
    y, c, _, _ = output
    ctx.save_for_backward(x, dt, c0, h0, *weights, lengths, y, c)
    ctx.set_materialize_grads(False)


def _backward(
    ctx: Any, grad_y: Tensor | None, _: Tensor | None, grad_c: Tensor | None, grad_h: Tensor | None
) -> tuple[Any, ...]:
    x, dt, c0, h0, *weights, lengths, y, c = ctx.saved_tensors
    with_dx = ctx.needs_input_grad[0]
    dx, ddt, dc0, dh0, *dweights = mixed_memory_backward(
        x, dt, c0, h0, weights, lengths, *ctx.options, y, c, grad_y, grad_c, grad_h, with_dx
    )
    return (dx if with_dx else None, ddt, dc0, dh0, dweights, *(None,) * 6)


mixed_memory_forward.register_autograd(_backward, setup_context=_setup)
ops.refuse_double_backward(mixed_memory_backward)


class Reads(NamedTuple):
    """Data that the kernel reads from a `MixedMemoryCell`.

    Attributes:
        inputs: W and b of the gates.
        recurrent: U of the gates.
        inner: W₁ and b₁ of the mlp flow, R and b of the ctrnn flow.
        outer: W₂ and b₂ of the mlp flow.
        scale: s of the ctrnn flow.
        drive: K of a driven flow.
        variant: "gated", "paper" or "driven".
        method: One of `METHODS`.
        steps: Sub-steps in each dt.
    """

    inputs: tuple[Tensor, Tensor]
    recurrent: Tensor
    inner: tuple[Tensor, Tensor]
    outer: tuple[Tensor, Tensor] | None
    scale: Tensor | None
    drive: Tensor | None
    variant: str
    method: str
    steps: int


def run(reads: Reads, x: Tensor, state: tuple[Tensor, ...], dt: Tensor, plan: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Runs a `MixedMemoryCell` over a sequence, as `driver.run`."""
    tensors = [tensor.contiguous() for tensor in (x, dt, *state)]
    weights = prepared(reads)
    keep_c = ops.needs_backward(*tensors, *weights)
    options = (reads.variant, reads.method, reads.steps, keep_c or not plan.last, keep_c)
    lengths = None if plan.lengths is None else plan.lengths.contiguous()
    y, _, c, h = mixed_memory_forward(*tensors, weights, lengths, *options)
    return (h if plan.last else ops.apart(y)), (c, h)


def bind(reads: Sequence[Reads], x: Tensor, dt: Tensor, before: State, after: State, residual: int) -> Bound:
    """One step of a `MixedMemoryCell` over fixed arrays, as `Kernel.bind`."""
    (cell,) = reads
    problem = _problem(
        x.unsqueeze(0), dt, before[0][0], before[1][0], prepared(cell), None, cell.variant, cell.method, cell.steps
    )
    return BoundCall("mixed_memory_forward", x.dtype, *problem, None, None, *after), after[1][0]


def prepared(reads: Reads) -> list[Tensor]:
    """Returns the weights in the kernel's order; empty where a setting has none.

    The mlp flow is solved for W₁ h + b₁, whose field needs W₁ W₂ and W₁ b₂: small products that are made once here,
    where autograd takes care of their gradients.
    """
    weight, bias = reads.inputs
    weights = [weight.new_empty(0)] * _WEIGHTS
    weights[0] = torch.cat([weight, reads.recurrent], dim=1)
    weights[1] = bias
    weights[_INNER] = reads.inner
    if reads.outer is not None:
        outer, outer_bias = reads.outer
        both = product(reads.inner[0], torch.cat([outer, outer_bias.unsqueeze(1)], dim=1))
        weights[_PRODUCT] = both[:, :-1], both[:, -1], outer, reads.steps * outer_bias
    if reads.scale is not None:
        weights[_SCALE] = reads.scale
    if reads.drive is not None:
        weights[_DRIVE] = reads.drive
    return [weight.contiguous() for weight in weights]
