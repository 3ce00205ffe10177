"""The equations of comparison models that follow a differential equation, or whose matrices are stable or orthogonal.

In float64 NumPy, from their papers. A step is `(x, state, dt, p) -> (y, state)` as in `oracles_gated`.
"""

from __future__ import annotations

import numpy as np
from oracles import affine, sigmoid, solve, solve_leaky
from oracles_gated import lstm, relu, softplus
from scipy.linalg import expm


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
