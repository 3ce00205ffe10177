"""Runs compiled kernels through two torch operators, with gradients and shapes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..kernels import Bound, BoundCall, autocasts, operator, ops
from ._emit_cpu import Source
from ._lower import Step
from ._trace import named

_kernels: dict[str, Compiled] = {}
_SHORT = (torch.bfloat16, torch.float16)


class Given(NamedTuple):
    """Arguments of both operators, see `compiled_forward`."""

    rows: Sequence[Tensor]
    states: Sequence[Tensor]
    params: Sequence[Tensor]
    lengths: Tensor | None
    last: bool
    interval: int


class Gradients(NamedTuple):
    """Arguments of `compiled_backward` alone: what the forward pass kept, gradients, and whether to compute more."""

    kept: Sequence[Tensor]
    y: Tensor | None
    ends: Sequence[Tensor | None]
    want_x: bool
    want_dt: bool


@dataclass
class Compiled:
    """A loaded kernel; a subclass for each kind of device.

    Attributes:
        key: Its unique name.
        step: The graph that it was compiled from.
        source: The source and its sizes.
        dtype: The dtype of all its arrays.
    """

    key: str
    step: Step
    source: Any
    dtype: torch.dtype

    def __post_init__(self) -> None:
        _kernels[self.key] = self

    def run(
        self, cell: Any, x: Tensor, state: Sequence[Tensor], dt: Tensor, plan: Any
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Runs the cell over a sequence, as `driver.run` does; under autocast and for inputs of 16 bits in float32."""
        if autocasts(x):
            with torch.autocast(x.device.type, enabled=False):
                floats = [part.to(self.dtype) for part in state]
                y, end = self.run(cell, x.to(self.dtype), floats, dt.to(self.dtype), plan)
            return y.to(x.dtype), end
        if not self.step.traced.with_project:
            x = cell.project_sequence(x, plan.valid(x))
        if x.dtype == self.dtype:
            return self._run(cell, x, state, dt, plan)
        y, end = self._run(cell, x.to(self.dtype), [part.to(self.dtype) for part in state], dt.to(self.dtype), plan)
        return y.to(x.dtype), tuple(after.to(before.dtype) for after, before in zip(end, state, strict=True))

    def _run(
        self, cell: Any, x: Tensor, state: Sequence[Tensor], dt: Tensor, plan: Any
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        tensors, derived = self._params(cell, dt)
        rows, given = self.inputs(x, dt, tensors)
        state = [part.flatten(1) for part in state]
        keep = ops.needs_backward(*rows, *state, *tensors)
        interval = math.isqrt(len(x) - 1) + 1 if keep and plan.memory == "low" else 0
        lengths = None if plan.lengths is None else plan.lengths.contiguous()
        y, *rest = compiled_forward(self.key, rows, state, [*tensors, *derived], lengths, plan.last, keep, interval)
        y = self.read_out(y, given, tensors, plan)
        return y, tuple(end.unflatten(1, shape) for end, shape in zip(rest, self.step.traced.shapes, strict=False))

    @property
    def draws(self) -> bool:
        """Whether a step draws random numbers."""
        return bool(self.step.draws)

    def inputs(self, x: Tensor, dt: Tensor, tensors: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the rows of the loop, and what the readout needs besides."""
        rows = [_last_dense(x), dt, *self._draws(x)]
        return rows, rows

    def read_out(self, y: Tensor, given: Sequence[Tensor], tensors: Sequence[Tensor], plan: Any) -> Tensor:
        """Returns y from what left the loop."""
        if self.step.traced.readout is None:
            return y
        return self.step.traced.readout(y, *(last_rows(row, plan.lengths) for row in given), *tensors)

    def kept_size(self, last: bool) -> int:
        """Returns the elements that are kept per row and step."""
        return self.source.kept

    def keeps_y(self, last: bool, interval: int) -> bool:
        """Returns whether the backward pass reads y."""
        return False

    def bind(self, cell: Any, x: Tensor, dt: Tensor, before: Sequence[Tensor], after: Sequence[Tensor]) -> Bound | None:
        """Returns one step over fixed arrays, as `Kernel.bind` of one cell; None if there is no such call."""
        return None

    def forward(self, given: Given, results: Sequence[Tensor]) -> None:
        """Fills the results of `compiled_forward`."""
        raise NotImplementedError

    def backward(self, given: Given, grads: Gradients, results: Sequence[Tensor]) -> None:
        """Fills the results of `compiled_backward`."""
        raise NotImplementedError

    def _params(self, cell: Any, dt: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the tensors of `prefix`, with gradients, and those derived from them, as the kernel takes them."""
        traced = self.step.traced
        captured = (named(cell, name, dt[0, :1]) for name in traced.captured)
        weights = traced.prefix(*(one.to(self.dtype) if one.dtype in _SHORT else one for one in captured))
        with torch.no_grad():
            derived = [self._for_kernel(tensor) for tensor in self.step.derived(*weights)]
        return [self._for_kernel(tensor) for tensor in weights], derived

    def _for_kernel(self, tensor: Tensor) -> Tensor:
        """Returns a contiguous tensor; a mask becomes zeros and ones."""
        return (tensor.to(self.dtype) if tensor.dtype == torch.bool else tensor).contiguous()

    def _draws(self, x: Tensor) -> list[Tensor]:
        """Returns the random numbers of all steps, drawn in the order in which the loop draws them."""
        draws = self.step.draws
        if not draws:
            return []
        steps, batch = x.shape[:2]
        drawn = [[draw.sample(batch, x.dtype) for draw in draws] for _ in range(steps)]
        return [torch.stack(one) for one in zip(*drawn, strict=True)]

    def reached(self, steps: int, last: bool, padded: bool, of_y: bool, of_ends: Sequence[bool]) -> set[int]:
        """Returns which of x, dt, the states, the draws and the tensors of `prefix` have a gradient, be it 0.

        The loop of torch gives none to what its outputs do not depend on, and an optimizer treats none and 0
        differently.

        Args:
            steps: Number of time steps.
            last: Whether y is only that of the last steps.
            padded: Whether sequences end at different steps, so that states are handed on.
            of_y: Whether there is a gradient of y.
            of_ends: Whether there is a gradient of each last state.
        """
        reach = self.step.traced.reach
        live, reached = {part for part, wanted in enumerate(of_ends) if wanted}, set[int]()
        for step in range(steps):
            outputs = [1 + part for part in live] + [0] * (of_y and (step == 0 or not last or padded))
            now = {index for output in outputs for index in reach[output]}
            before = {part for part in range(len(of_ends)) if 2 + part in now or (padded and part in live)}
            reached |= now
            if before == live and step > 0:
                break
            live = before
        return {index for index in reached if not 2 <= index < 2 + len(of_ends)} | {2 + part for part in live}

    def gradients_of_tensors(self, tensors: Sequence[Tensor], sums: Tensor) -> list[Tensor | None]:
        """Returns the gradients of the tensors of `prefix`, from the sums over rows and time."""
        pieces = [sums[start : start + math.prod(shape)].view(shape) for start, shape in self.source.sums]
        order = [n.meta["sum"] for n in self.step.finish.graph.nodes if n.op == "placeholder" and "sum" in n.meta]
        return list(self.step.finish(*tensors, *(pieces[i] for i in order)))


@dataclass
class Native(Compiled):
    """A kernel for the CPU.

    Attributes:
        library: The loaded code.
    """

    source: Source
    library: ctypes.CDLL

    def __post_init__(self) -> None:
        super().__post_init__()
        self.library.chronode_compiled_cell.restype = ctypes.c_void_p
        self.table = ctypes.c_void_p(self.library.chronode_compiled_cell())

    def bind(self, cell: Any, x: Tensor, dt: Tensor, before: Sequence[Tensor], after: Sequence[Tensor]) -> Bound | None:
        """Returns one step over fixed arrays, as `Kernel.bind` of one cell; None if torch does a part of the step."""
        traced = self.step.traced
        if not traced.with_project or self.step.draws or traced.readout is not None:
            return None
        tensors, derived = self._params(cell, dt.unsqueeze(0))
        y, none = x.new_empty(x.shape[0], traced.y), [None] * (1 + len(before))  # kept values, checkpoints
        rows, starts = [x.unsqueeze(0), dt.unsqueeze(0)], [part[0].flatten(1) for part in before]
        call = _Call(Given(rows, starts, [*tensors, *derived], None, True, 0), none)
        call.add(y, *(part[0].flatten(1) for part in after))
        return BoundCall("compiled_forward", self.dtype, *call.arguments(self)), y

    def forward(self, given: Given, results: Sequence[Tensor]) -> None:
        """Fills the results of `compiled_forward`."""
        ends = 1 + len(given.states)
        call = _Call(given, results[ends:])
        call.add(*results[:ends])
        call.run("forward", self)

    def backward(self, given: Given, grads: Gradients, results: Sequence[Tensor]) -> None:
        """Fills the results of `compiled_backward`."""
        dx, ddt, *rest = results
        call = _Call(given, grads.kept)
        call.add_strided(None if grads.y is None else _last_dense(grads.y), given.last)
        call.add(*(None if grad is None else grad.contiguous() for grad in grads.ends))
        call.add(dx if grads.want_x else None, ddt if grads.want_dt else None, *rest)
        call.run("backward", self)


def loaded(key: str) -> Compiled | None:
    """Returns the kernel of that name if this process has loaded it."""
    return _kernels.get(key)


def last_rows(rows: Tensor, lengths: Tensor | None) -> Tensor:
    """Returns the rows of each sequence's last step."""
    if lengths is None:
        return rows[-1]
    return rows[(lengths - 1).clamp(0, len(rows) - 1), torch.arange(rows.shape[1], device=rows.device)]


def _last_dense(x: Tensor) -> Tensor:
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


def _forward_results(
    key: str,
    rows: Sequence[Tensor],
    states: Sequence[Tensor],
    lengths: Tensor | None,
    last: bool,
    keep: bool,
    interval: int,
) -> list[Tensor]:
    """Allocates y, the last states, the kept values and the checkpoints."""
    kernel, x = _kernels[key], rows[0]
    steps, batch = x.shape[:2]
    y = x.new_empty((batch, kernel.step.traced.y) if last else (steps, batch, kernel.step.traced.y))
    kept = x.new_empty(steps * batch * kernel.kept_size(last) if keep and not interval else 0)
    marks = -(-steps // interval) if interval else 0
    return [y, *(torch.empty_like(s) for s in states), kept, *(s.new_empty(marks, *s.shape) for s in states)]


@operator()
def compiled_forward(
    key: str,
    rows: Sequence[Tensor],
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    lengths: Tensor | None,
    last: bool,
    keep: bool,
    interval: int,
) -> list[Tensor]:
    """Runs a kernel over a sequence; returns y, the last states, then what the backward pass needs.

    Args:
        key: The kernel's name.
        rows: x, dt and the random draws, `(T, B, size)` each.
        states: Before the first step.
        params: The tensors of `prefix` and the derived ones, contiguous.
        lengths: Valid steps of each sequence.
        last: Whether to return only the y of each sequence's last step.
        keep: Whether a backward pass may follow.
        interval: Steps between two checkpoints of the low-memory backward pass; 0 keeps everything.
    """
    states = [state.contiguous() for state in states]
    _check_dtypes(_kernels[key], params, lengths, *rows, *states)
    results = _forward_results(key, rows, states, lengths, last, keep, interval)
    _kernels[key].forward(Given(rows, states, params, lengths, last, interval), results)
    return results


@compiled_forward.register_fake
def _(key, rows, states, params, lengths, last, keep, interval):
    return _forward_results(key, rows, states, lengths, last, keep, interval)


@operator()
def compiled_backward(
    key: str,
    rows: Sequence[Tensor],
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    lengths: Tensor | None,
    last: bool,
    interval: int,
    kept: Sequence[Tensor],
    grad_y: Tensor | None,
    grad_ends: Sequence[Tensor | None],
    want_x: bool,
    want_dt: bool,
) -> list[Tensor]:
    """Returns the gradients of x and dt (empty if not needed) and of the states, and the sums for `finish`."""
    states = [state.contiguous() for state in states]
    _check_dtypes(_kernels[key], params, lengths, *rows, *states, *kept, grad_y, *grad_ends)
    results = _backward_results(key, rows, states, want_x, want_dt)
    given = Given(rows, states, params, lengths, last, interval)
    _kernels[key].backward(given, Gradients(kept, grad_y, grad_ends, want_x, want_dt), results)
    return results


@compiled_backward.register_fake
def _(key, rows, states, params, lengths, last, interval, kept, grad_y, grad_ends, want_x, want_dt):
    return _backward_results(key, rows, states, want_x, want_dt)


def _backward_results(
    key: str, rows: Sequence[Tensor], states: Sequence[Tensor], want_x: bool, want_dt: bool
) -> list[Tensor]:
    x, dt = rows[:2]
    dx, ddt = (tensor.new_empty(tensor.shape if wanted else (0,)) for tensor, wanted in ((x, want_x), (dt, want_dt)))
    return [dx, ddt, *(torch.empty_like(s) for s in states), x.new_empty(_kernels[key].source.sums_size)]


def _check_dtypes(kernel: Compiled, params: Sequence[Tensor], lengths: Tensor | None, *arrays: Tensor | None) -> None:
    """Refuses arrays of another dtype than the one that the kernel was written for."""
    kinds = (torch.int64 if kind == "int" else kernel.dtype for _, kind in kernel.step.params)
    pairs = [*zip(params, kinds, strict=False), (lengths, torch.int64), *((array, kernel.dtype) for array in arrays)]
    for array, dtype in pairs:
        if array is not None and array.dtype != dtype:
            raise ValueError(
                f"this compiled kernel is for {kernel.dtype}: an array must be {dtype}, not {array.dtype}."
            )


class _Call:
    """The arguments of a pass: arrays and numbers, in the order in which native/compiled.cpp takes them."""

    def __init__(self, given: Given, kept: Sequence[Tensor | None]):
        x, dt, *draws = given.rows
        self.arrays: list[Tensor | None] = []
        self.numbers = [*x.shape[:2], int(given.last), given.interval]
        self.add_strided(x, False)
        self.add_strided(dt, False)
        self.add(*draws, *given.states, *given.params, given.lengths, *kept)

    def add(self, *tensors: Tensor | None) -> None:
        """Adds contiguous arrays."""
        self.arrays.extend(tensors)

    def add_strided(self, tensor: Tensor | None, one_step: bool) -> None:
        """Adds an array and its strides over time and batch."""
        self.arrays.append(tensor)
        if tensor is None:
            self.numbers += [0, 0]
        else:
            self.numbers += [0, tensor.stride(0)] if one_step else [tensor.stride(0), tensor.stride(1)]

    def arguments(self, kernel: Native) -> tuple[Any, ...]:
        """Returns the arguments of both C functions."""
        return kernel.table, self.arrays, len(self.arrays), torch.tensor(self.numbers)

    def run(self, name: str, kernel: Native) -> None:
        """Calls the runtime."""
        ops.call(f"compiled_{name}", kernel.dtype, *self.arguments(kernel))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    key, rows, states, params, lengths, last, _, interval = inputs
    kept = [*output[1 + len(states) :], *([output[0]] if _kernels[key].keeps_y(last, interval) else [])]
    ctx.call = key, last, interval, len(rows), len(states), len(params)
    ctx.save_for_backward(*rows, *states, *params, lengths, *kept)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grads: Sequence[Tensor | None]) -> tuple[Any, ...]:
    key, last, interval, *counts = ctx.call
    saved = list(ctx.saved_tensors)
    rows, states, params = (saved[sum(counts[:i]) : sum(counts[: i + 1])] for i in range(3))
    lengths, *kept = saved[sum(counts) :]
    kernel = _kernels[key]
    of_ends = list(grads[1 : 1 + len(states)])
    given = grads[0] is not None, [grad is not None for grad in of_ends]
    reached = kernel.reached(len(rows[0]), last, lengths is not None, *given)
    # Which of x and dt need a gradient; torch reports this only for the whole list.
    want_x, want_dt = (bool(tensor.requires_grad) and index in reached for index, tensor in enumerate(rows[:2]))
    dx, ddt, *rest = compiled_backward(
        key, rows, states, params, lengths, last, interval, kept, grads[0], of_ends, want_x, want_dt
    )
    tensors = params[: len(kernel.step.traced.tensors)]
    of_tensors = kernel.gradients_of_tensors(tensors, rest[-1])
    of_params = [grad if len(rows) + len(states) + i in reached else None for i, grad in enumerate(of_tensors)]
    of_params += [None] * (len(params) - len(tensors))
    of_states = [grad if 2 + part in reached else None for part, grad in enumerate(rest[:-1])]
    of_rows = [dx if want_x else None, ddt if want_dt else None, *[None] * (len(rows) - 2)]
    return None, of_rows, of_states, of_params, None, None, None, None


compiled_forward.register_autograd(_backward, setup_context=_setup)
ops.refuse_double_backward(compiled_backward)
