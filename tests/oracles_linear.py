"""The equations of linear recurrences, LEM and the diagonal GRU in float64 NumPy, from their papers (see `oracles`).

Complex states are complex arrays here. A step is `(x, state, dt, p) -> (y, state)` with p a dict of named parameters.
"""

from __future__ import annotations

import numpy as np
from oracles import sigmoid
from oracles_gated import softplus
from scipy.linalg import expm


def skipped(x, D):
    return D * x if D.ndim == 1 else x @ D.T


def oscillators(x, state, dt, p, scheme):
    """LinOSS and, with a damping G, D-LinOSS; A is the stiffness that the scheme uses."""
    z, h = state
    A, G, e, f = p["A"], p["G"], p["s"] * dt, x @ p["B"].T
    if scheme == "exact":
        z, h = exact_oscillators(z, h, A, G, e, f)
    elif scheme == "im":
        S = 1 / (1 + e**2 * A)
        z, h = S * z - e * A * S * h + e * S * f, e * S * z + S * h + e**2 * S * f
    else:
        z = (z - e * A * h + e * f) / (1 + e * G)
        h = h + e * z
    return (h @ p["C"].T).real + skipped(x, p["D"]), (z, h)


def exact_oscillators(z, h, A, G, e, f):
    """The exponential of the augmented matrix [[K, (1, 0)], [0, 0]] e, sample by sample and unit by unit."""
    new_z, new_h = np.empty_like(z), np.empty_like(h)
    for b, n in np.ndindex(z.shape):
        K = np.array([[-G[n], -A[n], 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        new_z[b, n], new_h[b, n] = (expm(K * e[b, n]) @ np.array([z[b, n], h[b, n], f[b, n]]))[:2]
    return new_z, new_h


def lru(x, state, dt, p):
    """With dt = 1 the paper's λ and γ."""
    size = np.exp(-np.exp(p["nu"]))
    lam = size * np.exp(1j * np.exp(p["theta"]))
    gamma = np.exp(p["log_gamma"]) * np.sqrt((1 - size ** (2 * dt)) / (1 - size**2))
    # A complex power would lose whole turns of the phase.
    power = size**dt * np.exp(1j * np.exp(p["theta"]) * dt)
    assert np.allclose(power[dt[:, 0] == 1], lam)
    h = power * state[0] + gamma * (x @ p["B"].T)
    return (h @ p["C"].T).real + skipped(x, p["D"]), (h,)


def discretized(Lambda, step, scheme):
    if scheme == "zoh":
        return np.exp(Lambda * step), (np.exp(Lambda * step) - 1) / Lambda
    return (1 + Lambda * step / 2) / (1 - Lambda * step / 2), step / (1 - Lambda * step / 2)


def s5(x, state, dt, p, scheme):
    M, N = discretized(p["Lambda"], p["Delta"] * dt, scheme)
    h = M * state[0] + N * (x @ p["B"].T)
    return 2 * (h @ p["C"].T).real + skipped(x, p["D"]), (h,)


def s4d(x, state, dt, p, scheme):
    """Λ and C are (H, P), Δ is (H, 1), the state (B, H, P)."""
    v = x if p["W"] is None else x @ p["W"].T
    M, N = discretized(p["Lambda"], p["Delta"] * dt[..., None], scheme)
    h = M * state[0] + N * v[..., None]
    return 2 * (p["C"] * h).sum(-1).real + p["D"] * v, (h,)


def mingru(x, state, dt, p):
    z = 1 - (1 - sigmoid(x @ p["W_z"].T + p["b_z"])) ** dt
    h = (1 - z) * state[0] + z * (x @ p["W_c"].T + p["b_c"])
    return h, (h,)


def minlstm(x, state, dt, p):
    f, i = (sigmoid(x @ p[f"W_{gate}"].T + p[f"b_{gate}"]) for gate in "fi")
    kept = (f / (f + i)) ** dt
    h = kept * state[0] + (1 - kept) * (x @ p["W_c"].T + p["b_c"])
    return h, (h,)


def lem(x, state, dt, p, solver):
    y, z = state
    inputs = [x @ V.T + b for V, b in zip(p["V"], p["b"], strict=True)]
    W1, W2, W3 = p["W"]
    a, b = (p["delta"] * dt * sigmoid(y @ W.T + u) for W, u in ((W1, inputs[0]), (W2, inputs[1])))
    if solver == "exponential":
        a, b = 1 - np.exp(-a), 1 - np.exp(-b)
    z = (1 - b) * z + b * np.tanh(y @ W3.T + inputs[2])
    y = (1 - a) * y + a * np.tanh(z @ p["W4"].T + inputs[3])
    return y, (y, z)


def decay_gru(x, state, dt, p):
    h = state[0] * np.exp(-softplus(p["tau"]) * dt)
    u_z, u_r, u_c = (x @ B.T + b for B, b in zip(p["B"], p["b"], strict=True))
    a_z, a_r, a_c = p["a"]
    z, r = sigmoid(a_z * h + u_z), sigmoid(a_r * h + u_r)
    h = (1 - z) * h + z * np.tanh(a_c * (r * h) + u_c)
    return h, (h,)
