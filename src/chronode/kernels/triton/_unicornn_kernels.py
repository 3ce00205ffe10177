"""UnICORNN's recurrence for one layer over a segment of time, and its adjoint.

    s  = e dt
    z' = z - s [tanh(w y + u) + α y],   y' = y + s z'

The inverse of the recurrence is not used: whether a step can be inverted without losing digits depends on dt, and the
host would have to wait for the device to find out. Instead the states at the beginning of every chunk are kept, and the
adjoint repeats a chunk forward from there, in registers, with the forces tanh(w y + u) of the forward pass.

A segment has `steps` steps and begins at step `first` of the sequence. Arrays are `(steps, B, H)`; those with strides
may have another layout. The kept states are y and, `part` elements after it, z; the next kept states are `slot`
elements further on.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._steps import lengths_of, tanh, tile


@triton.jit
def advance_kernel(
    u,
    dt,
    dt_step,
    dt_sample,
    lengths,
    y0,
    z0,
    w,
    e,
    alpha,
    mask,
    out,
    out_step,
    out_sample,
    force,
    force_step,
    force_sample,
    kept,
    slot,
    part,
    keep_steps,
    yn,
    zn,
    first,
    steps,
    B,
    H,
    RAGGED: tl.constexpr,
    MASKED: tl.constexpr,
    KEEP_FORCE: tl.constexpr,
    WRITE: tl.constexpr,
    STATE: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_H: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Runs a layer forward: outputs, masked and 0 at padding (if WRITE), forces (if KEEP_FORCE), final states.

    Keeps the states before every `keep_steps`-th step of the segment, a multiple of CHUNK; 0 keeps none.
    """
    rows, columns, inside, place = tile(B, H, BLOCK_B, BLOCK_H)
    length = lengths_of(lengths, rows, B, first + steps, RAGGED) - first
    unit = columns < H
    w_h, e_h = tl.load(w + columns, mask=unit, other=0).to(STATE), tl.load(e + columns, mask=unit, other=0).to(STATE)
    stiffness = tl.load(alpha).to(STATE)
    y, z = tl.load(y0 + place, mask=inside, other=0).to(STATE), tl.load(z0 + place, mask=inside, other=0).to(STATE)
    shown = tl.load(mask + place, mask=inside, other=0).to(STATE) if MASKED else 1.0
    for begin in range(0, steps, CHUNK):
        if keep_steps > 0:  # noqa: SIM102, Triton would divide by 0 on the other side of `and`
            if begin % keep_steps == 0:
                at = kept + (begin // keep_steps + 0 * rows) * slot + place
                tl.store(at, y, mask=inside)
                tl.store(at + part, z, mask=inside)
        us, gaps = (), ()
        for k in tl.static_range(CHUNK):
            step = begin + k + 0 * rows
            there = inside & (step < steps)
            us = us + (tl.load(u + step * (B * H) + place, mask=there, other=0).to(STATE),)
            gaps = gaps + (
                tl.load(dt + step * dt_step + rows * dt_sample, mask=(rows < B) & (step < steps), other=0).to(STATE),
            )
        for k in tl.static_range(CHUNK):
            step = begin + k + 0 * rows
            there, valid = inside & (step < steps), step < length
            size = e_h * gaps[k]
            pull = tanh(w_h * y + us[k])
            z = tl.where(valid, z - size * (stiffness * y + pull), z)
            y = tl.where(valid, y + size * z, y)
            if KEEP_FORCE:
                tl.store(force + step * force_step + rows * force_sample + columns, pull, mask=there)
            if WRITE:
                tl.store(out + step * out_step + rows * out_sample + columns, tl.where(valid, y * shown, 0), mask=there)
    tl.store(yn + place, y, mask=inside)
    tl.store(zn + place, z, mask=inside)


@triton.jit
def adjoint_kernel(
    force,
    force_step,
    force_sample,
    kept,
    slot,
    part,
    dt,
    dt_step,
    dt_sample,
    lengths,
    w,
    e,
    alpha,
    mask,
    grad_out,
    grad_y,
    grad_z,
    du,
    out,
    sums,
    grad_dt,
    first,
    steps,
    B,
    H,
    RAGGED: tl.constexpr,
    MASKED: tl.constexpr,
    HAS_GRAD: tl.constexpr,
    TIME: tl.constexpr,
    STATE: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_H: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Runs the adjoint of a layer: `grad_y` and `grad_z` go from the end of the segment to its beginning.

    Writes du, the outputs again, and (if TIME) this tile's share of the gradient of dt, `(tiles of H, steps, B)`.
    Adds the gradients of b, w and e to the tile's own row of `sums`, `(tiles of B, 3, H)`.
    """
    rows, columns, inside, place = tile(B, H, BLOCK_B, BLOCK_H)
    length = lengths_of(lengths, rows, B, first + steps, RAGGED) - first
    unit = columns < H
    w_h, e_h = tl.load(w + columns, mask=unit, other=0).to(STATE), tl.load(e + columns, mask=unit, other=0).to(STATE)
    stiffness = tl.load(alpha).to(STATE)
    dy = tl.load(grad_y + place, mask=inside, other=0).to(STATE)
    dz = tl.load(grad_z + place, mask=inside, other=0).to(STATE)
    shown = tl.load(mask + place, mask=inside, other=0).to(STATE) if MASKED else 1.0
    sum_b = tl.zeros((BLOCK_B, BLOCK_H), STATE)
    sum_w, sum_e = sum_b, sum_b
    shares = grad_dt + tl.program_id(1).to(tl.int64) * steps * B + rows
    chunks = tl.cdiv(steps, CHUNK)
    for n in range(0, chunks):
        chunk = chunks - 1 - n
        at = kept + (chunk + 0 * rows) * slot + place
        y, z = tl.load(at, mask=inside, other=0), tl.load(at + part, mask=inside, other=0)
        pulls, grads = (), ()
        for k in tl.static_range(CHUNK):
            step = chunk * CHUNK + k + 0 * rows
            there = inside & (step < steps)
            pulls = pulls + (
                tl.load(force + step * force_step + rows * force_sample + columns, mask=there, other=0).to(STATE),
            )
            if HAS_GRAD:
                grads = grads + (tl.load(grad_out + step * (B * H) + place, mask=there, other=0).to(STATE),)
            else:
                grads = grads + (0.0,)
        # Forward: recompute the states of the chunk exactly as in the forward pass.
        befores, afters, gaps = (), (), ()
        for k in tl.static_range(CHUNK):
            step = chunk * CHUNK + k + 0 * rows
            valid = step < length
            gaps = gaps + (tl.load(dt + step * dt_step + rows * dt_sample, mask=(rows < B) & valid, other=0).to(STATE),)
            size = e_h * gaps[k]
            befores = befores + (y,)
            z = tl.where(valid, z - size * (stiffness * y + pulls[k]), z)
            y = tl.where(valid, y + size * z, y)
            afters = afters + (z,)
            shown_y = tl.where(valid, y * shown, 0)
            tl.store(out + step * (B * H) + place, shown_y, mask=inside & (step < steps))
        # Backward through it.
        for k in tl.static_range(CHUNK):
            step = chunk * CHUNK + CHUNK - 1 - k + 0 * rows
            there, valid = inside & (step < steps), step < length
            gap, pull = gaps[CHUNK - 1 - k], pulls[CHUNK - 1 - k]
            before, after = befores[CHUNK - 1 - k], afters[CHUNK - 1 - k]
            size = e_h * gap
            to_y = dy + grads[CHUNK - 1 - k] * shown
            to_z = dz + size * to_y
            to_size = to_y * after - to_z * (stiffness * before + pull)
            to_pull = -to_z * size
            to_u = tl.where(valid, to_pull * (1 - pull * pull), 0)
            dy = tl.where(valid, to_y + w_h * to_u + stiffness * to_pull, dy)
            dz = tl.where(valid, to_z, dz)
            to_size = tl.where(valid & inside, to_size, 0)
            sum_b += to_u
            sum_w += to_u * before
            sum_e += to_size * gap
            tl.store(du + step * (B * H) + place, to_u, mask=there)
            if TIME:
                share = tl.sum(to_size * e_h, axis=1)[:, None]
                tl.store(shares + step * B, share, mask=(rows < B) & (step < steps))
    tl.store(grad_y + place, dy, mask=inside)
    tl.store(grad_z + place, dz, mask=inside)
    total = sums + tl.program_id(0).to(tl.int64) * (3 * H) + columns
    for k in tl.static_range(3):
        own = sum_b if k == 0 else (sum_w if k == 1 else sum_e)
        own = tl.sum(tl.where(inside, own, 0), axis=0)[None, :]
        tl.store(total + k * H, tl.load(total + k * H, mask=unit, other=0) + own, mask=unit)
