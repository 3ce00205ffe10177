"""Compares a new kernel with the step it was made from, before anything relies on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .run import Compiled
from .trace import Unsupported

_TOLERANCE = {torch.float32: 2e-3, torch.float64: 1e-8}
_BATCH = 3


class _Plan(NamedTuple):
    lengths: Tensor | None = None
    last: bool = False
    memory: str = "fast"


def check(cell: Any, kernel: Compiled) -> None:
    """Raises `Unsupported` where outputs or gradients of two steps differ beyond rounding."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        like = next(cell.parameters(), torch.empty(0))
        x = like.new_empty(2, _BATCH, cell.input_size).normal_().requires_grad_()
        dt = like.new_empty(2, _BATCH, 1).uniform_(0.1, 1).requires_grad_()
        state = tuple(part.detach().clone().requires_grad_() for part in cell.initial_state(_BATCH, x[0]))
        inputs = [x, dt, *state, *(p for p in cell.parameters() if p.requires_grad)]
        torch.manual_seed(1)
        expected = _with_gradients(_steps(cell, x, state, dt), inputs)
        torch.manual_seed(1)
        y, new = kernel.run(cell, x, state, dt, _Plan())
        found = _with_gradients([y, *new], inputs)
    for want, got in zip(expected, found, strict=True):
        if want is None and got is None:
            continue
        want, got = (torch.zeros_like(want if got is None else got) if t is None else t for t in (want, got))
        limit = _TOLERANCE[want.dtype] * max(1.0, float(want.abs().max()) if want.numel() else 1.0)
        # NaN on both sides is agreement, so not torch.equal and not a plain difference.
        if not torch.allclose(want, got, rtol=0, atol=limit, equal_nan=True):
            raise Unsupported("gives other numbers or gradients when it is compiled, such as where gradients are off")


def _steps(cell: Any, x: Tensor, state: tuple[Tensor, ...], dt: Tensor) -> list[Tensor]:
    inputs, step, outputs = cell.project(x), cell.prepare(), []
    for n in range(len(x)):
        y, state = step(inputs[n], state, dt[n])
        outputs.append(y)
    return [torch.stack(outputs), *state]


def _with_gradients(outputs: list[Tensor], inputs: list[Tensor]) -> list[Tensor | None]:
    weights = [torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out) for out in outputs]
    pairs = [(out, weight) for out, weight in zip(outputs, weights, strict=True) if out.requires_grad]
    if not pairs:
        return list(outputs)
    loss = torch.stack([(out * weight).sum() for out, weight in pairs]).sum()
    return [*outputs, *torch.autograd.grad(loss, inputs, allow_unused=True)]
