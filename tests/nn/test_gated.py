"""The textbook cells: their equations, and torch's own layers with the same weights."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_gated as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import chronode
from chronode.nn import driver

GATES = {"rnn": "h", "lstm": "ifgo", "gru": "rzn", "ugrnn": "cg"}
TORCH = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


def gates(cell, names):
    """(W, U, b) of each gate; dt is one more column of W where the cell sees it."""
    W, b = array(cell.inputs.weight), array(cell.inputs.bias)
    if cell.elapsed is not None:
        W = np.concatenate([W, array(cell.elapsed.weight)], axis=1)
    U, d = array(cell.recurrent.weight), array(cell.recurrent.bias)
    parts = [models.split(values, names) for values in (W, U, b, d)]
    p = {name: (parts[0][name], parts[1][name], parts[2][name] + parts[3][name]) for name in names}
    if names == GATES["gru"]:
        p["n"] = tuple(part["n"] for part in parts)
    return p


def oracle(layer, names, step, **options):
    def run(x, dt):
        x = np.concatenate([x, dt[..., None]], axis=2) if layer.cells[0].elapsed is not None else x
        p = gates(layer.cells[0], names)
        return oracles.run_stack([lambda *a: step(*a, p, **options)], x, zeros(layer, len(x)), dt)

    return run


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("rnn", "rnn", {}),
        ("rnn-dt", "rnn", {}),
        ("lstm", "lstm", {}),
        ("lstm-dt", "lstm", {}),
        ("gru", "gru", {}),
        ("relu-gru", "gru", {"act": models.relu}),
        ("ugrnn", "ugrnn", {}),
    ],
)
def test_equations(name, kind, options):
    layer = make(name)
    assert_matches(layer, oracle(layer, GATES[kind], getattr(models, kind), **options))
    check_gradients(layer)


def torch_twin(name, layer, dtype=torch.float64, **options):
    """torch.nn's layer with the weights of a stack of cells."""
    twin = TORCH[name](layer.input_size, layer.hidden_size, layer.num_layers, batch_first=True, **options).to(dtype)
    with torch.no_grad():
        for i, cell in enumerate(layer.cells):
            for linear, suffix in ((cell.inputs, "ih"), (cell.recurrent, "hh")):
                getattr(twin, f"weight_{suffix}_l{i}").copy_(linear.weight)
                getattr(twin, f"bias_{suffix}_l{i}").copy_(linear.bias)
    return twin


def torch_state(state):
    return state if len(state) > 1 else state[0]


def parts(state):
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", TORCH)
def test_numbers_are_those_of_torch(name, dtype, padded):
    """Outputs, final state and gradients from a state other than 0: bit for bit, with lengths to rounding."""
    torch.manual_seed(0)
    layer = chronode.create(name, 3, 5, num_layers=2).to(dtype)
    twin = torch_twin(name, layer, dtype)
    x, lengths = torch.randn(4, 7, 3, dtype=dtype), torch.tensor([2, 7, 1, 5])
    state = tuple(torch.randn_like(part) for part in layer.initial_state(4))
    y, after = layer(x, state, lengths=lengths if padded else None)
    if padded:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        wanted, wanted_after = twin(packed, torch_state(state))
        wanted, _ = pad_packed_sequence(wanted, batch_first=True)
    else:
        wanted, wanted_after = twin(x, torch_state(state))
    y.square().sum().backward()
    wanted.square().sum().backward()
    gradients = layer.cells[0].inputs.weight.grad, layer.cells[1].recurrent.bias.grad
    rounding = 4 * torch.finfo(dtype).eps if padded else 0
    got = (y, *after, *gradients)
    expected = (wanted, *parts(wanted_after), twin.weight_ih_l0.grad, twin.bias_hh_l1.grad)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=rounding, atol=rounding * float(other.detach().abs().max()))


def test_relu_rnn_is_torchs():
    torch.manual_seed(0)
    layer = chronode.create("rnn", 3, 5, activation="relu")
    x = torch.randn(4, 7, 3)
    assert torch.equal(layer(x)[0], torch_twin("rnn", layer, torch.float32, nonlinearity="relu")(x)[0])


@pytest.mark.parametrize("name", ["rnn", "rnn-dt", "lstm", "lstm-dt", "gru"])
@pytest.mark.parametrize("lengths", [None, torch.tensor([6, 1, 3])])
@pytest.mark.parametrize("last", [False, True])
def test_torchs_loop_and_the_drivers_agree(name, lengths, last):
    cell = make(name).cells[0]
    x, dt = torch.randn(6, 3, 2).double(), torch.rand(6, 3, 1).double()
    state = tuple(torch.randn_like(part) for part in cell.initial_state(3, x))
    plan = driver.Plan(lengths, last=last)
    assert cell.kernel() is not None
    y, after = driver.run(cell, x, state, dt, plan)
    # "low" memory is the driver's own loop.
    wanted, wanted_after = driver.run(cell, x, state, dt, plan._replace(memory="low"))
    torch.testing.assert_close(y, wanted, rtol=1e-12, atol=1e-14)
    for part, wanted_part in zip(after, wanted_after, strict=True):
        torch.testing.assert_close(part, wanted_part, rtol=1e-12, atol=1e-14)


def test_dt_is_one_more_input():
    torch.manual_seed(0)
    layer, plain = chronode.create("lstm-dt", 2, 4), chronode.create("lstm", 3, 4)
    cell, other = layer.cells[0], plain.cells[0]
    with torch.no_grad():
        other.inputs.weight.copy_(torch.cat([cell.inputs.weight, cell.elapsed.weight], 1))
        other.recurrent.weight.copy_(cell.recurrent.weight)
    x, dt = torch.randn(3, 6, 2), torch.rand(3, 6)
    torch.testing.assert_close(layer(x, dt=dt)[0], plain(torch.cat([x, dt[..., None]], -1))[0])


def test_forget_bias():
    assert array(chronode.create("lstm", 2, 3).cells[0].inputs.bias).tolist() == [0] * 3 + [1] * 3 + [0] * 6
    assert array(chronode.create("ugrnn", 2, 3, forget_bias=2.0).cells[0].inputs.bias)[3:].tolist() == [2] * 3
