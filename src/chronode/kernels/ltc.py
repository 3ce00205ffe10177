"""Synaptic LTC with the fused solver on the CPU; native/ltc_synaptic.cpp has the algorithm.

Only the states after every step are kept for the backward pass; the output is a copy of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from . import ops
from ._bound import Bound, BoundCall, State
from ._operator import operator


class SynapticReads(NamedTuple):
    """Data that the kernel reads from a synaptic `LTCCell`: synapses `(4, from, to)` of w, m, s, e; neurons `(3,
    H)`.
    """

    input_map: tuple[Tensor, Tensor] | None
    recurrent: Tensor
    sensory: Tensor
    neurons: Tensor  # leak conductance, leak current, 1 / capacity
    unfolds: int
    outputs: int


def run(reads: SynapticReads, x: Tensor, state: State, dt: Tensor, plan: Any) -> tuple[Tensor, State]:
    """Runs a synaptic LTC cell with the fused solver over a sequence."""
    (v,) = state
    if reads.input_map is not None:
        scale, offset = reads.input_map
        x = x * scale + offset
    tensors = (x, v, dt, reads.recurrent, reads.sensory, reads.neurons)
    keep = not plan.last or ops.needs_backward(*tensors)  # as the output, or for the backward pass
    states, final = ltc_synaptic_forward(*tensors, plan.lengths, reads.unfolds, keep)
    return (final if plan.last else ops.apart(states))[..., -reads.outputs :], (final,)


def bind(
    reads: Sequence[SynapticReads], x: Tensor, dt: Tensor, before: State, after: State, residual: int
) -> Bound | None:
    """One step of a synaptic `LTCCell` without an input map over fixed arrays, as `Kernel.bind`."""
    (cell,) = reads
    if cell.input_map is not None:
        return None
    tensors = (x.unsqueeze(0), before[0][0], dt.unsqueeze(0), cell.recurrent, cell.sensory, cell.neurons)
    problem = _synaptic_problem(*tensors, None, cell.unfolds)
    return BoundCall("ltc_synaptic_forward", x.dtype, *problem, None, *after), after[0][0][:, -cell.outputs :]


def _results(v: Tensor, steps: int, keep: bool) -> tuple[Tensor, Tensor]:
    batch, hidden = ops.sizes("v", v, 2)
    return v.new_empty(steps if keep else 0, batch, hidden), v.new_empty(v.shape)


def _like(*tensors: Tensor) -> Any:
    return tuple(tensor.new_empty(tensor.shape) for tensor in tensors)


def _contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    return [None if tensor is None else ops.dense(tensor) for tensor in tensors]


@operator("cpu")
def ltc_synaptic_forward(
    x: Tensor,
    v: Tensor,
    dt: Tensor,
    recurrent: Tensor,
    sensory: Tensor,
    neurons: Tensor,
    lengths: Tensor | None,
    unfolds: int,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    """Returns the state after every step `(T, B, H)`, 0 at padding (empty unless `keep`), and after the last one.

    x `(T, B, D)`, v `(B, H)`, dt `(T, B, 1)`; synapses `(4, from, to)`: w, m, s, e; neurons `(3, H)`: leak
    conductance, leak current, 1 / capacity.
    """
    states, final = _results(v, len(x), keep)
    problem = _synaptic_problem(x, v, dt, recurrent, sensory, neurons, lengths, unfolds)
    ops.call("ltc_synaptic_forward", x.dtype, *problem, states if keep else None, final)
    return states, final


def _synaptic_problem(
    x: Tensor,
    v: Tensor,
    dt: Tensor,
    recurrent: Tensor,
    sensory: Tensor,
    neurons: Tensor,
    lengths: Tensor | None,
    unfolds: int,
) -> tuple[Any, ...]:
    """Returns the arguments that both C functions begin with."""
    tensors = _contiguous(x, v, dt, lengths, recurrent, sensory, neurons)
    return *tensors, *ops.sizes("x", x, 3), v.shape[-1], unfolds


@ltc_synaptic_forward.register_fake
def _(x, v, dt, recurrent, sensory, neurons, lengths, unfolds, keep):
    return _results(v, len(x), keep)


@operator("cpu")
def ltc_synaptic_backward(
    x: Tensor,
    v: Tensor,
    dt: Tensor,
    recurrent: Tensor,
    sensory: Tensor,
    neurons: Tensor,
    lengths: Tensor | None,
    states: Tensor,
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    unfolds: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, v, dt, recurrent, sensory and neurons."""
    grads = _like(x, v, dt, recurrent, sensory, neurons)
    tensors = _contiguous(x, v, dt, lengths, recurrent, sensory, neurons)
    sizes = (*ops.sizes("x", x, 3), v.shape[-1], unfolds)
    ops.call("ltc_synaptic_backward", x.dtype, *tensors, *sizes, *_contiguous(states, grad_states, grad_final), *grads)
    return grads


@ltc_synaptic_backward.register_fake
def _(x, v, dt, recurrent, sensory, neurons, lengths, states, grad_states, grad_final, unfolds):
    return _like(x, v, dt, recurrent, sensory, neurons)


def _save_synaptic(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.unfolds, _ = inputs
    ctx.save_for_backward(*tensors, output[0])
    ctx.set_materialize_grads(False)


def _differentiate_synaptic(ctx: Any, grad_states: Tensor | None, grad_final: Tensor | None) -> tuple:
    grads = ltc_synaptic_backward(*ctx.saved_tensors, grad_states, grad_final, ctx.unfolds)
    return *grads, None, None, None


ltc_synaptic_forward.register_autograd(_differentiate_synaptic, setup_context=_save_synaptic)
ops.refuse_double_backward(ltc_synaptic_backward)
