"""The equations of the comparison models in plain float64 NumPy, written from their papers (see `oracles`).

A step is `(x, state, dt, p) -> (y, state)` with p a dict of named parameters; W, U, V are (out, in) matrices.
"""

from __future__ import annotations

import numpy as np
from oracles import affine, sigmoid, solve, solve_leaky
from scipy.linalg import expm


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


# ---- flows
def held_input(x, state, dt, field, solver, n):
    """dh/dt = field(h, x) with x held."""
    h = solve(lambda v: field(v, x), state[0], dt, solver, n)
    return h, (h,)


def held_input_leaky(x, state, dt, approach, n):
    """The same by exponential Euler."""
    h = solve_leaky(lambda v: approach(v, x), state[0], dt, n)
    return h, (h,)


def leaky_field(h, x, p):
    return -h * softplus(p["rate"]) + np.tanh(affine(x, h, p["h"]))


def leaky_approach(h, x, p):
    """(target, rate) of the leaky field."""
    rate = softplus(p["rate"])
    return np.tanh(affine(x, h, p["h"])) / rate, rate


def gru_approach(h, x, p):
    """(target, rate) of the GRU-ODE field."""
    r, z = sigmoid(affine(x, h, p["r"])), sigmoid(affine(x, h, p["z"]))
    return np.tanh(affine(x, r * h, p["g"])), 1 - z


def gru_field(h, x, p):
    target, rate = gru_approach(h, x, p)
    return rate * (target - h)


def reciprocal(x, state, dt, p, solver="exponential", n=3):
    """p["lstm"] reads (x, v), p["flow"] reads (x, h)."""
    h, c, v = state
    _, (h2, c2) = lstm(np.concatenate([x, v], axis=1), (h, c), dt, p["lstm"])
    both = np.concatenate([x, h], axis=1)
    if solver == "exponential":
        v2 = solve_leaky(lambda u: leaky_approach(u, both, p["flow"]), v, dt, n)
    else:
        v2 = solve(lambda u: leaky_field(u, both, p["flow"]), v, dt, solver, n)
    return h2 + v2, (h2, c2, v2)


def reciprocal_mmrnn(x, state, dt, p):
    """The mmRNN paper's program: p["lstm"] reads (x, v, dt); the field is s tanh(.) - v, by 4 Euler steps."""
    h, c, v = state
    _, (h2, c2) = lstm(np.concatenate([x, v, dt], axis=1), (h, c), dt, p["lstm"])
    both = np.concatenate([x, h], axis=1)
    v2 = solve(lambda u: p["scale"] * np.tanh(affine(both, u, p["flow"])) - u, v, dt, "euler", 4)
    return h2 + v2, (h2, c2, v2)


# ---- oscillators and stable matrices
def cornn(x, state, dt, p, solver="exponential"):
    y, z = state
    e = p["delta_t"] * dt
    force = np.tanh(y @ p["W"].T + z @ p["W_z"].T + x @ p["V"].T + p["b"])
    if solver == "symplectic":
        z = z + e * (force - p["gamma"] * y - p["epsilon"] * z)
        y = y + e * z
        return y, (y, z)
    M = np.array([[0.0, 1.0], [-p["gamma"], -p["epsilon"]]])
    rest = force / p["gamma"]
    moved = [expm(M * e[b, 0]) @ np.stack([y[b] - rest[b], z[b]]) for b in range(len(x))]
    y, z = rest + np.stack([m[0] for m in moved]), np.stack([m[1] for m in moved])
    return y, (y, z)


def lipschitz_matrix(M, beta, gamma):
    return (1 - beta) * (M + M.T) + beta * (M - M.T) - gamma * np.eye(len(M))


def lipschitz(x, state, dt, p, solver="euler", n=1):
    A, W = (lipschitz_matrix(*three) for three in zip(p["M"], p["beta"], p["gamma"], strict=True))
    u = x @ p["U"].T + p["b"]
    h = solve(
        lambda v: v @ A.T + np.tanh(v @ W.T + u), state[0], np.minimum(p["epsilon"] * dt, p["max_step"]), solver, n
    )
    return h, (h,)


def antisymmetric(x, state, dt, p):
    (h,) = state
    S = p["W"] - p["W"].T - p["gamma"] * np.eye(len(p["W"]))
    change = np.tanh(h @ S.T + x @ p["V"].T + p["b"])
    if "V_z" in p:
        change = sigmoid(h @ S.T + x @ p["V_z"].T + p["b_z"]) * change
    h = h + p["epsilon"] * dt * change
    return h, (h,)


# ---- orthogonal
def modrelu(a, b):
    """For real and complex a."""
    length = np.abs(a)
    return np.where(length > 0, a / np.where(length > 0, length, 1), 0) * relu(length + b)


def exprnn(x, state, dt, p):
    h = modrelu(x @ p["W"].T + state[0] @ p["Q"].T, p["b"])
    return h, (h,)


def reflection_product(vectors):
    """H_1 H_2 ... H_m with H = I - 2 v v* / v* v."""
    Q = np.eye(len(vectors[0]))
    for v in vectors:
        Q = Q @ (np.eye(len(v)) - 2 * np.outer(v, v.conj()) / (v.conj() @ v))
    return Q


def spectral(x, state, dt, p):
    h = np.tanh(x @ p["W"].T + state[0] @ (p["U"] @ np.diag(p["s"]) @ p["V"].T).T + p["b"])
    return h, (h,)


def unitary_structured(phases, reflections, permutation):
    """Arjovsky et al., equation 6: Q = D3 R2 F^-1 D2 Π R1 F D1, as matrices."""
    size = len(permutation)
    D1, D2, D3 = (np.diag(np.exp(1j * phase)) for phase in phases)
    R1, R2 = (reflection_product([v]) for v in reflections)
    F = np.array([[np.exp(-2j * np.pi * j * k / size) for k in range(size)] for j in range(size)]) / np.sqrt(size)
    return D3 @ R2 @ F.conj().T @ D2 @ np.eye(size)[permutation] @ R1 @ F @ D1


def urnn(x, state, dt, p):
    h = modrelu(x @ p["W"].T + state[0] @ p["Q"].T, p["b"])
    return np.concatenate([h.real, h.imag], axis=1), (h,)


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


# ---- controlled
def vector_field(z, direction, p):
    """tanh(W2 relu(W1 z + b1) + b2) as an (H, channels) matrix for each row, times the direction."""
    f = np.tanh(relu(z @ p["W1"].T + p["b1"]) @ p["W2"].T + p["b2"])
    f = f.reshape(len(z), z.shape[1], -1)
    return np.einsum("bhc,bc->bh", f, direction)


def cubic_slopes(x, dt, s, limit):
    """dX/ds at s of the Hermite spline through x (T, D) with backward differences, one (D,) for each interval.

    The polynomial a + b s + c s² + d s³ is found from its four conditions at the ends of the interval.
    """
    conditions = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [0, 1, 2, 3]])
    slopes = []
    for n in range(1, len(x)):
        change = x[n] - x[n - 1]
        before = change if n == 1 else (x[n - 1] - x[n - 2]) / dt[n - 1] * dt[n]
        if limit:
            before = np.where(before * change <= 0, 0, np.sign(change) * np.minimum(abs(before), 3 * abs(change)))
        _, b, c, d = np.linalg.solve(conditions, np.stack([x[n - 1], before, x[n], change]))
        slopes.append(b + 2 * c * s + 3 * d * s * s)
    return slopes


def ncde_sequence(x, dt, p, cubic=True, limit=True):
    """z of one sequence, x (T, D), dt (T,): one RK4 step from each observation to the next."""
    z = x[:1] @ p["W"].T + p["b"]
    outputs = [z]
    for n in range(1, len(x)):

        def field(z, s, n=n):
            path = cubic_slopes(x, dt, s, limit)[n - 1] if cubic else x[n] - x[n - 1]
            return vector_field(z, np.concatenate([[dt[n]], path])[None], p)

        k1 = field(z, 0.0)
        k2 = field(z + k1 / 2, 0.5)
        k3 = field(z + k2 / 2, 0.5)
        k4 = field(z + k3, 1.0)
        z = z + (k1 + 2 * k2 + 2 * k3 + k4) / 6
        outputs.append(z)
    return np.concatenate(outputs)


def log_signature(points):
    """Depth 2, of the straight lines through points (n, C): the rise, and the area of each pair of channels i < j.

    The iterated integrals of a straight piece are known; pieces are put together by their definition.
    """
    moves = np.diff(points, axis=0)
    size = points.shape[1]
    twice = np.zeros((size, size))  # ∫∫_{s<t} dX_i(s) dX_j(t)
    for n, move in enumerate(moves):
        twice += np.outer(moves[:n].sum(0), move) + 0.5 * np.outer(move, move)
    area = 0.5 * (twice - twice.T)
    return np.concatenate([moves.sum(0), area[np.triu_indices(size, 1)]])


def log_ncde_sequence(x, dt, p, window, solver="midpoint"):
    """z of one sequence: windows of `window` steps, and the unfinished window up to each step."""
    path = np.concatenate([np.cumsum(np.r_[0, dt[1:]])[:, None], x], axis=1)
    begin = x[:1] @ p["W"].T + p["b"]
    outputs, first = [begin], 0
    for n in range(1, len(x)):
        direction = log_signature(path[first : n + 1])[None]
        z = solve(lambda v, d=direction: vector_field(v, d, p), begin, 1.0, solver, 1)
        outputs.append(z)
        if n - first == window:
            first, begin = n, z
    return np.concatenate(outputs)


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
