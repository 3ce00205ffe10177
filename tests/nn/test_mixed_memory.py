"""mmRNN and the models it is compared with: LSTM, LSTM that sees dt, ODE-RNN."""

from __future__ import annotations

from functools import partial

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import assert_matches, check_gradients, jacobian, make, norm, zeros
from oracles import array

import chronode

VARIANTS = ("gated", "paper", "driven")
FLOWS = ("mlp", "ctrnn", "gru", "ltc")


# ---- the cell's parameters as the oracles take them


def gates(inputs, recurrent, names):
    """{name: (W, R, b)} of a layout in which the gates follow each other."""
    bias = inputs.bias if recurrent.bias is None else inputs.bias + recurrent.bias
    blocks = (np.split(array(part), len(names)) for part in (inputs.weight, recurrent.weight, bias))
    return dict(zip(names, zip(*blocks, strict=True), strict=True))


def memory_gates(cell):
    names = ["forget", "write", "candidate", "output"][: 3 if cell.variant == "paper" else 4]
    p = gates(cell.inputs, cell.recurrent, names)
    W, R, b_f = p["forget"]
    return p | {"forget": (W, R, 0.0), "b_f": b_f}


def flow_of(flow):
    """The oracle's field (h, u) of a cell's flow; u is None where nothing drives it."""
    own = {n: array(p) for n, p in flow.named_parameters()}
    width = flow.size

    def drive(u, block=0):
        if u is None:
            return 0.0
        return u @ own["drive_in.weight"][block * width : (block + 1) * width].T

    def gru(h, u=None):
        (Wr, Wz), (br, bz) = np.split(own["gates.weight"], 2), np.split(own["gates.bias"], 2)
        W, b = own["candidate.weight"], own["candidate.bias"]
        return oracles.gru_flow(h, Wr, br + drive(u), Wz, bz + drive(u, 1), W, b + drive(u, 2))

    def mlp(h, u=None):
        b1 = own["inner.bias"] + drive(u)
        return oracles.mlp_flow(h, own["inner.weight"], b1, own["outer.weight"], own["outer.bias"])

    def ctrnn(h, u=None):
        return oracles.ctrnn_flow(h, own["recurrent.weight"], own["recurrent.bias"] + drive(u), own["scale"])

    def ltc(h, u=None):
        tau = 1 / np.log1p(np.exp(own["rate"]))
        b = own["recurrent.bias"] + drive(u)
        return oracles.ltc_flow(h, own["recurrent.weight"], b, tau, own["target"])

    return {"MLPFlow": mlp, "CTRNNFlow": ctrnn, "GRUFlow": gru, "LTCFlow": ltc}[type(flow).__name__]


def mmrnn_oracle(layer, solver="euler", n=4):
    step = getattr(oracles, f"mmrnn_{layer.cells[0].variant}")
    steps = [partial(step, p=memory_gates(c), flow=flow_of(c.flow), solver=solver, n=n) for c in layer.cells]
    return lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt)


# ---- equations


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_equations(variant, flow):
    layer = make("mmrnn", variant=variant, flow=flow, num_layers=2)
    assert_matches(layer, mmrnn_oracle(layer))


@pytest.mark.parametrize("solver", ["euler", "midpoint", "heun", "rk4"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_solvers(variant, solver):
    layer = make("mmrnn", variant=variant, solver=solver, steps=3)
    assert_matches(layer, mmrnn_oracle(layer, solver, n=3))


def test_defaults_are_gated_mlp_and_driven_ctrnn_by_four_euler_steps():
    for variant, flow in (("gated", "MLPFlow"), ("paper", "MLPFlow"), ("driven", "CTRNNFlow")):
        cell = make("mmrnn", variant=variant).cells[0]
        assert type(cell.flow).__name__ == flow
        assert (cell.solve.name, cell.solve.steps) == ("euler", 4)
    assert make("mmrnn").cells[0].variant == "gated"


@torch.no_grad()
@pytest.mark.parametrize("variant", VARIANTS)
def test_adaptive_solver_agrees_with_many_small_steps(variant):
    x, dt = (torch.from_numpy(a) for a in oracles.sequences())
    fine = make("mmrnn", variant=variant, solver="rk4", steps=200)(x, dt=dt)[0]
    adaptive = make("mmrnn", variant=variant, solver="dopri5", rtol=1e-9, atol=1e-11)(x, dt=dt)[0]
    torch.testing.assert_close(adaptive, fine, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients(variant, flow):
    check_gradients(make("mmrnn", 1, 2, variant=variant, flow=flow, steps=2))


# ---- the comparison models


@pytest.mark.parametrize("memory", ["auto", "low"])  # torch's fused loop runs one, the cell's own step the other
@pytest.mark.parametrize("name", ["lstm", "lstm-dt"])
def test_lstm(name, memory):
    layer = make(name, num_layers=2, memory=memory)
    steps = []
    for cell in layer.cells:
        p = gates(cell.inputs, cell.recurrent, ["write", "forget", "candidate", "output"])
        if name == "lstm-dt":
            elapsed = np.split(array(cell.elapsed.weight), 4)
            p = {k: (np.hstack([W, e]), R, b) for (k, (W, R, b)), e in zip(p.items(), elapsed, strict=True)}
            steps.append(partial(oracles.lstm_dt, p=p))
        else:
            steps.append(lambda x, state, dt, p=p: oracles.lstm(x, state, p))

    def oracle(x, dt):
        y, finals = oracles.run_stack(steps, x, zeros(layer, len(x)), dt)
        return y, [(h, c) for c, h in finals]  # the layer's order is torch.nn.LSTM's

    assert_matches(layer, oracle)


def test_lstm_forget_bias():
    cell = chronode.create("lstm", 2, 4).cells[0]
    assert (cell.inputs.bias + cell.recurrent.bias).tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8


def jump_of(cell, kind):
    inputs, recurrent = cell.jump.inputs, cell.jump.recurrent
    W, R, b, b2 = (array(part) for part in (inputs.weight, recurrent.weight, inputs.bias, recurrent.bias))
    if kind == "rnn":
        return lambda x, h: np.tanh(x @ W.T + b + h @ R.T + b2)
    (Wr, Wz, Wn), (Rr, Rz, Rn) = np.split(W, 3), np.split(R, 3)
    (br, bz, bn), (cr, cz, cn) = np.split(b, 3), np.split(b2, 3)
    p = {"reset": (Wr, Rr, br + cr), "update": (Wz, Rz, bz + cz), "candidate": (Wn, bn, Rn, cn)}
    return lambda x, h: oracles.gru(x, h, p)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("kind", ["rnn", "gru"])
def test_ode_rnn(kind, flow):
    layer = make("ode-rnn", jump=kind, flow=flow, solver="rk4", steps=2, num_layers=2)
    steps = [
        partial(oracles.ode_rnn, flow=flow_of(c.flow), jump=jump_of(c, kind), solver="rk4", n=2) for c in layer.cells
    ]
    assert_matches(layer, lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt))


@pytest.mark.parametrize("memory", ["auto", "low"])
@pytest.mark.parametrize("name", ["lstm", "lstm-dt", "ode-rnn"])
def test_gradients_of_the_comparison_models(name, memory):
    check_gradients(make(name, 1, 2, memory=memory))


# ---- initialization and theorem 3


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("forget_bias", [None, 1.5])
def test_forget_bias(variant, forget_bias):
    chosen = {} if forget_bias is None else {"forget_bias": forget_bias}
    cell = chronode.create("mmrnn", 2, 4, variant=variant, **chosen).cells[0]
    expected = torch.zeros(16 if variant != "paper" else 12)
    expected[:4] = 3.0 if forget_bias is None else forget_bias
    assert torch.equal(cell.inputs.bias, expected)


def memory_jacobian(variant, forget_bias, dts, scale):
    """dc_T / dc_0 of a cell whose gates g and z have weights `scale` times the usual."""
    cell = make("mmrnn", variant=variant, forget_bias=forget_bias, noise=0).cells[0]
    with torch.no_grad():
        cell.inputs.weight *= scale
        cell.recurrent.weight *= scale
    h = torch.full((1, 3), 0.3, dtype=torch.float64)

    def final(c):
        state = (c.unsqueeze(0), h)
        for dt in dts:
            _, state = cell(cell.project(torch.ones(1, 2).double()), state, torch.full((1, 1), dt).double())
        return state[0].squeeze(0)

    return jacobian(final, torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(VARIANTS), st.floats(-4, 8), st.lists(st.floats(0, 20), min_size=1, max_size=8))
def test_theorem_3_memory_error_flow(variant, forget_bias, dts):
    # With g = z = 0 nothing but the forget bias decides, whatever time passes.
    flow = oracles.sigmoid(np.float64(forget_bias)) ** len(dts)
    np.testing.assert_allclose(memory_jacobian(variant, forget_bias, dts, 0.0), flow * np.eye(3), rtol=1e-12)


def test_theorem_3_holds_near_zero_and_with_the_true_sigmoid_of_3():
    flow = memory_jacobian("gated", 3.0, [0.7], 1e-4)
    np.testing.assert_allclose(flow, 0.952574 * np.eye(3), atol=1e-4)  # the paper's 0.9943 is not σ(3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_time_leaves_the_memory_untouched(variant):
    cell = make("mmrnn", variant=variant).cells[0]
    x, state = torch.randn(2, 2).double(), (torch.randn(2, 3).double(), torch.randn(2, 3).double())
    memories = [cell(cell.project(x), state, torch.full((2, 1), dt).double())[1] for dt in (0.0, 0.1, 50.0)]
    assert torch.equal(memories[0][0], memories[1][0]) and torch.equal(memories[0][0], memories[2][0])
    assert not torch.allclose(memories[0][1], memories[1][1])  # but time does move h


# ---- Table 2


def gradient_norms(name, lengths, seeds=3, gain=1.0, **options):
    """‖d s_T / d s_0‖ of the first part s of the state (c or h) for each length, median over seeds."""
    norms = []
    for seed in range(seeds):
        layer = make(name, 1, 16, seed=seed, noise=0, **options)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter *= gain
        rng = torch.Generator().manual_seed(seed)
        row = []
        for length in lengths:
            x = torch.randn(1, length, 1, generator=rng, dtype=torch.float64)
            dt = torch.rand(1, length, generator=rng, dtype=torch.float64)
            rest = layer.initial_state(1)[1:]

            def final(s, x=x, dt=dt, rest=rest, layer=layer):
                return layer(x, (s.view(1, 1, -1), *rest), dt=dt)[1][0].flatten()

            row.append(norm(jacobian(final, torch.zeros(16, dtype=torch.float64))))
        norms.append(row)
    return np.median(norms, axis=0)


def test_table_2_gradients_of_ode_rnn_vanish_or_explode_and_those_of_mmrnn_do_not():
    memory = gradient_norms("mmrnn", (5, 10, 25, 50))
    small = gradient_norms("ode-rnn", (5, 10, 25, 50))
    large = gradient_norms("ode-rnn", (5, 10, 25), 5, gain=6.0, jump="gru")  # weights as training may make them
    assert (memory > 0.3).all() and (memory < 10).all()
    assert (np.diff(np.log(small)) < 0).all() and small[-1] < 1e-6
    assert (np.diff(np.log(large)) > 0).all() and large[-1] > 100 * memory.max()
