"""IndRNN's and SRU's recurrences over a whole sequence, and their adjoints.

    IndRNN   h' = relu(a + w h) = y
    SRU      f, r = σ(a_f + v_f c), σ(a_r + v_r c);   c' = a_c + f (c - a_c);   y = s a_y + r (c' - s a_y)

`a (T, B, SHARES H)` is the input product of each unit; for SRU, those of f, r, c and y one after another. The
weights are `(H,)`, or v_f and v_r in one row. The adjoints read the states that the forward pass kept, `(T, B, H)`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._steps import lengths_of, sigmoid, tile


@triton.jit
def forward_kernel(
    a,
    h0,
    weights,
    scale,
    lengths,
    states,
    y,
    h_end,
    T,
    B,
    H,
    SRU: tl.constexpr,
    RAGGED: tl.constexpr,
    KEEP: tl.constexpr,
    LAST: tl.constexpr,
    STATE: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_H: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Computes the states after every step (if KEEP) and after the last; for SRU also the outputs of all steps, or
    (if LAST) of the last.
    """
    rows, columns, inside, place = tile(B, H, BLOCK_B, BLOCK_H)
    length = lengths_of(lengths, rows, B, T, RAGGED)
    unit = columns < H
    SHARES: tl.constexpr = 4 if SRU else 1
    share = rows * (SHARES * H) + columns
    h = tl.load(h0 + place, mask=inside, other=0).to(STATE)
    w = tl.load(weights + columns, mask=unit, other=0).to(STATE)
    if SRU:
        w_r = tl.load(weights + H + columns, mask=unit, other=0).to(STATE)
        s = tl.load(scale).to(STATE)
    for begin in range(0, T, CHUNK):
        shares = ()
        for k in tl.static_range(CHUNK):
            step = begin + k + 0 * rows
            for part in tl.static_range(SHARES):
                at = a + step * (B * SHARES * H) + share + part * H
                shares = shares + (tl.load(at, mask=inside & (step < T), other=0).to(STATE),)
        for k in tl.static_range(CHUNK):
            step = begin + k + 0 * rows
            valid, there = step < length, inside & (step < T)
            if SRU:
                content, around = shares[SHARES * k + 2], s * shares[SHARES * k + 3]
                r = sigmoid(shares[SHARES * k + 1] + w_r * h)
                after = content + sigmoid(shares[SHARES * k] + w * h) * (h - content)
                shown = around + r * (after - around)
                if LAST:
                    tl.store(y + place, shown, mask=there & (step == length - 1))
                else:
                    tl.store(y + step * (B * H) + place, tl.where(valid, shown, 0), mask=there)
            else:
                after = relu(shares[k] + w * h)
            h = tl.where(valid, after, h)
            if KEEP:
                tl.store(states + step * (B * H) + place, tl.where(valid, after, 0), mask=there)
    tl.store(h_end + place, h, mask=inside)


@triton.jit
def relu(x):
    """ReLU as in torch: NaN stays NaN."""
    return tl.where(x <= 0, 0.0, x)


@triton.jit
def backward_kernel(
    a,
    h0,
    weights,
    scale,
    lengths,
    states,
    grad_y,
    grad_h,
    da,
    dh0,
    sums,
    T,
    B,
    H,
    SRU: tl.constexpr,
    RAGGED: tl.constexpr,
    HAS_GRAD: tl.constexpr,
    LAST: tl.constexpr,
    STATE: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_H: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Computes the gradients of a and h0; those of the weights go to the tile's row of `sums`.

    `sums` has the shape `(tiles of B, 1 or 2, H)`.
    """
    rows, columns, inside, place = tile(B, H, BLOCK_B, BLOCK_H)
    length = lengths_of(lengths, rows, B, T, RAGGED)
    unit = columns < H
    SHARES: tl.constexpr = 4 if SRU else 1
    share = rows * (SHARES * H) + columns
    dh = tl.load(grad_h + place, mask=inside, other=0).to(STATE)
    first = tl.load(h0 + place, mask=inside, other=0).to(STATE)
    w = tl.load(weights + columns, mask=unit, other=0).to(STATE)
    sum_w = tl.zeros((BLOCK_B, BLOCK_H), STATE)
    if SRU:
        w_r = tl.load(weights + H + columns, mask=unit, other=0).to(STATE)
        s = tl.load(scale).to(STATE)
        sum_r = sum_w
    chunks = tl.cdiv(T, CHUNK)
    for n in range(0, chunks):
        begin = (chunks - 1 - n) * CHUNK
        shares, befores, afters, grads = (), (), (), ()
        for k in tl.static_range(CHUNK):
            step = begin + CHUNK - 1 - k + 0 * rows
            there = inside & (step < T)
            if SRU:
                for part in tl.static_range(SHARES):
                    at = a + step * (B * SHARES * H) + share + part * H
                    shares = shares + (tl.load(at, mask=there, other=0).to(STATE),)
            at = states + step * (B * H) + place
            afters = afters + (tl.load(at, mask=there, other=0).to(STATE),)
            before = tl.load(at - B * H, mask=there & (step > 0), other=0).to(STATE)
            befores = befores + (tl.where(step > 0, before, first),)
            if HAS_GRAD:
                if LAST:
                    of_step = tl.load(grad_y + place, mask=there & (step == length - 1), other=0)
                else:
                    of_step = tl.load(grad_y + step * (B * H) + place, mask=there & (step < length), other=0)
                grads = grads + (of_step.to(STATE),)
            else:
                grads = grads + (tl.zeros((BLOCK_B, BLOCK_H), STATE),)
        for k in tl.static_range(CHUNK):
            step = begin + CHUNK - 1 - k + 0 * rows
            valid, there = step < length, inside & (step < T)
            before, after, of_y = befores[k], afters[k], grads[k]
            to = da + step * (B * SHARES * H) + share
            if SRU:
                content, around = shares[SHARES * k + 2], s * shares[SHARES * k + 3]
                f, r = sigmoid(shares[SHARES * k] + w * before), sigmoid(shares[SHARES * k + 1] + w_r * before)
                to_r = tl.where(valid, of_y * r * (1 - r) * (after - around), 0)
                to_around = tl.where(valid, s * (of_y - of_y * r), 0)
                grad = dh + of_y * r
                to_f = tl.where(valid, grad * f * (1 - f) * (before - content), 0)
                tl.store(to, to_f, mask=there)
                tl.store(to + H, to_r, mask=there)
                tl.store(to + 2 * H, tl.where(valid, grad - grad * f, 0), mask=there)
                tl.store(to + 3 * H, to_around, mask=there)
                sum_w += to_f * before
                sum_r += to_r * before
                dh = tl.where(valid, grad * f + to_f * w + to_r * w_r, dh)
            else:
                grad = tl.where(valid & ~(after <= 0), dh + of_y, 0)  # as in torch, NaN passes the gradient on
                tl.store(to, grad, mask=there)
                sum_w += grad * before
                dh = tl.where(valid, grad * w, dh)
    tl.store(dh0 + place, dh, mask=inside)
    WEIGHTS: tl.constexpr = 2 if SRU else 1
    total = sums + tl.program_id(0).to(tl.int64) * (WEIGHTS * H) + columns
    tl.store(total, tl.sum(tl.where(inside, sum_w, 0), axis=0)[None, :], mask=unit)
    if SRU:
        tl.store(total + H, tl.sum(tl.where(inside, sum_r, 0), axis=0)[None, :], mask=unit)
