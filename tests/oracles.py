"""The equations of the models in plain float64 NumPy: the independent answer that the cells must give.

Written from the papers' equations, not from the cells. One function is one step
`(x, state, dt, parameters) -> (y, state)`, or a part of one; `run` repeats a step over time. Rows are
samples: x (B, D), a state (B, H), dt (B, 1); a matrix W of shape (out, in) acts as `x @ W.T`. No torch here.
"""

from __future__ import annotations

import numpy as np


def sigmoid(a):
    """The logistic function, without overflow for large negative a."""
    e = np.exp(-np.abs(a))
    return np.where(a >= 0, 1 / (1 + e), e / (1 + e))


ACTIVATIONS = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0.0),
    "hardtanh": lambda a: np.clip(a, -1.0, 1.0),
}


def array(tensor):
    return tensor.detach().numpy()


def sequences(batch=3, length=6, features=2, seed=0):
    """x (B, T, D) and irregular dt (B, T), with a first step and one in the middle that take no time."""
    rng = np.random.default_rng(seed)
    dt = rng.exponential(1.0, (batch, length))
    dt[0, 0] = dt[-1, length // 2] = 0.0
    return rng.normal(size=(batch, length, features)), dt


def assert_same(got, expected, rtol=1e-10):
    """Compares the result of a layer with that of `run_stack`: outputs, then each part of the final state."""
    (y, state), (wanted, finals) = got, expected
    np.testing.assert_allclose(array(y), wanted, rtol=rtol, atol=1e-13)
    for part, parts in zip(state, zip(*finals, strict=True), strict=True):
        np.testing.assert_allclose(array(part), np.stack(parts), rtol=rtol, atol=1e-13)


def run(step, x, state, dt):
    """Repeat step over time: x (B, T, D), dt (B, T) -> outputs (B, T, H) and the final state."""
    outputs = []
    for n in range(x.shape[1]):
        y, state = step(x[:, n], state, dt[:, n : n + 1])
        outputs.append(y)
    return np.stack(outputs, axis=1), state


def run_stack(steps, x, states, dt):
    """Layers on top of each other: the outputs of one are the inputs of the next, and all see the same dt."""
    finals = []
    for step, state in zip(steps, states, strict=True):
        x, final = run(step, x, state, dt)
        finals.append(final)
    return x, finals


# ---- solvers: n steps of dt/n, dt (B, 1) being each sample's own
def euler_step(f, h, d):
    return h + d * f(h)


def midpoint_step(f, h, d):
    return h + d * f(h + d / 2 * f(h))


def heun_step(f, h, d):
    k1 = f(h)
    k2 = f(h + d * k1)
    return h + d / 2 * (k1 + k2)


def rk4_step(f, h, d):
    k1 = f(h)
    k2 = f(h + d / 2 * k1)
    k3 = f(h + d / 2 * k2)
    k4 = f(h + d * k3)
    return h + d / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


SOLVERS = {"euler": euler_step, "midpoint": midpoint_step, "heun": heun_step, "rk4": rk4_step}


def solve(f, h, dt, solver="euler", n=4):
    for _ in range(n):
        h = SOLVERS[solver](f, h, dt / n)
    return h


def solve_leaky(approach, h, dt, n):
    """Exponential Euler for dh/dt = rate (target - h): exact while approach(h) = (target, rate) is held."""
    for _ in range(n):
        target, rate = approach(h)
        kept = np.exp(-rate * dt / n)
        h = kept * h + (1 - kept) * target
    return h


# ---- flows dh/dt = f(h)
def mlp_flow(h, W1, b1, W2, b2):
    return np.tanh(h @ W1.T + b1) @ W2.T + b2


def ctrnn_flow(h, W, b, s):
    """A drive u, where there is one, comes inside b, here as in the other flows: b + u @ K.T."""
    return s * np.tanh(h @ W.T + b) - h


def gru_flow(h, Wr, br, Wz, bz, Wg, bg):
    """The GRU-ODE field (1 - z)(g - h): a GRU's update with time in place of its steps."""
    r = sigmoid(h @ Wr.T + br)
    z = sigmoid(h @ Wz.T + bz)
    g = np.tanh((r * h) @ Wg.T + bg)
    return (1 - z) * (g - h)


def ltc_flow(h, W, b, tau, A, act="sigmoid"):
    """The liquid field without an input of its own."""
    f = ACTIVATIONS[act](h @ W.T + b)
    return -(1 / tau + f) * h + f * A


# ---- mmRNN: mixed memory
def affine(x, h, gate):
    """One gate's W x + R h + b."""
    W, R, b = gate
    return x @ W.T + h @ R.T + b


def memory(x, c, h, forget, write, candidate, b_f):
    """c' = c σ(g(h, x) + b_f) + z(h, x) with z = σ(.) tanh(.)."""
    z = sigmoid(affine(x, h, write)) * np.tanh(affine(x, h, candidate))
    return c * sigmoid(affine(x, h, forget) + b_f) + z


def mmrnn_gated(x, state, dt, p, flow, solver="euler", n=4):
    c, h = state
    c2 = memory(x, c, h, p["forget"], p["write"], p["candidate"], p["b_f"])
    o = sigmoid(affine(x, h, p["output"]))
    h2 = solve(flow, o * np.tanh(c2), dt, solver, n)
    return h2, (c2, h2)


def mmrnn_paper(x, state, dt, p, flow, solver="euler", n=4):
    """Equations 3-4 to the letter: the flow starts at the memory itself."""
    c, h = state
    c2 = memory(x, c, h, p["forget"], p["write"], p["candidate"], p["b_f"])
    h2 = solve(flow, c2, dt, solver, n)
    return h2, (c2, h2)


def mmrnn_driven(x, state, dt, p, flow, solver="euler", n=4):
    """The gated memory u drives dh/dt = flow(h, u), started at the old h."""
    c, h = state
    c2 = memory(x, c, h, p["forget"], p["write"], p["candidate"], p["b_f"])
    u = sigmoid(affine(x, h, p["output"])) * np.tanh(c2)
    h2 = solve(lambda v: flow(v, u), h, dt, solver, n)
    return h2, (c2, h2)


# ---- UnICORNN
def unicornn_step(u, state, dt, w, c, delta, alpha):
    y, z = state
    e = delta * sigmoid(c) * dt
    z2 = z - e * (np.tanh(w * y + u) + alpha * y)
    y2 = y + e * z2
    return y2, (y2, z2)


def unicornn_inverse(u, state, dt, w, c, delta, alpha):
    y2, z2 = state
    e = delta * sigmoid(c) * dt
    y = y2 - e * z2
    z = z2 + e * (np.tanh(w * y + u) + alpha * y)
    return y, z


def unicornn_stack(x, states, dt, layers, skip=None):
    """All layers; layer number l > S = skip also hears Λ y^{l-S-1}, y^0 being the input signal.

    A layer is a dict of V, b, w, c, delta, alpha, and Lambda where it has a residual connection.
    """
    signals, finals = [x], []
    for number, (p, state) in enumerate(zip(layers, states, strict=True), start=1):
        u = signals[number - 1] @ p["V"].T + p["b"]
        if skip is not None and number > skip:
            u = u + signals[number - skip - 1] @ p["Lambda"].T
        own = {name: p[name] for name in ("w", "c", "delta", "alpha")}
        y, final = run(lambda u, s, d, own=own: unicornn_step(u, s, d, **own), u, state, dt)
        signals.append(y)
        finals.append(final)
    return signals[-1], finals


# ---- LTC: liquid time-constant
def ltc_dense_gate(v, x, p, act):
    return ACTIVATIONS[act](v @ p["Wr"].T + x @ p["W"].T + p["b"])


def ltc_dense(x, state, dt, p, act="sigmoid", n=6):
    """Algorithm 1: n fused steps of dt/n."""
    (v,) = state
    d = dt / n
    for _ in range(n):
        f = ltc_dense_gate(v, x, p, act)
        v = (v + d * f * p["A"]) / (1 + d * (1 / p["tau"] + f))
    return v, (v,)


def ltc_dense_field(v, x, p, act="sigmoid"):
    f = ltc_dense_gate(v, x, p, act)
    return -(1 / p["tau"] + f) * v + f * p["A"]


def synapses(v, w, s, m, E, mask):
    """Sums over the sources j of conductance g_ji and of current g_ji E_ji, arrays (j, i)."""
    conductance = np.zeros((v.shape[0], w.shape[1]))
    current = np.zeros_like(conductance)
    for j in range(w.shape[0]):
        for i in range(w.shape[1]):
            g = mask[j, i] * w[j, i] * sigmoid(s[j, i] * (v[:, j] - m[j, i]))
            conductance[:, i] += g
            current[:, i] += g * E[j, i]
    return conductance, current


def ltc_synaptic(x, state, dt, p, n=6):
    """The fused step with numerator and denominator multiplied by δ, so that dt = 0 is no special case."""
    (v,) = state
    d = dt / n
    g_in, i_in = synapses(x, **p["input"])
    for _ in range(n):
        g, i = synapses(v, **p["recurrent"])
        v = (p["c"] * v + d * (p["gl"] * p["vl"] + i + i_in)) / (p["c"] + d * (p["gl"] + g + g_in))
    return v, (v,)


def ltc_synaptic_field(v, x, p):
    """C dv/dt = g_l (v_l - v) + Σ g (E - v), over neurons and inputs."""
    g_in, i_in = synapses(x, **p["input"])
    g, i = synapses(v, **p["recurrent"])
    return (p["gl"] * (p["vl"] - v) + i + i_in - (g + g_in) * v) / p["c"]


# ---- iRNN and ERNN
def low_rank(V2, V1):
    return np.eye(V2.shape[0]) + V2 @ V1


def transition(v, x, p, act):
    """φ(P(Uv + Wx + b)), then φ(M a + m) for each further layer of a deep transition."""
    phi = ACTIVATIONS[act]
    a = phi((v @ p["U"].T + x @ p["W"].T + p["b"]) @ p["P"].T)
    for M, m in p.get("deep", ()):
        a = phi(a @ M.T + m)
    return a


def equilibrium(x, state, p, act="relu", start="previous"):
    """K = len(eta) steps g <- g + η_k [φ(P(U(g + s h) + Wx + b)) - γ (g + s h)]."""
    (h,) = state
    g = h if start == "previous" else np.zeros_like(h)
    for eta in p["eta"]:
        v = g + p["s"] * h
        g = g + eta * (transition(v, x, p, act) - p["gamma"] * v)
    return g, (g,)


# ---- the comparison models
def lstm(x, state, p):
    """The textbook LSTM, its state in the order (c, h)."""
    c, h = state
    c2 = sigmoid(affine(x, h, p["forget"])) * c
    c2 = c2 + sigmoid(affine(x, h, p["write"])) * np.tanh(affine(x, h, p["candidate"]))
    h2 = sigmoid(affine(x, h, p["output"])) * np.tanh(c2)
    return h2, (c2, h2)


def lstm_dt(x, state, dt, p):
    """dt is one more input, behind the others."""
    return lstm(np.concatenate([x, dt], axis=1), state, p)


def gru(x, h, p):
    """The textbook GRU, its reset gate on the product as in torch: n = tanh(Wx + b + r (Rh + b'))."""
    r = sigmoid(affine(x, h, p["reset"]))
    z = sigmoid(affine(x, h, p["update"]))
    W, b, R, b2 = p["candidate"]
    n = np.tanh(x @ W.T + b + r * (h @ R.T + b2))
    return (1 - z) * n + z * h


def ode_rnn(x, state, dt, flow, jump, solver="euler", n=4):
    """Time moves h by the flow, then the observation makes it jump."""
    (h,) = state
    h = jump(x, solve(flow, h, dt, solver, n))
    return h, (h,)
