"""iRNN and ERNN over a whole sequence: autograd around native/equilibrium.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import ops
from ._bound import Bound, BoundCall, State
from ._operator import operator
from ._product import product

_ACTIVATIONS = ("relu", "tanh", "sigmoid")  # the order in native/equilibrium.cpp


@operator()
def equilibrium_forward(
    x: Tensor,
    h0: Tensor,
    count: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    up: Tensor,
    down: Tensor | None,
    eta: Tensor,
    gamma: Tensor,
    sign: Tensor,
    lengths: Tensor | None,
    start: str,
    activation: str,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    """Returns the states after every step, `(T, B, H)` (empty without `keep`), and after each last valid step, `(B,
    H)`.

    The recursion is q ← q + η_k [φ(U q + weight x + bias) - γ q] with U = `up` or, with `down`, I + `up` `down`ᵀ.
    """
    inputs = (x, h0, count, weight, bias, up, down, eta, gamma, sign, lengths)
    y, h = _forward_results(x, h0, keep)
    ops.call("equilibrium_forward", x.dtype, *_problem(*inputs, start, activation), y if keep else None, h)
    return y, h


@equilibrium_forward.register_fake
def _(x, h0, count, weight, bias, up, down, eta, gamma, sign, lengths, start, activation, keep):
    return _forward_results(x, h0, keep)


def _forward_results(x: Tensor, h0: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    steps, batch, _ = ops.sizes("x", x, 3)
    _, hidden = ops.sizes("h0", h0, 2)
    return x.new_empty((steps, batch, hidden) if keep else (0,)), torch.empty_like(h0)


@operator()
def equilibrium_backward(
    x: Tensor,
    h0: Tensor,
    count: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    up: Tensor,
    down: Tensor | None,
    eta: Tensor,
    gamma: Tensor,
    sign: Tensor,
    lengths: Tensor | None,
    start: str,
    activation: str,
    y: Tensor,
    grad_y: Tensor | None,
    grad_h: Tensor | None,
    with_dx: bool,
) -> list[Tensor]:
    """Returns the gradients of x (empty if not wanted), h0, weight, bias, up, down (empty if there is none) and eta."""
    inputs = (x, h0, count, weight, bias, up, down, eta, gamma, sign, lengths)
    gradients = _gradients(x, h0, weight, bias, up, down, eta, with_dx)
    dx, dh0, dweight, dbias, dup, ddown, deta = gradients
    ops.call(
        "equilibrium_backward",
        x.dtype,
        *_problem(*inputs, start, activation),
        y,
        None if grad_y is None else ops.dense(grad_y),
        None if grad_h is None else grad_h.contiguous(),
        dx if with_dx else None,
        dh0,
        dweight,
        dbias,
        dup,
        None if down is None else ddown,
        deta,
    )
    return gradients


@equilibrium_backward.register_fake
def _(x, h0, count, weight, bias, up, down, eta, gamma, sign, lengths, start, activation, y, grad_y, grad_h, with_dx):
    return _gradients(x, h0, weight, bias, up, down, eta, with_dx)


def _gradients(
    x: Tensor, h0: Tensor, weight: Tensor, bias: Tensor, up: Tensor, down: Tensor | None, eta: Tensor, with_dx: bool
) -> list[Tensor]:
    none = x.new_empty(0)
    wanted = (x if with_dx else none, h0, weight, bias, up, none if down is None else down, eta)
    return [torch.empty_like(tensor) for tensor in wanted]


def _problem(
    x: Tensor,
    h0: Tensor,
    count: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    up: Tensor,
    down: Tensor | None,
    eta: Tensor,
    gamma: Tensor,
    sign: Tensor,
    lengths: Tensor | None,
    start: str,
    activation: str,
) -> tuple[Any, ...]:
    """Returns the arguments that both C functions begin with."""
    (_, hidden), (_, rank) = ops.sizes("h0", h0, 2), ops.sizes("up", up, 2)
    sizes = (*ops.sizes("x", x, 3), hidden, rank, *ops.sizes("eta", eta, 2))
    options = (start == "previous", _ACTIVATIONS.index(activation))
    return (x, h0, count, weight, bias, up, down, eta, gamma, sign, lengths, *sizes, *options)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, start, activation, _ = inputs
    ctx.save_for_backward(*tensors, output[0])
    ctx.start, ctx.activation = start, activation
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_y: Tensor | None, grad_h: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, y = ctx.saved_tensors
    with_dx = ctx.needs_input_grad[0]
    gradients = equilibrium_backward(*tensors, ctx.start, ctx.activation, y, grad_y, grad_h, with_dx)
    dx, dh0, dweight, dbias, dup, ddown, deta = gradients
    down = tensors[6]
    return (
        *(dx if with_dx else None, dh0, None, dweight, dbias, dup, None if down is None else ddown, deta),
        *(None,) * 6,
    )


equilibrium_forward.register_autograd(_backward, setup_context=_setup)
ops.refuse_double_backward(equilibrium_backward)


class Reads(NamedTuple):
    """Data that the kernel reads from an `EquilibriumCell`: W, b, U (a matrix or its two factors) and the parameters
    of the recursion.

    `folded` says whether P = U is to be multiplied into the others; eta is `(K,)` or `(K, steps)`.
    """

    weight: Tensor
    bias: Tensor
    u: Tensor | tuple[Tensor, Tensor]
    folded: bool
    eta: Tensor
    gamma: Tensor
    sign: Tensor
    start: str
    activation: str


def run(reads: Reads, x: Tensor, state: tuple[Tensor, ...], dt: Tensor, plan: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Runs an `EquilibriumCell` over a sequence, as `driver.run`."""
    h0, *count = state
    count_before = count[0].contiguous() if count else None
    lengths = None if plan.lengths is None else plan.lengths.contiguous()
    inputs = (x.contiguous(), h0.contiguous(), count_before, *prepared(reads), lengths)
    keep = not plan.last or ops.needs_backward(*inputs)
    y, h = equilibrium_forward(*inputs, reads.start, reads.activation, keep)
    taken = x.shape[0] if plan.lengths is None else plan.lengths.unsqueeze(1)
    return (h if plan.last else ops.apart(y)), (h, *(n + taken for n in count))


def bind(reads: Sequence[Reads], x: Tensor, dt: Tensor, before: State, after: State, residual: int) -> Bound | None:
    """One step of an `EquilibriumCell` over fixed arrays, as `Kernel.bind`; not where steps are counted."""
    (cell,) = reads
    if len(before) > 1:
        return None
    problem = _problem(x.unsqueeze(0), before[0][0], None, *prepared(cell), None, cell.start, cell.activation)
    return BoundCall("equilibrium_forward", x.dtype, *problem, None, *after), after[0][0]


def prepared(reads: Reads) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor]:
    """Returns contiguous arguments of the C functions: weight, bias, up, down, eta `(K, steps)`, gamma and sign."""
    weight, bias, up, down = _folded(reads)
    eta = reads.eta if reads.eta.dim() == 2 else reads.eta.unsqueeze(1)
    down = None if down is None else down.contiguous()
    return weight.contiguous(), bias.contiguous(), up.contiguous(), down, eta.contiguous(), reads.gamma, reads.sign


def _folded(reads: Reads) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """W, b and the factors of U with an outer factor P = U multiplied into them.

    U (U q + W x + b) = U² q + (U W) x + U b, where U² = I + V₂ (2 I + V₁ V₂) V₁ for a low-rank U: half the
    products of the recursion are done once here, and autograd takes care of their gradients.
    """
    weight, bias, u = reads.weight, reads.bias, reads.u
    if not reads.folded:
        return (weight, bias, u, None) if isinstance(u, Tensor) else (weight, bias, u[0], u[1].T)
    both = torch.cat([weight, bias.unsqueeze(1)], dim=1)
    if isinstance(u, Tensor):
        both, up, down = product(u, both), product(u, u), None
    else:
        v2, v1 = u
        both = both + product(v2, product(v1, both))
        up, down = 2 * v2 + product(v2, product(v1, v2)), v1.T
    return both[:, :-1], both[:, -1], up, down
