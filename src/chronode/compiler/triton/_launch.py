"""Loads generated kernels and launches them."""

from __future__ import annotations

import functools
import hashlib
import linecache
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from .. import triton as sizes
from .._run import Compiled, last_rows
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
        (steps, batch), units = x.shape[:2], self.source.units
        alone = [part for part in self.source.states if part not in self._in_y(last)]
        homes = {}
        for part, array in zip(alone, kept.view(len(alone), -1), strict=True) if alone else ():
            homes[part] = _Kept(array, batch * units, units)
        if y is not None:
            for part, offset in self._in_y(last).items():
                homes[part] = _Kept(y.view(-1)[offset:], y.stride(0), y.stride(1))
        return homes

    def forward(
        self,
        rows: Sequence[Tensor],
        states: Sequence[Tensor],
        params: Sequence[Tensor],
        lengths: Tensor | None,
        last: bool,
        interval: int,
        results: Sequence[Tensor],
    ) -> None:
        """Fills the results of `compiled_forward`."""
        y, rest = results[0], results[1 : 1 + len(states)]
        kept, *marks = results[1 + len(states) :]
        if interval:
            homes = {i: _Kept(mark, mark[0].numel(), mark.shape[-1]) for i, mark in enumerate(marks)}
        else:
            homes = self._kept(rows[0], last, kept, None) if kept.numel() else {}
        call = _Call(self, rows, params, lengths, 0, len(rows[0]))
        call.forward(states, y, last, rest, homes, max(1, interval))

    def backward(
        self,
        rows: Sequence[Tensor],
        states: Sequence[Tensor],
        params: Sequence[Tensor],
        lengths: Tensor | None,
        last: bool,
        interval: int,
        kept: Sequence[Tensor],
        grad_y: Tensor | None,
        grad_ends: Sequence[Tensor | None],
        wanted: tuple[bool, bool],
        results: Sequence[Tensor],
    ) -> None:
        """Fills the results of `compiled_backward`."""
        x, dt = rows
        dx, ddt, *outs, sums = results
        if not self.source.fills_dx:
            dx.zero_()
        ddt.zero_()
        sums.zero_()
        grads = [torch.zeros_like(s) if g is None else g.contiguous() for s, g in zip(states, grad_ends, strict=True)]
        size = interval or max(1, len(x))
        for begin in reversed(range(0, max(1, len(x)), size)):
            part = slice(begin, begin + size)
            call = _Call(self, [x[part], dt[part]], params, lengths, begin, len(x))
            start = [mark[begin // size - 1] for mark in kept[1:]] if begin else states
            if interval:
                scratch = x.new_empty(len(self.source.states) * x[part][..., 0].numel() * self.source.units)
                homes = self._kept(x[part], True, scratch, None)
                unread = x.new_empty(x.shape[1], self.step.traced.y)
                call.forward(start, unread, True, [torch.empty_like(s) for s in states], homes, 1)
            else:
                homes = self._kept(x, last, kept[0], kept[-1] if self.keeps_y(last, 0) else None)
            of_y = grad_y if grad_y is None or last else grad_y[part]
            call.backward(start, homes, of_y, last, grads, (dx[part], ddt[part], outs), wanted, sums)
            grads = outs


class _Call:
    """Launches over a span of steps."""

    def __init__(
        self,
        kernel: OnGpu,
        rows: Sequence[Tensor],
        params: Sequence[Tensor],
        lengths: Tensor | None,
        first: int,
        total: int,
    ):
        self.kernel, self.source = kernel, kernel.source
        (self.x, self.dt), self.lengths = rows, lengths
        self.params = [params[index] for index in self.source.params]
        steps, batch = self.x.shape[:2]
        self.tiles = tiles(batch, self.source.units)
        self.sizes = first, total, steps, batch
        self.options: dict[str, Any] = {"RAGGED": lengths is not None, "STATE": TYPES[kernel.dtype]}
        self.options |= self.tiles.options

    def _inputs(self, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        lengths = self.x if self.lengths is None else self.lengths  # a pointer that is not read
        return self.x, self.dt, lengths, *states, *self.params

    def _arrays(self, homes: dict[int, _Kept]) -> tuple[list[Tensor], list[int]]:
        """Returns the arrays of kept states, and their strides, in the order of the kernel's arguments."""
        every = [homes.get(i, _Kept(self.x, 0, 0)) for i in range(len(self.kernel.step.traced.states))]
        return [one.array for one in every], [stride for one in every for stride in (one.step, one.row)]

    def _launch(self, function: Callable[..., Any], chunk: int, *arguments: Any, **options: Any) -> None:
        if self.sizes[-1]:
            function[self.tiles.grid](*arguments, *self.sizes, CHUNK=chunk, **options, **self.options)

    def forward(
        self,
        states: Sequence[Tensor],
        y: Tensor,
        last: bool,
        ends: Sequence[Tensor],
        homes: dict[int, _Kept],
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
        grad_y: Tensor | None,
        last: bool,
        grads: Sequence[Tensor],
        results: tuple[Tensor, Tensor, Sequence[Tensor]],
        wanted: tuple[bool, bool],
        sums: Tensor,
    ) -> None:
        """Fills the gradients of x, dt and the states, and adds to the sums."""
        dx, ddt, outs = results
        x, batch, source = self.x, self.sizes[-1], self.source
        of_y = x.new_zeros(batch, self.kernel.step.traced.y) if grad_y is None else grad_y.contiguous()
        across, along = self.tiles.grid
        partial = x.new_empty(len(source.row_sums), *x.shape[:2], along)
        totals, scalars = x.new_zeros(across, sums.numel()), x.new_empty(len(source.scalars), across * along)
        arrays, strides = self._arrays(homes)
        gaps = self.dt.stride(0), self.dt.stride(1), *strides, of_y.stride(0) if of_y.dim() == 3 else 0, along
        arguments = (*self._inputs(states), *arrays, of_y, *grads, dx, ddt, *outs, partial, totals, scalars, *gaps)
        options = {"LAST": int(last and grad_y is not None), "WANT_X": wanted[0], "WANT_DT": wanted[1]}
        self._launch(self.kernel._backward, source.chunks[1], *arguments, **options)
        sums += totals.sum(0)
        for offset, total in zip(source.scalars, scalars.sum(1), strict=True):
            sums[offset] += total
        for element, total in zip(source.row_sums, partial.sum(-1), strict=True):
            if wanted[element < 0]:
                (ddt[..., 0] if element < 0 else dx[..., element]).copy_(total)
