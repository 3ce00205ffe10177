"""Compares a new kernel with the original step before the kernel is used."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._recorded import Unsupported
from ._run import Compiled
from ._trace import device_of, reasons

_TOLERANCE = {torch.float32: 2e-3, torch.float64: 1e-8}
_BATCH = 3


class _Plan(NamedTuple):
    lengths: Tensor | None = None
    last: bool = False
    memory: str = "fast"

    def valid(self, x: Tensor) -> None:
        """All steps are."""


def check(cell: Any, kernel: Compiled, equal_gaps: bool = False) -> None:
    """Raises `Unsupported` if outputs or gradients of two steps differ by more than rounding.

    They are compared from the initial state and from states far from it, and with small and large gradients: one
    comparison would miss a rule that clips either.
    """
    for far, scale in ((0.0, 1.0), (0.0, 1e3), (4.0, 1.0), (4.0, 1e3)):
        _compare(cell, kernel, far, scale, equal_gaps)


def _compare(cell: Any, kernel: Compiled, far: float, scale: float, equal_gaps: bool) -> None:
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        device = device_of(cell)
        x = torch.empty(2, _BATCH, cell.input_size, dtype=kernel.dtype).normal_().to(device).requires_grad_()
        dt = torch.empty(2, _BATCH, 1, dtype=kernel.dtype).uniform_(0.1, 1).to(device)
        dt = dt[:1, :1].expand_as(dt) if equal_gaps else dt.requires_grad_()
        start = (part.detach().clone() for part in cell.initial_state(_BATCH, x[0]))
        state = tuple((part + far * torch.randn_like(part)).requires_grad_() for part in start)
        inputs = [t for t in (x, dt, *state, *cell.parameters()) if t.requires_grad]
        torch.manual_seed(1)
        with reasons():
            y, *new = _steps(cell, x, state, dt)
            last = kernel.step.traced.readout is not None and kernel.step.traced.lead is None
            expected = _with_gradients([y[-1] if last else y, *new], inputs, scale)
        torch.manual_seed(1)
        y, new = kernel.run(cell, x, state, dt, _Plan(last=last))
        actual = _with_gradients([y, *new], inputs, scale)
    if not all(map(_agree, expected, actual)):
        raise Unsupported("gives different outputs or gradients when compiled (does it disable gradients?)")


def _agree(want: Tensor | None, got: Tensor | None) -> bool:
    """Returns whether both agree up to rounding; a missing gradient counts as 0, and NaN agrees with NaN."""
    if want is None or got is None:
        one = got if want is None else want
        return one is None or not bool(one.any())
    want, got = want.detach(), got.detach()
    largest = want[want.isfinite()].abs()
    limit = _TOLERANCE[want.dtype] * max(1.0, float(largest.max()) if largest.numel() else 1.0)
    return torch.allclose(want, got, rtol=0, atol=limit, equal_nan=True)


def _steps(cell: Any, x: Tensor, state: tuple[Tensor, ...], dt: Tensor) -> list[Tensor]:
    projected, step, outputs = cell.project_sequence(x, None), cell.prepare(), []
    inputs = cell.project(x) if projected is None else projected
    for n in range(len(x)):
        y, state = step(inputs[n], state, dt[n])
        outputs.append(y)
    return [torch.stack(outputs), *state]


def _with_gradients(outputs: list[Tensor], inputs: list[Tensor], scale: float) -> list[Tensor | None]:
    weights = [
        torch.linspace(-scale, scale, out.numel(), dtype=out.dtype, device=out.device).view_as(out) for out in outputs
    ]
    pairs = [(out, weight) for out, weight in zip(outputs, weights, strict=True) if out.requires_grad]
    if not pairs:
        return list(outputs)
    loss = torch.stack([(out * weight).sum() for out, weight in pairs]).sum()
    return [*outputs, *torch.autograd.grad(loss, inputs, allow_unused=True)]
