"""UnICORNN on a GPU: a whole stack of layers; _unicornn_kernels.py has the recurrence.

Time is divided into segments. In each segment the layers run one after another: a layer's input product is one
matrix product over the segment, and its recurrence is one kernel. The backward pass reads
- with `keep`, the forces tanh(w y + u) of every step and the states at the beginning of every chunk;
- otherwise, the states at the beginning of every segment, from which it repeats the segment forward.
Sums over the batch are computed per tile and then over the tiles in a fixed order, so every call gives the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import ops
from .. import triton as sizes
from ._steps import TYPES, given, tiles
from ._unicornn_kernels import adjoint_kernel, advance_kernel


class Stack(NamedTuple):
    """The parameters of the layers and the inputs of the batch, as used by both passes."""

    dt: Tensor
    weights: list[tuple[Tensor, Tensor | None]]
    b: Tensor
    w: Tensor
    e: Tensor
    alpha: Tensor
    masks: Tensor | None
    lengths: Tensor | None
    residual: int

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.weights)

    def skips(self, layer: int) -> bool:
        """Returns whether the layer has a residual connection from a lower level."""
        return self.residual > 0 and layer >= self.residual

    def project(self, levels: list[Tensor], layer: int) -> Tensor:
        """Returns u of a layer from the levels below, `(steps, B, H)`."""
        direct, skip = self.weights[layer]
        u = torch.addmm(self.b[layer], levels[layer].flatten(0, 1), direct)
        if skip is not None:
            u.addmm_(levels[layer - self.residual].flatten(0, 1), skip)
        return u.view(*levels[layer].shape[:2], -1)

    def unit_arguments(self, layer: int) -> tuple[Tensor, ...]:
        """Returns w, e, alpha and the dropout mask of a layer."""
        mask = self.w if self.masks is None else self.masks[layer]
        return self.w[layer], self.e[layer], self.alpha[layer], mask

    def gaps(self, first: int, steps: int) -> tuple[Any, ...]:
        """Returns dt of a segment, with strides, and the lengths."""
        dt = self.dt[first : first + steps]
        return dt, dt.stride(0), dt.stride(1), given(self.lengths, dt)

    def options(self, like: Tensor) -> dict[str, Any]:
        """Returns the constants that both kernels are specialized for."""
        settings = {"RAGGED": self.lengths is not None, "MASKED": self.masks is not None, "STATE": TYPES[like.dtype]}
        return settings | tiles(*like.shape[-2:]).options


def _stack(x: Tensor, dt: Tensor, vt: Tensor, b: Tensor, *rest: Any) -> Stack:
    w, e, alpha, masks, lengths, residual = rest
    layers, hidden = b.shape
    features = [x.shape[-1], *[hidden] * (layers - 1)]
    weights: list[tuple[Tensor, Tensor | None]] = []
    at = 0
    for layer in range(layers):
        skipped = features[layer - residual] if residual > 0 and layer >= residual else 0
        end = at + (features[layer] + skipped) * hidden
        direct, skip = vt[at:end].view(-1, hidden).split([features[layer], skipped])
        weights.append((direct, skip if skipped else None))
        at = end
    lengths = None if lengths is None else lengths.contiguous()
    return Stack(dt.squeeze(-1), weights, b, w, e, alpha, masks, lengths, residual)


class Kept(NamedTuple):
    """Location of the states of one layer before every `steps`-th step of a segment."""

    states: Tensor
    slot: int
    part: int
    steps: int


def _advance(
    stack: Stack,
    layer: int,
    u: Tensor,
    first: int,
    before: tuple[Tensor, Tensor],
    after: tuple[Tensor, Tensor],
    out: Tensor | None,
    force: Tensor | None,
    kept: Kept,
) -> None:
    """Runs a layer over a segment, from the states `before` it (in the precision of states) to those `after` it."""
    steps, batch, hidden = u.shape
    outside, kept_force = given(out, u), given(force, u)
    advance_kernel[tiles(batch, hidden).grid](
        *(u, *stack.gaps(first, steps), *before, *stack.unit_arguments(layer)),
        *(outside, *outside.stride()[:2], kept_force, *kept_force.stride()[:2]),
        *(*kept, *after, first, steps, batch, hidden),
        **{"KEEP_FORCE": force is not None, "WRITE": out is not None, **stack.options(before[0])},
    )


def forward(
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
    keep: bool,
    anchor_steps: int,
    results: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
) -> None:
    """Fills the results of `_unicornn.unicornn_forward`."""
    ys, yn, zn, kept, anchors = results
    stack = _stack(x, dt, vt, b, w, e, alpha, masks, lengths, residual)
    layers, batch = y0.shape[:2]
    state_type = ops.state_dtype(x.dtype)
    y, z = y0.to(state_type, copy=True), z0.to(state_type, copy=True)
    forces = kept.view(layers, x.shape[0], batch, -1) if keep else None
    for first in range(0, x.shape[0], sizes.SEGMENT):
        segment = slice(first, first + sizes.SEGMENT)
        levels = [x[segment]]
        for layer in range(layers):
            u = stack.project(levels, layer)
            top = layer == layers - 1
            out = (ys[segment] if ys.numel() else None) if top else torch.empty_like(u)
            states = anchors[first // anchor_steps, 0, layer] if anchor_steps else y
            at = Kept(states, 2 * y.numel(), y.numel(), anchor_steps)
            now = (y[layer], z[layer])
            _advance(stack, layer, u, first, now, now, out, None if forces is None else forces[layer, segment], at)
            if out is not None:
                levels.append(out)
    yn.copy_(y)
    zn.copy_(z)
    if anchor_steps:
        anchors[-1, 0], anchors[-1, 1] = y, z


class Segment(NamedTuple):
    """Inputs of the adjoint of a segment: the forces of every layer, and the states at the beginning of each chunk."""

    forces: list[Tensor]
    states: list[Kept]


def _kept_segment(stack: Stack, first: int, steps: int, kept: Tensor, anchors: Tensor) -> Segment:
    _, _, layers, batch, hidden = anchors.shape
    forces = kept.view(layers, -1, batch, kept.shape[-1])[:, first : first + steps]
    size = layers * batch * hidden
    states = [Kept(anchors[first // sizes.CHUNK, 0, layer], 2 * size, size, sizes.CHUNK) for layer in range(layers)]
    return Segment(list(forces.unbind(0)), states)


def _repeated_segment(stack: Stack, x: Tensor, first: int, anchors: Tensor) -> Segment:
    """Runs the segment forward again."""
    _, _, layers, batch, hidden = anchors.shape
    steps = len(x)
    before = anchors[first // sizes.SEGMENT]
    after = torch.empty_like(before)
    levels, segment = [x], Segment([], [])
    for layer in range(layers):
        u = stack.project(levels, layer)
        out = torch.empty_like(u)
        force = anchors.new_empty(steps, batch, hidden)
        states = anchors.new_empty(-(-steps // sizes.CHUNK), 2, batch, hidden)
        at = Kept(states, 2 * batch * hidden, batch * hidden, sizes.CHUNK)
        ends = (before[0, layer], before[1, layer]), (after[0, layer], after[1, layer])
        _advance(stack, layer, u, first, *ends, out, force, at)
        levels.append(out)
        segment.forces.append(force)
        segment.states.append(at)
    return segment


class _Backward:
    """The backward pass of a call, segment by segment from the end."""

    def __init__(self, stack: Stack, x: Tensor, dy: Tensor, dz: Tensor, wants_x: bool, wants_dt: bool):
        self.stack, self.x, self.dy, self.dz = stack, x, dy, dz
        self.wants_x, self.wants_dt = wants_x, wants_dt
        self.tiles = tiles(*dy.shape[1:])
        self.sums = dy.new_zeros(stack.layers, self.tiles.grid[0], 3, dy.shape[-1])
        self.weights = [[None if part is None else dy.new_zeros(part.shape) for part in both] for both in stack.weights]

    def run(self, first: int, segment: Segment, grad_top: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Returns the gradients of x and dt of a segment, if they are needed."""
        stack, x = self.stack, self.x[first : first + len(segment.forces[0])]
        steps, batch = x.shape[:2]
        to_levels: list[Tensor | None] = [None] * stack.layers + [grad_top]
        levels: list[Any] = [x, *[None] * stack.layers]
        to_us: list[Any] = [None] * stack.layers
        time = self.dy.new_zeros(self.tiles.grid[1], steps, batch) if self.wants_dt else None
        to_dt = None if time is None else self.dy.new_zeros(steps, batch)
        for layer in reversed(range(stack.layers)):
            to_us[layer], levels[layer + 1] = self._adjoint(layer, first, segment, to_levels[layer + 1], x, time)
            if time is not None and to_dt is not None:
                to_dt += time.sum(0)
            self._send_down(layer, to_us[layer], to_levels)
        for layer, to_u in enumerate(to_us):
            for part, level in zip(self.weights[layer], (levels[layer], levels[layer - stack.residual]), strict=True):
                if part is not None:
                    part += torch.mm(level.flatten(0, 1).t(), to_u.flatten(0, 1))
        return to_levels[0], to_dt

    def _adjoint(
        self, layer: int, first: int, segment: Segment, grad: Tensor | None, x: Tensor, time: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns the gradient of a layer's u, and its outputs."""
        stack, force, kept = self.stack, segment.forces[layer], segment.states[layer]
        steps, batch, hidden = len(force), *self.dy.shape[1:]
        to_u, out = (x.new_empty(steps, batch, hidden) for _ in range(2))
        adjoint_kernel[self.tiles.grid](
            *(force, *force.stride()[:2], *kept[:3], *stack.gaps(first, steps), *stack.unit_arguments(layer)),
            *(given(grad, to_u), self.dy[layer], self.dz[layer], to_u, out, self.sums[layer], given(time, to_u)),
            *(first, steps, batch, hidden),
            **{"HAS_GRAD": grad is not None, "TIME": time is not None, **stack.options(self.dy)},
        )
        return to_u, out

    def _send_down(self, layer: int, to_u: Tensor, to_levels: list[Tensor | None]) -> None:
        """Adds the gradient of a layer's u to the gradients of the levels that it reads."""
        for part, level in zip(self.stack.weights[layer], (layer, layer - self.stack.residual), strict=True):
            if part is None or (level == 0 and not self.wants_x):
                continue
            share = torch.mm(to_u.flatten(0, 1), part.t()).view(*to_u.shape[:2], -1)
            before = to_levels[level]
            to_levels[level] = share if before is None else before + share


def backward(
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
    results: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
) -> None:
    """Fills the results of `_unicornn.unicornn_backward`."""
    dx, d_dt, dy0, dz0, parameters = results
    stack = _stack(x, dt, vt, b, w, e, alpha, masks, lengths, residual)
    dy, dz = (anchors.new_zeros(dy0.shape) if grad is None else grad.to(anchors.dtype, copy=True).contiguous()
              for grad in (grad_yn, grad_zn))  # fmt: skip
    back = _Backward(stack, x, dy, dz, dx.numel() > 0, d_dt.numel() > 0)
    for first in reversed(range(0, len(x), sizes.SEGMENT)):
        part = x[first : first + sizes.SEGMENT]
        if kept.numel():
            segment = _kept_segment(stack, first, len(part), kept, anchors)
        else:
            segment = _repeated_segment(stack, part, first, anchors)
        top = None if grad_ys is None else grad_ys[first : first + sizes.SEGMENT].contiguous()
        to_x, to_dt = back.run(first, segment, top)
        if to_x is not None:
            dx[first : first + sizes.SEGMENT] = to_x
        if to_dt is not None:
            d_dt[first : first + sizes.SEGMENT] = to_dt.unsqueeze(-1)
    dy0.copy_(dy)
    dz0.copy_(dz)
    to_weights = [part.flatten() for both in back.weights for part in both if part is not None]
    to_units = back.sums.sum(1).transpose(0, 1).flatten()  # b of all layers, then w, then e
    parameters.copy_(torch.cat([*to_weights, to_units]))
