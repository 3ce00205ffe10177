"""The loop over time, the only one in the package.

Everything here is time-major, `x (T, B, D)` and `dt (T, B, 1)`, and trusts its arguments: `_inputs.py` has checked
them, set padded inputs to 0 and padded `dt` to 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .. import compiler, kernels
from ..compiler import remake_weights, why_hooked
from ._cell import Cell, State


class Plan(NamedTuple):
    """Options for processing a sequence.

    Attributes:
        lengths: `(B,)` valid steps of each sequence, or None if all are full.
        reverse: Process from the last valid step to the first.
        last: Return `y (B, H)` of the last step of each sequence instead of all steps, `(T, B, H)`.
        memory: "fast" keeps what the backward pass needs; "low" recomputes it chunk by chunk; "auto" chooses.
    """

    lengths: Tensor | None = None
    reverse: bool = False
    last: bool = False
    memory: str = "auto"

    def valid(self, x: Tensor) -> Tensor | None:
        """Returns `(T, B, 1)`, True up to the length of each sequence; None if all steps of `x` are valid."""
        return valid_steps(self.lengths, x)


def run(cell: Cell, x: Tensor, state: State, dt: Tensor, plan: Plan) -> tuple[Tensor, State]:
    """Runs a cell over a sequence; returns the outputs (0 at padding) and the state after each last valid step."""
    if plan.reverse:
        forward_plan = plan._replace(reverse=False)
        y, state = run(cell, flip(x, plan.lengths), state, reversed_gaps(dt, plan.lengths), forward_plan)
        return (y if plan.last else flip(y, plan.lengths)), state
    remake_weights([cell])
    kernel, compiled = kernels.find(cell, x), None
    if kernel is None or not kernel.native:
        compiled = compiler.find(cell, x, equal_gaps=compiler.equal(dt, plan.lengths), last=plan.last)
        if compiled is None:
            with compiler.timed(cell, x, fused=kernel is not None):
                return _by_torch(cell, kernel, x, state, dt, plan)
    y, end = _by_torch(cell, kernel, x, state, dt, plan) if compiled is None else compiled.run(cell, x, state, dt, plan)
    if compiled is not None and compiled.draws:  # other numbers would be drawn the second time
        return y, end

    def again() -> tuple[Tensor, list[State]]:
        y, end = _by_torch(cell, None, x, state, dt, plan)
        return y, [end]

    y, (end,) = with_second_derivatives([cell], y, [end], [x, dt, *state], again)
    return y, end


def with_second_derivatives(
    cells: Sequence[nn.Module],
    y: Tensor,
    ends: list[State],
    given: Sequence[Tensor],
    again: Callable[[], tuple[Tensor, list[State]]],
) -> tuple[Tensor, list[State]]:
    """Returns the outputs of a kernel, whose backward pass can be differentiated: it then runs on torch's path.

    Args:
        cells: The cells that it ran.
        y: Its outputs.
        ends: States of the cells after the sequence.
        given: Input, gaps and states before it.
        again: Computes `y` and `ends` by operations of torch.
    """
    names, weights = [type(cell).__name__ for cell in cells], [one for cell in cells for one in cell.parameters()]

    def repeated() -> list[Tensor]:
        now = [one for cell in cells for one in cell.parameters()]
        if len(now) != len(weights) or any(one is not other for one, other in zip(now, weights, strict=True)):
            raise RuntimeError(
                f"{names[0]} has other weights now than in the forward pass, so its second derivatives cannot be "
                "computed: use `with chronode.backend('torch'):` around the forward call."
            )
        remake_weights(cells)
        y, ends = again()
        return [y, *(part for end in ends for part in end)]

    outputs = iter(
        kernels.twice_differentiable(
            [y, *(part for end in ends for part in end)], [*given, *weights], repeated, names[0]
        )
    )
    return next(outputs), [tuple(next(outputs) for _ in end) for end in ends]


def _by_torch(
    cell: Cell, kernel: kernels.Kernel | None, x: Tensor, state: State, dt: Tensor, plan: Plan
) -> tuple[Tensor, State]:
    done = None if kernel is None else kernel.run(cell.kernel_reads(), x, state, dt, plan)
    if done is not None:
        return done
    compiler.note_loop(cell, x)
    valid = plan.valid(x)
    projected = cell.project_sequence(x, valid)
    steps = Steps(x if projected is None else projected, dt, valid, projected is not None, plan.last)
    if plan.memory == "low" and torch.is_grad_enabled():
        return _loop_in_chunks(cell, state, steps, plan.lengths)
    return _loop(cell, state, steps)


class Steps(NamedTuple):
    """Inputs of the loop for a sequence or a piece of it; `valid` is that of `Plan.valid`."""

    x: Tensor
    dt: Tensor
    valid: Tensor | None
    projected: bool
    last: bool

    def pieces(self, size: int) -> list[Steps]:
        """Splits the steps into pieces of `size` steps."""
        xs, dts = self.x.split(size), self.dt.split(size)
        valids = [None] * len(xs) if self.valid is None else self.valid.split(size)
        return [self._replace(x=x, dt=dt, valid=valid) for x, dt, valid in zip(xs, dts, valids, strict=True)]


def _loop(cell: Cell, state: State, steps: Steps) -> tuple[Tensor, State]:
    x = steps.x if steps.projected else cell.project(steps.x)
    # The cell is called as a module so that its hooks run.
    step = cell.prepare() if why_hooked(cell) is None else cell
    outputs: list[Tensor] = []
    valid = [None] * len(x) if steps.valid is None else steps.valid.unbind(0)
    # unbind, not x[n]: in the backward pass, each index would create a gradient as large as the whole sequence.
    for x_n, dt_n, valid_n in zip(x.unbind(0), steps.dt.unbind(0), valid, strict=True):
        y, new = step(x_n, state, dt_n)
        if valid_n is not None:
            new = tuple(_where(valid_n, after, before) for after, before in zip(new, state, strict=True))
            y = torch.where(valid_n, y, outputs[-1] if steps.last and outputs else torch.zeros_like(y))
        state = new
        if steps.last:
            outputs.clear()
        outputs.append(y)
    return (outputs[-1] if steps.last else torch.stack(outputs)), state


def _where(valid: Tensor, after: Tensor, before: Tensor) -> Tensor:
    """Returns the state after the step for valid rows; a part of a state may have several axes behind the batch."""
    return torch.where(valid.view(-1, *[1] * (after.dim() - 1)), after, before)


def _loop_in_chunks(cell: Cell, state: State, steps: Steps, lengths: Tensor | None) -> tuple[Tensor, State]:
    """Runs `_loop` but keeps only the states between about √T chunks for the backward pass."""
    size = math.isqrt(len(steps.x) - 1) + 1
    outputs: list[Tensor] = []
    for piece in steps.pieces(size):
        y, state = checkpoint(_loop, cell, state, piece, use_reentrant=False)
        outputs.append(y)
    if not steps.last:
        return torch.cat(outputs), state
    if lengths is None:
        return outputs[-1], state
    return last_step(torch.stack(outputs), (lengths - 1) // size + 1), state


def valid_steps(lengths: Tensor | None, x: Tensor) -> Tensor | None:
    """Returns `(T, B, 1)`, True up to the length of each sequence; None if all steps are valid."""
    if lengths is None:
        return None
    steps = torch.arange(len(x), device=x.device)
    return (steps[:, None] < lengths.to(x.device)).unsqueeze(-1)


def last_step(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Returns the last valid step of each sequence of `x (T, B, H)`."""
    return x[-1] if lengths is None else x[lengths.to(x.device) - 1, torch.arange(x.shape[1], device=x.device)]


def flip(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverses the valid steps of each sequence; padding stays where it is."""
    if lengths is None:
        return x.flip(0)
    n = torch.arange(len(x), device=x.device)[:, None]
    source = torch.where(n < lengths, lengths - 1 - n, n)
    return x.gather(0, source.unsqueeze(-1).expand_as(x))


def reversed_gaps(dt: Tensor, lengths: Tensor | None) -> Tensor:
    """Returns the gaps for reading a sequence backwards.

    Backwards, the time since the previously read observation of step n is the gap before step n + 1. The first step
    read (the last in time) gets the gap before step 0, the only one that is left.
    """
    first, rest = dt[:1], dt[1:]
    if lengths is None:
        return torch.cat([first, rest.flip(0)])
    return torch.cat([first, flip(rest, lengths - 1)])
