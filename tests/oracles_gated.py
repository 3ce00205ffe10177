"""The equations of gated and other discrete comparison models in float64 NumPy, from their papers (see `oracles`).

A step is `(x, state, dt, p) -> (y, state)` with p a dict of named parameters; W, U, V are (out, in) matrices.
"""

from __future__ import annotations

import numpy as np
from oracles import affine, sigmoid


def split(values, names):
    """A stack of equal blocks of rows, by name."""
    return dict(zip(names, np.split(values, len(names)), strict=True))


def softplus(a):
    return np.logaddexp(0.0, a)


def relu(a):
    return np.maximum(a, 0.0)


def normal_kl(mean, variance):
    """KL(N(mean, variance) || N(0, 1)), summed over the last axis."""
    return 0.5 * (mean**2 + variance - np.log(variance) - 1).sum(-1, keepdims=True)


# ---- gated; a gate is (W, U, b)
def rnn(x, state, dt, p, act=np.tanh):
    h = act(affine(x, state[0], p["h"]))
    return h, (h,)


def lstm(x, state, dt, p):
    h, c = state
    i, f, o = (sigmoid(affine(x, h, p[gate])) for gate in "ifo")
    c = f * c + i * np.tanh(affine(x, h, p["g"]))
    h = o * np.tanh(c)
    return h, (h, c)


def gru(x, state, dt, p, act=np.tanh):
    """The reset gate acts on the product, with a bias d of its own inside, as in torch."""
    (h,) = state
    r, z = sigmoid(affine(x, h, p["r"])), sigmoid(affine(x, h, p["z"]))
    W, U, b, d = p["n"]
    n = act(x @ W.T + b + r * (h @ U.T + d))
    h = (1 - z) * n + z * h
    return h, (h,)


def ugrnn(x, state, dt, p):
    (h,) = state
    c, g = np.tanh(affine(x, h, p["c"])), sigmoid(affine(x, h, p["g"]))
    h = g * h + (1 - g) * c
    return h, (h,)


# ---- decay
def rnn_decay(x, state, dt, p):
    faded = state[0] * np.exp(-softplus(p["tau"]) * dt)
    return rnn(x, (faded,), dt, p)


def rnn_decay_mmrnn(x, state, dt, p):
    """The mmRNN paper's program: a dense layer on top of the RNN's, then time times τ is subtracted."""
    W, b = p["outer"]
    h = np.tanh(affine(x, state[0], p["h"])) @ W.T + b - dt * p["tau"]
    return h, (h,)


def gru_d_inputs(x, observed, dt, p):
    """Che et al.: x̂ and δ of one sequence, x (T, D), observed (T, D), dt (T,), element by element."""
    filled, since = np.zeros_like(x), np.zeros_like(x)
    for d in range(x.shape[1]):
        last = p["mean"][d]
        for t in range(len(x)):
            seen_before = observed[t - 1, d]
            since[t, d] = 0 if t == 0 else dt[t] + (0 if seen_before else since[t - 1, d])
            decay = np.exp(-max(0.0, p["w"][d] * since[t, d] + p["b"][d]))
            filled[t, d] = x[t, d] if observed[t, d] else decay * last + (1 - decay) * p["mean"][d]
            last = x[t, d] if observed[t, d] else last
    return filled, since


def gru_d(x, mask, since, state, p):
    """One step of GRU-D's cell; a gate is (W, V, U, b)."""
    h = state[0] * np.exp(-relu(since @ p["W_gamma"].T + p["b_gamma"]))

    def inner(gate, h):
        W, V, U, b = p[gate]
        return x @ W.T + mask @ V.T + h @ U.T + b

    r, z = sigmoid(inner("r", h)), sigmoid(inner("z", h))
    h = (1 - z) * h + z * np.tanh(inner("n", r * h))
    return h, (h,)


def ct_lstm(x, state, dt, p, candidate="logistic"):
    """Mei & Eisner: equations 5-7; the gates read h just before the event."""
    c, target, rate, out = state
    c = target + (c - target) * np.exp(-rate * dt)
    h = out * (2 * sigmoid(2 * c) - 1)
    i, f, o, i2, f2 = (sigmoid(affine(x, h, p[gate])) for gate in ("i", "f", "o", "i_bar", "f_bar"))
    z = affine(x, h, p["z"])
    z = 2 * sigmoid(z) - 1 if candidate == "logistic" else np.tanh(z)
    c, target, rate = f * c + i * z, f2 * target + i2 * z, softplus(affine(x, h, p["delta"]))
    return o * (2 * sigmoid(2 * c) - 1), (c, target, rate, o)


# ---- time scales
def ct_gru(x, state, dt, p, scales=8):
    """Mozer et al.: equations of section 3, a list of traces, one for each scale."""
    taus = [10 ** (k / 2) for k in range(scales)]
    traces = [trace * np.exp(-dt / tau) for trace, tau in zip(np.split(state[0], scales, axis=1), taus, strict=True)]
    h = sum(traces)

    def weights(gate):
        log_tau = affine(x, h, p[gate])
        e = [np.exp(-((log_tau - np.log(tau)) ** 2)) for tau in taus]
        return [one / sum(e) for one in e]

    retrieved = sum(r * trace for r, trace in zip(weights("R"), traces, strict=True))
    q = np.tanh(affine(x, retrieved, p["Q"]))
    traces = [(1 - s) * trace + s * q for s, trace in zip(weights("S"), traces, strict=True)]
    return sum(traces), (np.concatenate(traces, axis=1),)


def phased_openness(t, period, shift, ratio_on, leak):
    """One gate at one time."""
    phase = ((t - shift) % period) / period
    if phase < ratio_on / 2:
        return 2 * phase / ratio_on
    return 2 - 2 * phase / ratio_on if phase < ratio_on else leak * phase


def phased_lstm(x, state, dt, p, ratio_on, leak):
    h, c, t = state
    t = t + dt
    k = np.array(
        [
            [phased_openness(now, tau, s, ratio_on, leak) for tau, s in zip(p["period"], p["shift"], strict=True)]
            for now in t[:, 0]
        ]
    )
    _, (h_new, c_new) = lstm(x, (h, c), dt, p)
    h, c = k * h_new + (1 - k) * h, k * c_new + (1 - k) * c
    return h, (h, c, t)


def phased_lstm_mmrnn(x, state, dt, p, leak):
    """The mmRNN paper's program: one period, shift and ratio for all, and the gap in place of the time."""
    h, c = state
    period, shift, ratio_on = softplus(p["rhythm"])
    opened = []
    for gap in dt[:, 0]:
        phase = ((gap - shift) % period) / period
        if phase < 0.5 * ratio_on:
            opened.append(2 * phase * ratio_on)
        else:
            opened.append(2 - 2 * phase / ratio_on if phase < ratio_on else leak * phase)
    k = np.array(opened)[:, None]
    _, (h_new, c_new) = lstm(x, (h, c), dt, p)
    h, c = k * h_new + (1 - k) * h, k * c_new + (1 - k) * c
    return h, (h, c)


# ---- independent units
def indrnn(x, state, dt, p):
    h = relu(x @ p["W"].T + p["b"] + np.clip(p["u"], -p["bound"], p["bound"]) * state[0])
    return h, (h,)


def dense_indrnn(x, state, dt, p):
    h, state = indrnn(x, state, dt, p)
    return np.concatenate([x, h], axis=1), state


def sru(x, state, dt, p):
    (c,) = state
    f = sigmoid(x @ p["W_f"].T + p["v_f"] * c + p["b_f"])
    r = sigmoid(x @ p["W_r"].T + p["v_r"] * c + p["b_r"])
    c = f * c + (1 - f) * (x @ p["W_c"].T)
    highway = x if p["W_y"] is None else x @ p["W_y"].T
    return r * c + (1 - r) * highway * p["scale"], (c,)


# ---- fast
def fastrnn(x, state, dt, p):
    h = sigmoid(p["alpha"]) * np.tanh(affine(x, state[0], p["h"])) + sigmoid(p["beta"]) * state[0]
    return h, (h,)


def fastgrnn(x, state, dt, p):
    (h,) = state
    a = x @ p["W"].T + h @ p["U"].T
    z, n = sigmoid(a + p["b_z"]), np.tanh(a + p["b_h"])
    h = (sigmoid(p["zeta"]) * (1 - z) + sigmoid(p["nu"])) * n + z * h
    return h, (h,)


# ---- skip
def skip(x, state, dt, p, step, gate="memory"):
    """Campos et al., equations 2-6, sample by sample, so that u is a plain choice."""
    *inner, wish, updates = state
    rows = []
    for b in range(len(x)):
        old = tuple(part[b : b + 1] for part in inner)
        u = wish[b, 0] >= 0.5
        kept = step(x[b : b + 1], old, dt[b : b + 1])[1] if u else old
        seen = np.concatenate(kept, axis=1) if gate == "state" else kept[-1]
        change = sigmoid(seen @ p["w"].T + p["b"])
        next_wish = change if u else wish[b : b + 1] + np.minimum(change, 1 - wish[b : b + 1])
        rows.append((*kept, next_wish, updates[b : b + 1] + u))
    state = tuple(np.concatenate(parts) for parts in zip(*rows, strict=True))
    return state[0], state


# ---- latent, closed form
def latent(x, state, dt, p, encode, move):
    """The state (h, z, divergence), with the posterior mean in place of a sample."""
    h, _, divergence = state
    h = encode(x, h, dt)
    mean, log_variance = h @ p["W_mean"].T + p["b_mean"], h @ p["W_var"].T + p["b_var"]
    z = move(mean, dt)
    y = z @ p["W_y"].T + p["b_y"]
    return y, (h, z, divergence + normal_kl(mean, np.exp(log_variance)))


def cfc(x, state, dt, p):
    (h,) = state
    q = 1.7159 * np.tanh(0.666 * affine(x, h, p["backbone"]))
    f, g, a, b = (q @ W.T + c for W, c in p["heads"])
    s = sigmoid(a * dt + b)
    h = (1 - s) * np.tanh(f) + s * np.tanh(g)
    return h, (h,)
