"""Second derivatives of kernels: the backward pass that is itself to be differentiated runs on torch's path."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import ops
from ._backend import backend
from ._modes import autocasts, has_values, transformed

_noted: set[str] = set()
Again = Callable[[], Sequence[Tensor]]


def twice_differentiable(outputs: Sequence[Tensor], inputs: Sequence[Tensor], again: Again, name: str) -> list[Tensor]:
    """Returns the outputs of a kernel with second derivatives.

    A backward pass with `create_graph=True` computes the outputs again from the same inputs by operations of torch,
    and differentiates those. Every other backward pass runs the kernel's own.

    Args:
        outputs: Outputs of the kernel.
        inputs: Everything that it has gradients for: input, gaps, states and parameters.
        again: Computes the outputs by operations of torch; it may raise if that is not possible any more.
        name: Name of the model, for the note.
    """
    x = inputs[0]
    if torch.compiler.is_compiling() or transformed() or not has_values(x) or autocasts(x):
        return list(outputs)
    if not ops.needs_backward(*outputs):
        return list(outputs)
    return list(_Seam.apply(again, name, len(outputs), *outputs, *inputs))


class _Seam(torch.autograd.Function):
    """Passes outputs on, and gradients either to them or, for second derivatives, past the kernel to its inputs."""

    @staticmethod
    def forward(ctx: Any, again: Again, name: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.again, ctx.name, ctx.count = again, name, count
        ctx.save_for_backward(*tensors[count:])
        ctx.set_materialize_grads(False)
        return tuple(one.detach() for one in tensors[:count])  # a view could not be modified in place by the caller

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return None, None, None, *grads, *[None] * len(saved)
        if ctx.name not in _noted:
            _noted.add(ctx.name)
            warnings.warn(
                f"a backward pass of {ctx.name} with create_graph=True runs as a loop of torch operations, because "
                "kernels have no second derivatives.",
                stacklevel=2,
            )
        with backend("torch"):
            outputs = ctx.again()
        pairs = [
            (out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None and out.requires_grad
        ]
        wanted = [one for one in saved if one.requires_grad]
        derivatives = iter(
            torch.autograd.grad(
                [out for out, _ in pairs], wanted, [grad for _, grad in pairs], create_graph=True, allow_unused=True
            )
            if pairs and wanted
            else [None] * len(wanted)
        )
        gradients = [next(derivatives) if one.requires_grad else None for one in saved]
        return None, None, None, *[None] * ctx.count, *gradients
