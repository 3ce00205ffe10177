"""UnICORNN, a whole stack of layers in one call. Algorithms: native/unicornn.h.

Memory on the CPU. The backward pass needs the states and tanh(w y + u) of every step.
- "fast" keeps tanh(w y + u) of every layer and step and the states at the beginning of every chunk of time (24 steps
  for batches of 9 to 256). The states between follow by stepping forward, without a matrix product.
- "low" keeps every 512th state and goes back in time by the recurrence's inverse between them: where trajectories
  diverge, errors of the inverse grow with every step. Where a shorter way back would lose digits, because a gap is too
  long for it or states are much smaller than later ones, it runs forward once more and stores the states at the
  beginning of every chunk, of a few samples at a time: native/unicornn_inverse.h has the rule and its derivation.
- "auto" keeps the states at the beginning of every chunk and runs each chunk forward again. For wide layers it does as
  "fast" up to a certain size: a second run costs a matrix product, keeping costs memory traffic. On two cores keeping
  was faster with 128 units (by a tenth) and with 256, with 32 there was no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _growth as growth
from . import _layout as layout
from . import ops
from ._bound import Bound, BoundCall, State
from ._operator import operator

KEEP_AT_MOST = 256 * 2**20
"""With memory="auto", bytes up to which the forward pass keeps what the backward pass can restore ..."""
KEEP_FROM = 128
"""... and the minimum number of units per layer for that."""
ANCHOR_STEPS = 16
"""With memory="auto", least number of steps between two kept states."""
INVERTED_STEPS = 512
"""With memory="low", number of steps between two kept states.

Over 100,000 chaotic steps, float32 gradients then differ by at most 7e-4 from those with all states kept, at a 32nd of
the states that "auto" keeps; without kept states, by any factor."""


class Reads(NamedTuple):
    """Data that the kernel reads from a `UnICORNNCell`: V, b, w, Δt σ(c) and α."""

    weight: Tensor
    bias: Tensor
    w: Tensor
    e: Tensor
    alpha: Tensor


def run(reads: Reads, x: Tensor, state: State, dt: Tensor, plan: Any) -> tuple[Tensor, State]:
    """Runs one cell over a sequence."""
    y, (state,) = run_stack([reads], x, [state], dt, None, 0, plan)
    return y, state


def run_stack(
    cells: Sequence[Reads],
    x: Tensor,
    states: Sequence[State],
    dt: Tensor,
    masks: Sequence[Tensor] | None,
    residual: int,
    plan: Any,
) -> tuple[Tensor, list[State]]:
    """Runs a stack of cells over a sequence: the last layer's outputs, masked, and the states of all."""
    y0, z0 = (torch.stack(parts) for parts in zip(*states, strict=True))
    *weights, alpha = _stacked(cells)
    all_masks = None if masks is None else torch.stack(list(masks))
    differentiable = ops.needs_backward(x, dt, y0, z0, *weights)
    keep = differentiable and _keeps(plan.memory, x, len(cells), y0.shape[-1])
    anchor_steps = _segment(plan.memory, keep, x) if differentiable else 0
    ys, yn, zn, _, _ = unicornn_forward(
        x, dt, y0, z0, *weights, alpha, all_masks, plan.lengths, residual, not plan.last, keep, anchor_steps
    )
    if plan.last:
        ys = yn[-1] if masks is None else yn[-1] * masks[-1]
    return ys, list(zip(yn.unbind(0), zn.unbind(0), strict=True))


def bind(reads: Sequence[Reads], x: Tensor, dt: Tensor, before: State, after: State, residual: int) -> Bound:
    """One step of a stack of `UnICORNNCell` over fixed arrays, as `Kernel.bind`."""
    none = x.new_empty(0)
    results = (none, *after, none, none)
    y, z = before
    tensors = (x.unsqueeze(0), dt.unsqueeze(0), y, z, *_stacked(reads), None, None)
    arguments = _forward_arguments(*tensors, residual, results, 0)
    return BoundCall("unicornn_forward", x.dtype, *arguments), after[0][-1]


def _stacked(cells: Sequence[Reads]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns every layer's Vᵀ in one row, and b, w, e and α of every layer."""
    return (
        torch.cat([cell.weight.t().flatten() for cell in cells]),
        torch.stack([cell.bias for cell in cells]),
        torch.stack([cell.w for cell in cells]),
        torch.stack([cell.e for cell in cells]),
        torch.stack([cell.alpha for cell in cells]),
    )


def _keeps(memory: str, x: Tensor, layers: int, hidden: int) -> bool:
    if memory != "auto":
        return memory == "fast"
    size = x.shape[0] * x.shape[1] * layers * hidden * x.element_size()
    return hidden >= KEEP_FROM and size <= KEEP_AT_MOST


def _segment(memory: str, keep: bool, x: Tensor) -> int:
    """Steps between two kept states: a chunk of time, as `Shape` in native/unicornn_chunk.h cuts them, or more."""
    steps, batch = x.shape[:2]
    samples = torch.sym_min((batch + 1) // 2, torch.sym_max(4, (batch + 63) // 64))
    chunk: Any = torch.sym_min(steps, torch.sym_max(1, 96 // samples))
    if keep:
        return chunk
    longer: Any = torch.sym_min(steps, torch.sym_max(chunk, INVERTED_STEPS if memory == "low" else ANCHOR_STEPS))
    return longer


# ---- the operators -----------------------------------------------------------------------------------


@operator("cpu")
def unicornn_forward(
    x: Tensor,
    dt: Tensor,
    y0: Tensor,
    z0: Tensor,
    vt: Tensor,
    b: Tensor,
    w: Tensor,
    e: Tensor,
    alpha: Tensor,
    masks: Tensor | None,
    lengths: Tensor | None,
    residual: int,
    outputs: bool,
    keep: bool,
    anchor_steps: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Outputs of every step, final y, final z, tanh(w y + u), states at each `anchor_steps`-th step and at the end.

    Unless wanted (`outputs`, `keep`, `anchor_steps` > 0) the first and the last two are empty. x is `(T, B, D)`,
    dt `(T, B, 1)`, states and masks `(L, B, H)`, vt every layer's Vᵀ in one row, b, w, e `(L, H)`.
    """
    x, dt = layout.dense(x), layout.dense(dt)
    results = _forward_results(x, y0, lengths, outputs, keep, anchor_steps)
    tensors = (x, dt, y0, z0, vt, b, w, e, alpha, masks, lengths)
    ops.call("unicornn_forward", x.dtype, *_forward_arguments(*tensors, residual, results, anchor_steps))
    return results


def _forward_arguments(
    x: Tensor,
    dt: Tensor,
    y0: Tensor,
    z0: Tensor,
    vt: Tensor,
    b: Tensor,
    w: Tensor,
    e: Tensor,
    alpha: Tensor,
    masks: Tensor | None,
    lengths: Tensor | None,
    residual: int,
    results: tuple[Tensor, ...],
    anchor_steps: int,
) -> tuple[Any, ...]:
    """Returns the arguments of the C function; `results` are those of the operator."""
    ys, yn, zn, kept, anchors = results
    return (
        *(*layout.passed(x), *layout.passed(dt), lengths, y0.contiguous(), z0.contiguous(), vt, b, w, e, alpha, masks),
        *(*layout.passed(ys), yn, zn, *_kept(kept), _given(anchors), anchor_steps),
        *(*ops.sizes("x", x, 3), y0.shape[-1], len(y0), residual),
    )


def _given(tensor: Tensor) -> Tensor | None:
    return tensor if tensor.numel() else None


def _kept(kept: Tensor) -> tuple[Tensor | None, int]:
    return _given(kept), kept.shape[-1]


def _forward_results(
    x: Tensor, y0: Tensor, lengths: Tensor | None, outputs: bool, keep: bool, anchor_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    layers, batch, hidden = ops.sizes("y0", y0, 3)
    ys = layout.new(x, hidden, zero=lengths is not None) if outputs else x.new_empty(0)
    rows = x.shape[0] * batch * layers
    kept = x.new_empty(rows, layout.row_length(hidden, x.dtype)) if keep else x.new_empty(0)
    segments = -(-x.shape[0] // anchor_steps) if anchor_steps else 0
    anchors = x.new_zeros(segments + 1, 2, *y0.shape) if segments else x.new_empty(0)
    return ys, y0.new_empty(y0.shape), y0.new_empty(y0.shape), kept, anchors


@unicornn_forward.register_fake
def _(x, dt, y0, z0, vt, b, w, e, alpha, masks, lengths, residual, outputs, keep, anchor_steps):
    return _forward_results(layout.dense(x), y0, lengths, outputs, keep, anchor_steps)


@operator("cpu")
def unicornn_backward(
    grad_ys: Tensor | None,
    grad_yn: Tensor | None,
    grad_zn: Tensor | None,
    x: Tensor,
    dt: Tensor,
    vt: Tensor,
    b: Tensor,
    w: Tensor,
    e: Tensor,
    alpha: Tensor,
    masks: Tensor | None,
    lengths: Tensor | None,
    kept: Tensor,
    anchors: Tensor,
    residual: int,
    anchor_steps: int,
    wants_x: bool,
    wants_dt: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x and dt (empty unless wanted), y0, z0, and of (vt, b, w, e) in one row."""
    x, dt = layout.dense(x), layout.dense(dt)
    dx, d_dt, dy0, dz0, parameters = results = _backward_results(x, dt, anchors, vt, lengths, wants_x, wants_dt)
    ops.call(
        "unicornn_backward",
        x.dtype,
        *(*layout.passed(x), *layout.passed(dt), lengths, vt, b, w, e, alpha, masks),
        *layout.passed_gradient(grad_ys),
        *(None if grad is None else grad.contiguous() for grad in (grad_yn, grad_zn)),
        *(*_kept(kept), anchors, anchor_steps),
        *(layout.passed(dx)[0], layout.passed(d_dt)[0], dy0, dz0, parameters),
        *(*ops.sizes("x", x, 3), b.shape[1], len(b), residual),
    )
    growth.warn("UnICORNN", x.shape[0], (grad_ys, grad_yn, grad_zn), (dy0, dz0))
    return results


def _backward_results(
    x: Tensor, dt: Tensor, anchors: Tensor, vt: Tensor, lengths: Tensor | None, wants_x: bool, wants_dt: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    padded = lengths is not None
    dx = layout.new(x, x.shape[-1], padded) if wants_x else x.new_empty(0)
    d_dt = layout.new(dt, 1, padded) if wants_dt else x.new_empty(0)
    _, _, layers, batch, hidden = anchors.shape
    dy0, dz0 = (x.new_empty(layers, batch, hidden) for _ in "yz")
    return dx, d_dt, dy0, dz0, vt.new_empty(vt.numel() + 3 * layers * hidden)


@unicornn_backward.register_fake
def _(grad_ys, grad_yn, grad_zn, x, dt, vt, b, w, e, alpha, masks, lengths, kept, anchors, *rest):
    *_, wants_x, wants_dt = rest
    return _backward_results(layout.dense(x), layout.dense(dt), anchors, vt, lengths, wants_x, wants_dt)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, dt, _, _, vt, b, w, e, alpha, masks, lengths, ctx.residual, _, _, ctx.anchor_steps = inputs
    *_, kept, anchors = output
    ctx.mark_non_differentiable(kept, anchors)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, dt, vt, b, w, e, alpha, masks, lengths, kept, anchors)


def _differentiate(ctx: Any, grad_ys: Tensor | None, grad_yn: Tensor | None, grad_zn: Tensor | None, *_: Any):
    wants_x, wants_dt = ctx.needs_input_grad[:2]
    saved = ctx.saved_tensors  # read once: torch.utils.checkpoint refuses a second time
    vt, b = saved[2:4]
    dx, d_dt, dy0, dz0, parameters = unicornn_backward(
        grad_ys, grad_yn, grad_zn, *saved, ctx.residual, ctx.anchor_steps, wants_x, wants_dt
    )
    d_vt, *rest = parameters.split([vt.numel(), b.numel(), b.numel(), b.numel()])
    d_b, d_w, d_e = (part.view_as(b) for part in rest)
    return dx if wants_x else None, d_dt if wants_dt else None, dy0, dz0, d_vt, d_b, d_w, d_e, *([None] * 7)


unicornn_forward.register_autograd(_differentiate, setup_context=_save)
ops.refuse_double_backward(unicornn_backward)
