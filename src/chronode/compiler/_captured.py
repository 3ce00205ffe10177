"""Runs the loop of any cell on a GPU as CUDA graphs: K steps, forward and backward, are recorded once and replayed.

The forward pass keeps the states between pieces of K steps. The backward pass replays a graph that repeats the steps of
a piece and differentiates them, from the last piece to the first. So the two graphs serve any number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._fingerprint import remembered
from ._run import last_rows
from ._trace import keeping_buffers

STEPS = 32
"""Steps of a piece."""
_WARM_UP = 3
Results = list[Tensor | None]


class Captured:
    """Runs cells as captured graphs; what depends on the input alone runs before, for all steps."""

    draws = False

    def run(
        self, cell: Any, x: Tensor, state: Sequence[Tensor], dt: Tensor, plan: Any
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Runs the cell over a sequence, as `driver.run` does."""
        valid = plan.valid(x)
        projected = cell.project_sequence(x, valid)
        rows = cell.project(x) if projected is None else projected
        missing = -len(rows) % STEPS
        everywhere = torch.ones(*rows.shape[:2], 1, dtype=torch.bool, device=x.device) if valid is None else valid
        rows, dt, steps = (
            torch.cat([one, one.new_zeros(missing, *one.shape[1:])]) if missing else one
            for one in (rows, dt, everywhere)
        )
        weights = [weight for weight in cell.parameters() if weight.requires_grad]
        shapes = tuple((tuple(one.shape[1:]), one.dtype) for one in (rows, dt, *state))
        memory = tuple(weight.data_ptr() for weight in cell.parameters())
        piece = remembered(cell, ("captured", shapes, memory), lambda: _Piece(cell, rows, dt, state, weights))
        y, *ends = _Loop.apply(piece, steps, rows, dt, *state, *weights)
        y = y[: len(x)]
        return (last_rows(y, plan.lengths) if plan.last else y), tuple(ends)


class _Piece:
    """K steps of a cell over fixed memory."""

    def __init__(self, cell: Any, x: Tensor, dt: Tensor, state: Sequence[Tensor], weights: list[Tensor]):
        self.cell, self.weights = cell, weights
        self.inputs = [torch.zeros_like(one[:STEPS]) for one in (x, dt)] + [torch.zeros_like(one) for one in state]
        self.valid = torch.ones(*self.inputs[0].shape[:2], 1, dtype=torch.bool, device=x.device)
        self.grads: list[Tensor] = []
        with keeping_buffers(cell):
            self.forward = _recorded(self._forward, x.device)
            self.grads = [torch.zeros_like(one) for one in self.forward()]
            self.backward = _recorded(self._backward, x.device)

    def fill(self, valid: Tensor, values: Sequence[Tensor], grads: Sequence[Tensor | None] = ()) -> None:
        """Copies the inputs of a piece, and the gradients of its outputs, to where the graphs read them."""
        self.valid.copy_(valid)
        for to, value in zip(self.inputs, values, strict=True):
            to.copy_(value)
        for to, grad in zip(self.grads, grads, strict=False):
            to.zero_() if grad is None else to.copy_(grad)

    def _forward(self, inputs: Sequence[Tensor] | None = None) -> list[Tensor]:
        (x, dt, *state), outputs = self.inputs if inputs is None else inputs, []
        with torch.set_grad_enabled(inputs is not None):
            step = self.cell.prepare()
            for x_n, dt_n, valid in zip(x.unbind(0), dt.unbind(0), self.valid.unbind(0), strict=True):
                y, new = step(x_n, tuple(state), dt_n)
                masks = [valid.view(-1, *[1] * (part.dim() - 1)) for part in new]
                state = [torch.where(*each) for each in zip(masks, new, state, strict=True)]
                outputs.append(torch.where(valid, y, torch.zeros_like(y)))
            return [torch.stack(outputs), *state]

    def _backward(self) -> Results:
        inputs = [one.detach().requires_grad_() for one in self.inputs]
        with torch.enable_grad():
            pairs = [pair for pair in zip(self._forward(inputs), self.grads, strict=True) if pair[0].requires_grad]
            outputs, grads = [out for out, _ in pairs], [grad for _, grad in pairs]
            return list(torch.autograd.grad(outputs, [*inputs, *self.weights], grads, allow_unused=True))


def _recorded(function: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
    """Returns a function that repeats the kernels of `function` over the same memory; off a GPU, the function."""
    if device.type != "cuda":
        return function
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            function()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function()

    def replay() -> Any:
        graph.replay()
        return results

    return replay


class _Loop(torch.autograd.Function):
    """The graphs over all pieces of a sequence."""

    @staticmethod
    def forward(ctx: Any, piece: _Piece, valid: Tensor, x: Tensor, dt: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        state = list(rest[: len(piece.inputs) - 2])
        outputs, starts = [], []
        for begin in range(0, len(x), STEPS):
            span = slice(begin, begin + STEPS)
            starts.append(state)
            piece.fill(valid[span], [x[span], dt[span], *state])
            y, *state = (one.clone() for one in piece.forward())
            outputs.append(y)
        ctx.piece, ctx.pieces = piece, len(starts)
        ctx.save_for_backward(valid, x, dt, *(part for start in starts for part in start))
        ctx.set_materialize_grads(False)
        return torch.cat(outputs), *state

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        (valid, x, dt, *states), piece = ctx.saved_tensors, ctx.piece
        of_y, *grads = grad_outputs
        count = len(grads)
        rows: list[Results] = []
        sums: Results = [None] * len(piece.weights)
        for index in reversed(range(ctx.pieces)):
            span = slice(index * STEPS, (index + 1) * STEPS)
            start = states[index * count : (index + 1) * count]
            of_piece = None if of_y is None else of_y[span]
            piece.fill(valid[span], [x[span], dt[span], *start], [of_piece, *grads])
            results = piece.backward()
            dx, ddt, *more = (None if one is None else one.clone() for one in results)
            grads, weights = more[:count], more[count:]
            rows.insert(0, [dx, ddt])
            pairs = zip(sums, weights, strict=True)
            sums = [new if old is None else old if new is None else old + new for old, new in pairs]
        of_rows = [None if one[0] is None else torch.cat(one) for one in zip(*rows, strict=True)]
        return None, None, *of_rows, *grads, *sums
