"""Loads generated kernels and launches them."""

from __future__ import annotations

import functools
import hashlib
import linecache
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from .. import triton as sizes
from .._run import Compiled, Given, Gradients, last_rows
from ._emit import Source

TYPES = {torch.float32: tl.float32, torch.float64: tl.float64}
"""Types of states."""


class Tiles(NamedTuple):
    """Division of `batch` sequences of `units` units into tiles."""

    rows: int
    columns: int
    grid: tuple[int, int]

    @property
    def options(self) -> dict[str, int]:
        """The launch options of every kernel."""
        return {"BLOCK_B": self.rows, "BLOCK_U": self.columns, "num_warps": 1}


def tiles(batch: int, units: int) -> Tiles:
    """Returns tiles with as many units of one sequence as fit, so that adjacent memory is read together."""
    columns = min(sizes.TILE, 1 << math.ceil(math.log2(units)))
    rows = sizes.TILE // columns
    return Tiles(rows, columns, (math.ceil(batch / rows), math.ceil(units / columns)))


@functools.cache
def load(text: str) -> dict[str, Any]:
    """Returns the names that a source file defines; Triton reads the source again through `linecache`."""
    name = f"<chronode kernel {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), names)
    return names


class _Kept(NamedTuple):
    """An array of states after each step, or after every so many steps."""

    array: Tensor
    step: int
    row: int


@dataclass
class OnGpu(Compiled):
    """A kernel for a GPU; what is not element-wise is left to torch, for all steps at once."""

    source: Source

    def __post_init__(self) -> None:
        super().__post_init__()
        names = load(self.source.text)
        self._forward, self._backward = names["forward"], names["backward"]

    def inputs(self, x: Tensor, dt: Tensor, tensors: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the rows of the loop, and what the readout needs besides, for all steps."""
        lead = self.step.traced.lead
        assert lead is not None
        rows, *more = lead(x.flatten(0, 1), dt.flatten(0, 1), *tensors)
        given = [one.unflatten(0, x.shape[:2]) for one in more] + [x, dt]
        return [rows.unflatten(0, x.shape[:2]).contiguous(), dt], given

    def read_out(self, y: Tensor, given: Sequence[Tensor], tensors: Sequence[Tensor], plan: Any) -> Tensor:
        """Returns y from what left the loop."""
        readout = self.step.traced.readout
        if readout is None:
            return y
        if plan.last:
            return readout(y, *(last_rows(one, plan.lengths) for one in given), *tensors)
        flat = readout(y.flatten(0, 1), *(one.flatten(0, 1) for one in given), *tensors)
        y = flat.unflatten(0, y.shape[:2])
        valid = plan.valid(y)
        return y if valid is None else torch.where(valid, y, torch.zeros_like(y))

    def kept_size(self, last: bool) -> int:
        """Returns the elements that are kept per row and step."""
        return self.source.units * (len(self.source.states) - len(self._in_y(last)))

    def keeps_y(self, last: bool, interval: int) -> bool:
        """Returns whether the backward pass reads states from y."""
        return not interval and bool(self._in_y(last))

    def _in_y(self, last: bool) -> dict[int, int]:
        return {} if last else self.source.in_y

    def _kept(self, x: Tensor, last: bool, kept: Tensor, y: Tensor | None) -> dict[int, _Kept]:
        """Returns where the states after each step are."""
        batch, units = x.shape[1], self.source.units
        alone = [part for part in self.source.states if part not in self._in_y(last)]
        homes = {}
        for part, array in zip(alone, kept.view(len(alone), -1), strict=True) if alone else ():
            homes[part] = _Kept(array, batch * units, units)
        if y is not None:
            for part, offset in self._in_y(last).items():
                homes[part] = _Kept(y.view(-1)[offset:], y.stride(0), y.stride(1))
        return homes

    def forward(self, given: Given, results: Sequence[Tensor]) -> None:
        """Fills the results of `compiled_forward`."""
        x, ends = given.rows[0], 1 + len(given.states)
        kept, *marks = results[ends:]
        if given.interval:
            homes = {i: _Kept(mark, mark[0].numel(), mark.shape[-1]) for i, mark in enumerate(marks)}
        else:
            homes = self._kept(x, given.last, kept, None) if kept.numel() else {}
        if given.last:
            results[0].zero_()  # sequences without a step have no last one
        call = _Call(self, given, 0, len(x))
        call.forward(given.states, results[0], results[1:ends], homes, given.last, max(1, given.interval))

    def backward(self, given: Given, grads: Gradients, results: Sequence[Tensor]) -> None:
        """Fills the results of `compiled_backward`, for spans of steps if only some states were kept."""
        x, last, size = given.rows[0], given.last, given.interval or max(1, len(given.rows[0]))
        dx, ddt, *outs, sums = results
        for zeros in (ddt, sums, *(() if self.source.fills_dx else [dx])):
            zeros.zero_()
        pairs = zip(given.states, grads.ends, strict=True)
        of_ends = [torch.zeros_like(state) if grad is None else grad.contiguous() for state, grad in pairs]
        for begin in reversed(range(0, max(1, len(x)), size)):
            span = slice(begin, begin + size)
            call = _Call(self, given, begin, begin + size)
            start = [mark[begin // size - 1] for mark in grads.kept[1:]] if begin else given.states
            if given.interval:
                homes = self._repeated(call, start)
            else:
                homes = self._kept(x, last, grads.kept[0], grads.kept[-1] if self.keeps_y(last, 0) else None)
            of_y = grads.y if grads.y is None or last else grads.y[span]
            of_rows = dx[span] if grads.want_x else None, ddt[span] if grads.want_dt else None
            call.backward(start, homes, (of_y, *of_ends), last, (*of_rows, *outs), sums)
            of_ends = outs

    def _repeated(self, call: _Call, start: Sequence[Tensor]) -> dict[int, _Kept]:
        """Returns the states after each step of a span, computed again."""
        x = call.x
        homes = self._kept(x, True, x.new_empty(self.kept_size(True) * x.shape[0] * x.shape[1]), None)
        unread = x.new_empty(x.shape[1], self.step.traced.y)
        call.forward(start, unread, [torch.empty_like(part) for part in start], homes, True, 1)
        return homes


class _Call:
    """Launches over a span of steps."""

    def __init__(self, kernel: OnGpu, given: Given, begin: int, end: int):
        self.kernel, self.source = kernel, kernel.source
        self.x, self.dt = (row[begin:end] for row in given.rows)
        self.lengths = self.x if given.lengths is None else given.lengths  # a pointer that is not read
        self.params = [given.params[index] for index in self.source.params]
        steps, batch = self.x.shape[:2]
        self.tiles = tiles(batch, self.source.units)
        self.sizes = begin, len(given.rows[0]), steps, batch
        self.options: dict[str, Any] = {"RAGGED": given.lengths is not None, "STATE": TYPES[kernel.dtype]}
        self.options |= self.tiles.options

    def _inputs(self, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return self.x, self.dt, self.lengths, *states, *self.params

    def _arrays(self, homes: dict[int, _Kept]) -> tuple[list[Tensor], list[int]]:
        """Returns the arrays of kept states, and their strides, in the order of the kernel's arguments."""
        every = [homes.get(i, _Kept(self.x, 0, 0)) for i in range(len(self.kernel.step.traced.states))]
        return [one.array for one in every], [stride for one in every for stride in (one.step, one.row)]

    def _launch(self, function: Any, chunk: int, *arguments: Any, **options: Any) -> None:
        if self.sizes[-1]:
            function[self.tiles.grid](*arguments, *self.sizes, CHUNK=chunk, **options, **self.options)

    def forward(
        self,
        states: Sequence[Tensor],
        y: Tensor,
        ends: Sequence[Tensor],
        homes: dict[int, _Kept],
        last: bool,
        every: int,
    ) -> None:
        """Fills y, the last states and the kept ones."""
        arrays, strides = self._arrays(homes)
        gaps = self.dt.stride(0), self.dt.stride(1)
        keep = sum(1 << part for part in homes)
        arguments = (*self._inputs(states), y, *ends, *arrays, *gaps, *strides, every)
        self._launch(self.kernel._forward, self.source.chunks[0], *arguments, LAST=last, KEEP=keep)

    def backward(
        self,
        states: Sequence[Tensor],
        homes: dict[int, _Kept],
        grads: Sequence[Tensor | None],
        last: bool,
        results: Sequence[Tensor | None],
        sums: Tensor,
    ) -> None:
        """Fills the gradients of x, dt (None: not needed) and the states, and adds to the sums."""
        grad_y, *of_ends = grads
        dx, ddt, *outs = results
        x, batch, source = self.x, self.sizes[-1], self.source
        of_y = x.new_zeros(batch, self.kernel.step.traced.y) if grad_y is None else grad_y.contiguous()
        across, along = self.tiles.grid
        partial = x.new_empty(len(source.row_sums), *x.shape[:2], along)
        totals, scalars = x.new_zeros(across, sums.numel()), x.new_empty(len(source.scalars), across * along)
        arrays, strides = self._arrays(homes)
        gaps = self.dt.stride(0), self.dt.stride(1), *strides, of_y.stride(0) if of_y.dim() == 3 else 0, along
        of_rows = (x if one is None else one for one in (dx, ddt))
        arguments = (*self._inputs(states), *arrays, of_y, *of_ends, *of_rows, *outs, partial, totals, scalars, *gaps)
        options = {"LAST": int(last and grad_y is not None), "WANT_X": dx is not None, "WANT_DT": ddt is not None}
        self._launch(self.kernel._backward, source.chunks[1], *arguments, **options)
        sums += totals.sum(0)
        for offset, total in zip(source.scalars, scalars.sum(1), strict=True):
            sums[offset] += total
        for element, total in zip(source.row_sums, partial.sum(-1), strict=True):
            if (to := ddt if element < 0 else dx) is not None:
                to[..., max(0, element)] = total
