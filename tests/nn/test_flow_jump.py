"""Models that flow: ODE-RNN, CT-RNN, neural ODE, GRU-ODE, reciprocal."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_comparison as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array


def one_layer(layer, step):
    return lambda x, dt: oracles.run_stack([step], x, zeros(layer, len(x)), dt)


def gates(inputs, recurrent, bias, names):
    W, U, b = (models.split(array(v), names) for v in (inputs, recurrent, bias))
    return {name: (W[name], U[name], b[name]) for name in names}


def mlp_flow(flow):
    numbers = [array(v) for v in (flow.inner.weight, flow.inner.bias, flow.outer.weight, flow.outer.bias)]
    return lambda h: oracles.mlp_flow(h, *numbers)


def jump_of(cell):
    """The jump `(x, h) -> h'` of an ODE-RNN."""
    linear = cell.inputs, cell.recurrent
    if cell.gates == 1:
        p = gates(linear[0].weight, linear[1].weight, linear[0].bias + linear[1].bias, "h")
        return lambda x, h: models.rnn(x, (h,), None, p)[0]
    p = gates(linear[0].weight, linear[1].weight, linear[0].bias + linear[1].bias, "rzn")
    p["n"] = (*p["n"][:2], *(array(part.bias)[-cell.hidden_size :] for part in linear))
    return lambda x, h: models.gru(x, (h,), None, p)[0]


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


def field_of(name, flow):
    if name == "gru-ode":
        inner = torch.cat([flow.gates.weight, flow.candidate.weight])
        p = gates(flow.drive_in.weight, inner, torch.cat([flow.gates.bias, flow.candidate.bias]), "rzg")
        return lambda h, x: models.gru_field(h, x, p)
    p = gates(flow.drive_in.weight, flow.recurrent.weight, flow.recurrent.bias, "h")
    if name == "neural-ode":
        return lambda h, x: np.tanh(oracles.affine(x, h, p["h"]))
    p["rate"] = array(flow.rate)
    return lambda h, x: models.leaky_field(h, x, p)


@pytest.mark.parametrize(
    ("name", "solver", "n"), [("ct-rnn", "rk4", 3), ("neural-ode", "rk4", 3), ("gru-ode", "euler", 4)]
)
def test_input_held_in_the_field(name, solver, n):
    layer = make(name)
    field = field_of(name, layer.cells[0].flow)
    assert_matches(layer, one_layer(layer, lambda *a: models.held_input(*a, field, solver, n)))
    check_gradients(make(name, 1, 2))


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


def test_reciprocal():
    layer = make("reciprocal")
    (cell,) = layer.cells
    lstm, flow = cell.lstm, cell.flow
    from_both = torch.cat([lstm.inputs.weight, cell.to_lstm.weight], 1)
    p = {"lstm": gates(from_both, lstm.recurrent.weight, lstm.inputs.bias + lstm.recurrent.bias, "ifgo")}
    from_both = torch.cat([flow.drive_in.weight, cell.to_flow.weight], 1)
    p["flow"] = gates(from_both, flow.recurrent.weight, flow.recurrent.bias, "h") | {"rate": array(flow.rate)}
    assert_matches(layer, one_layer(layer, lambda *a: models.reciprocal(*a, p)))
    check_gradients(make("reciprocal", 1, 2))
