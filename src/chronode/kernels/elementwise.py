"""IndRNN and SRU over a whole sequence: autograd around native/elementwise.cpp.

The contribution of the input is one product before, see _product.py; torch transforms the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import ops
from ._operator import operator

State = tuple[Tensor, ...]
_MODELS = ("indrnn", "sru")  # the order in native/elementwise.cpp


@operator("cpu")
def elementwise_forward(
    a: Tensor,
    h0: Tensor,
    weights: Tensor,
    scale: Tensor | None,
    lengths: Tensor | None,
    model: str,
    last: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the states after every step (empty without `keep`), the outputs and the state after each last valid step.

    The outputs are those of every step, `(T, B, H)`, or with `last` of the last ones, `(B, H)`; for "indrnn" they are
    the states, and this tensor is empty. a is `(T, B, H)`, or for "sru" `(T, B, 4 H)`; weights `(H,)` or `(2 H,)`.
    """
    states, y, h = results = _forward_results(a, h0, model, last, keep)
    outputs = (states if keep else None, y if model == "sru" else None, last, h)
    ops.call("elementwise_forward", a.dtype, *_problem(a, h0, weights, scale, lengths, model), *outputs)
    return results


def _forward_results(a: Tensor, h0: Tensor, model: str, last: bool, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    steps = (ops.sizes("a", a, 3)[0], *ops.sizes("h0", h0, 2))
    # IndRNN's states are its outputs; SRU's are for the backward pass alone.
    states = a.new_empty(steps if keep else (0,))
    y = a.new_empty((0,) if model == "indrnn" else h0.shape if last else steps)
    return states, y, torch.empty_like(h0)


@elementwise_forward.register_fake
def _(a, h0, weights, scale, lengths, model, last, keep):
    return _forward_results(a, h0, model, last, keep)


@operator("cpu")
def elementwise_backward(
    a: Tensor,
    h0: Tensor,
    weights: Tensor,
    scale: Tensor | None,
    lengths: Tensor | None,
    states: Tensor,
    grad_y: Tensor | None,
    grad_h: Tensor | None,
    model: str,
    last: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of a, h0 and the weights; grad_y is that of the outputs, for "indrnn" of the states."""
    results = torch.empty_like(a), torch.empty_like(h0), torch.empty_like(weights)
    ops.call(
        "elementwise_backward",
        a.dtype,
        *_problem(a, h0, weights, scale, lengths, model),
        states,
        None if grad_y is None else ops.dense(grad_y),
        last,
        None if grad_h is None else grad_h.contiguous(),
        *results,
    )
    return results


@elementwise_backward.register_fake
def _(a, h0, weights, scale, lengths, states, grad_y, grad_h, model, last):
    return torch.empty_like(a), torch.empty_like(h0), torch.empty_like(weights)


def _problem(
    a: Tensor, h0: Tensor, weights: Tensor, scale: Tensor | None, lengths: Tensor | None, model: str
) -> tuple[Any, ...]:
    """Returns the arguments that both C functions begin with."""
    steps, _, _ = ops.sizes("a", a, 3)
    return a, h0, weights, scale, lengths, steps, *ops.sizes("h0", h0, 2), _MODELS.index(model)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.model, ctx.last, _ = inputs
    ctx.save_for_backward(*tensors, output[0])
    ctx.set_materialize_grads(False)
    if ctx.model == "sru":  # its states are for the backward alone; those of an IndRNN are its outputs
        ctx.mark_non_differentiable(output[0])


def _backward(ctx: Any, grad_states: Tensor | None, grad_y: Tensor | None, grad_h: Tensor | None):
    last = ctx.last and ctx.model == "sru"
    grad_y = grad_states if ctx.model == "indrnn" else grad_y
    return *elementwise_backward(*ctx.saved_tensors, grad_y, grad_h, ctx.model, last), *(None,) * 5


elementwise_forward.register_autograd(_backward, setup_context=_setup)
ops.refuse_double_backward(elementwise_backward)


class IndRNNReads(NamedTuple):
    """Data that the kernel reads from an `IndRNNCell`: the contribution of the input as a function of (x, valid), u,
    and `dense`.
    """

    share: Callable[[Tensor, Tensor | None], Tensor]
    u: Tensor
    dense: bool


class SRUReads(NamedTuple):
    """Data that the kernel reads from an `SRUCell`: the contribution of the input as a function of x, v and the
    highway's scale.
    """

    share: Callable[[Tensor], Tensor]
    v: Tensor
    scale: Tensor


def run_indrnn(reads: IndRNNReads, x: Tensor, state: State, dt: Tensor, plan: Any) -> tuple[Tensor, State]:
    """Runs an `IndRNNCell` over a sequence, as `driver.run`."""
    share = reads.share(x, plan.valid(x))
    states, _, h = _run("indrnn", share, state[0], reads.u, None, plan, outputs=not plan.last)
    y = h if plan.last else states
    if reads.dense:
        return torch.cat([_seen(x, plan), y], dim=-1), (h,)
    return (y if plan.last else ops.apart(y)), (h,)


def run_sru(reads: SRUReads, x: Tensor, state: State, dt: Tensor, plan: Any) -> tuple[Tensor, State]:
    """Runs an `SRUCell` over a sequence, as `driver.run`."""
    _, y, c = _run("sru", reads.share(x), state[0], reads.v, reads.scale, plan)
    return y, (c,)


def _run(
    model: str, a: Tensor, h0: Tensor, weights: Tensor, scale: Tensor | None, plan: Any, outputs: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the operator; the states are kept where they are the outputs or a backward may come."""
    a = a.to(h0.dtype)  # the product has less precision under autocast
    inputs = (ops.dense(a), *(None if t is None else t.contiguous() for t in (h0, weights, scale, plan.lengths)))
    return elementwise_forward(*inputs, model, plan.last, outputs or ops.needs_backward(a, h0, weights))


def _seen(x: Tensor, plan: Any) -> Tensor:
    """Returns the inputs that belong to the outputs: 0 at padding, or of the last valid steps."""
    if plan.last:
        return x[-1] if plan.lengths is None else x[plan.lengths - 1, torch.arange(x.shape[1], device=x.device)]
    valid = plan.valid(x)
    return x if valid is None else torch.where(valid, x, torch.zeros_like(x))
