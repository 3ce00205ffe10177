"""Models that flow: ODE-RNN, CT-RNN, neural ODE, GRU-ODE, reciprocal."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_flows as flows
import oracles_gated as gated
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode
from chronode.nn._flows import make_flow
from chronode.nn._solvers import FlowSolver


def one_layer(layer, step):
    return lambda x, dt: oracles.run_stack([step], x, zeros(layer, len(x)), dt)


def gates(inputs, recurrent, bias, names):
    W, U, b = (gated.split(array(v), names) for v in (inputs, recurrent, bias))
    return {name: (W[name], U[name], b[name]) for name in names}


def mlp_flow(flow):
    numbers = [array(v) for v in (flow.inner.weight, flow.inner.bias, flow.outer.weight, flow.outer.bias)]
    return lambda h: oracles.mlp_flow(h, *numbers)


def jump_of(cell):
    """The jump `(x, h) -> h'` of an ODE-RNN."""
    linear = cell.inputs, cell.recurrent
    if cell.gates == 1:
        p = gates(linear[0].weight, linear[1].weight, linear[0].bias + linear[1].bias, "h")
        return lambda x, h: gated.rnn(x, (h,), None, p)[0]
    p = gates(linear[0].weight, linear[1].weight, linear[0].bias + linear[1].bias, "rzn")
    p["n"] = (*p["n"][:2], *(array(part.bias)[-cell.hidden_size :] for part in linear))
    return lambda x, h: gated.gru(x, (h,), None, p)[0]


@pytest.mark.parametrize("jump", ["rnn", "gru"])
@pytest.mark.parametrize("solver", ["euler", "rk4"])
def test_ode_rnn(jump, solver):
    layer = make("ode-rnn", jump=jump, solver=solver, steps=3)
    (cell,) = layer.cells
    flow, update = mlp_flow(cell.flow), jump_of(cell.jump)
    assert_matches(layer, one_layer(layer, lambda *a: oracles.ode_rnn(*a, flow, update, solver, 3)))


@pytest.mark.parametrize("jump", ["rnn", "gru"])
def test_ode_rnn_gradients(jump):
    check_gradients(make("ode-rnn", 1, 2, jump=jump))


@pytest.mark.parametrize("solver", ["euler", "dopri5"])
def test_ode_rnn_in_a_batch_is_ode_rnn_alone(solver):
    """Gaps from 0 to 30 side by side: every sequence flows for its own time."""
    layer = make("ode-rnn", 2, 4, solver=solver, noise=0.1)
    x, dt = torch.randn(5, 6, 2).double(), torch.rand(5, 6).double() * torch.tensor([[0.0], [0.1], [1], [10], [30]])
    lengths = [6, 2, 1, 6, 4]
    y, (state,) = layer(x, dt=dt, lengths=lengths)
    within = {"rtol": 1e-12, "atol": 1e-14} if solver == "euler" else {"rtol": 1e-4, "atol": 1e-5}
    for i, n in enumerate(lengths):
        alone, (last,) = layer(x[i : i + 1, :n], dt=dt[i : i + 1, :n])
        torch.testing.assert_close(alone[0], y[i, :n], **within)
        torch.testing.assert_close(last[0, 0], state[0, i], **within)


def parameters_of(name, flow):
    if name == "gru-ode":
        inner = torch.cat([flow.gates.weight, flow.candidate.weight])
        return gates(flow.drive_in.weight, inner, torch.cat([flow.gates.bias, flow.candidate.bias]), "rzg")
    p = gates(flow.drive_in.weight, flow.recurrent.weight, flow.recurrent.bias, "h")
    return p if name == "neural-ode" else p | {"rate": array(flow.rate)}


FIELDS = {
    "ct-rnn": flows.leaky_field,
    "neural-ode": lambda h, x, p: np.tanh(oracles.affine(x, h, p["h"])),
    "gru-ode": flows.gru_field,
}
APPROACHES = {"ct-rnn": flows.leaky_approach, "gru-ode": flows.gru_approach}


@pytest.mark.parametrize(
    ("name", "settings", "n"),
    [
        ("neural-ode", {}, 3),
        ("ct-rnn", {"solver": "rk4"}, 3),
        ("ct-rnn", {"solver": "euler", "steps": 5}, 5),
        ("gru-ode", {"solver": "euler"}, 4),
    ],
)
def test_input_held_in_the_field(name, settings, n):
    layer = make(name, **settings)
    p, solver = parameters_of(name, layer.cells[0].flow), settings.get("solver", "rk4")
    assert_matches(
        layer, one_layer(layer, lambda *a: flows.held_input(*a, lambda h, x: FIELDS[name](h, x, p), solver, n))
    )
    check_gradients(make(name, 1, 2, **settings))


@pytest.mark.parametrize(
    ("name", "settings", "n"), [("ct-rnn", {}, 3), ("ct-rnn", {"steps": 1}, 1), ("gru-ode", {}, 4)]
)
def test_exponential_euler_is_the_default_of_fields_with_a_leak(name, settings, n):
    layer = make(name, **settings)
    p = parameters_of(name, layer.cells[0].flow)
    oracle = one_layer(layer, lambda *a: flows.held_input_leaky(*a, lambda h, x: APPROACHES[name](h, x, p), n))
    assert_matches(layer, oracle)
    check_gradients(make(name, 1, 2, **settings))


@pytest.mark.parametrize("flow", ["ctrnn", "leaky", "gru", "ltc"])
def test_exponential_euler_converges_for_every_flow_with_a_leak(flow):
    """Halving the step halves the error against a fine RK4; without a leak it is Euler's step."""
    h, dt = torch.randn(4, 3).double(), torch.rand(4, 1).double() * 3
    field = make_flow(flow, 3).double()
    wanted = FlowSolver("rk4", 400)(field, h, dt)
    errors = [float((FlowSolver("exponential", n)(field, h, dt) - wanted).detach().norm()) for n in (32, 64, 128)]
    assert 1.7 < errors[0] / errors[1] < 2.3 and 1.7 < errors[1] / errors[2] < 2.3
    bounded = make_flow("mlp", 3).double()
    torch.testing.assert_close(FlowSolver("exponential", 5)(bounded, h, dt), FlowSolver("euler", 5)(bounded, h, dt))


@pytest.mark.parametrize("flow", ["ctrnn", "leaky", "gru", "ltc"])
@pytest.mark.parametrize("gap", [0.0, 1e-6, 30.0, 1e6, 1e30])
def test_exponential_euler_stays_between_the_state_and_its_targets(flow, gap):
    """Float32, any gap: no output beyond the start and the largest target; no time, no change."""
    field, h = make_flow(flow, 3), 2 * torch.randn(50, 3)
    end = FlowSolver("exponential", 3)(field, h, torch.full((50, 1), gap))
    assert float(end.detach().abs().max()) <= max(1.01, float(h.abs().max()))
    if gap == 0:
        assert torch.equal(end, h)


def test_exponential_euler_needs_a_flow():
    with pytest.raises(ValueError, match="solver=.exponential. is not supported"):
        chronode.create("lipschitz", 2, 3, solver="exponential")
    with pytest.raises(ValueError, match="solver=.exponential. is not supported"):
        chronode.create("ncde", 2, 3, solver="exponential")


@pytest.mark.parametrize("name", ["ct-rnn", "neural-ode", "gru-ode"])
def test_fixed_steps_come_close_to_the_adaptive_solver(name):
    fixed, adaptive = make(name, solver="rk4", steps=20), make(name, solver="dopri5")
    x, dt = (torch.from_numpy(a) for a in oracles.sequences())
    torch.testing.assert_close(fixed(x, dt=dt)[0], adaptive(x, dt=dt)[0], rtol=1e-4, atol=1e-4)


def test_ct_rnn_time_constant():
    """With no input and no coupling the state fades as exp(-t/τ), τ = 1 at the start."""
    layer = make("ct-rnn", noise=0.0, steps=50)
    for parameter in (layer.cells[0].flow.recurrent.weight, layer.cells[0].flow.recurrent.bias):
        parameter.data.zero_()
    h = torch.rand(1, 1, 3).double()
    y, _ = layer.step(torch.zeros(1, 2).double(), (h,), 1.5)
    torch.testing.assert_close(y, h[0] * np.exp(-1.5), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("solver", "n"), [("exponential", 3), ("rk4", 2)])
def test_reciprocal(solver, n):
    layer = make("reciprocal", solver=solver, steps=n)
    (cell,) = layer.cells
    lstm, flow = cell.lstm, cell.flow
    from_both = torch.cat([lstm.inputs.weight, cell.to_lstm.weight], 1)
    p = {"lstm": gates(from_both, lstm.recurrent.weight, lstm.inputs.bias + lstm.recurrent.bias, "ifgo")}
    from_both = torch.cat([flow.drive_in.weight, cell.to_flow.weight], 1)
    p["flow"] = gates(from_both, flow.recurrent.weight, flow.recurrent.bias, "h") | {"rate": array(flow.rate)}
    assert_matches(layer, one_layer(layer, lambda *a: flows.reciprocal(*a, p, solver, n)))
    check_gradients(make("reciprocal", 1, 2, solver=solver, steps=n))


def test_reciprocal_of_the_mmrnn_program():
    """The LSTM sees dt as well, the field has no time constant, and there are 4 Euler steps."""
    layer = make("reciprocal-mmrnn")
    (cell,) = layer.cells
    lstm, flow = cell.lstm, cell.flow
    all_inputs = torch.cat([lstm.inputs.weight, cell.to_lstm.weight, lstm.elapsed.weight], 1)
    p = {"lstm": gates(all_inputs, lstm.recurrent.weight, lstm.inputs.bias + lstm.recurrent.bias, "ifgo")}
    from_both = torch.cat([flow.drive_in.weight, cell.to_flow.weight], 1)
    p |= {"flow": gates(from_both, flow.recurrent.weight, flow.recurrent.bias, "h")["h"], "scale": array(flow.scale)}
    assert_matches(layer, one_layer(layer, lambda *a: flows.reciprocal_mmrnn(*a, p)))
    check_gradients(make("reciprocal-mmrnn", 1, 2))
