"""Models that fade: RNN-Decay, GRU-D, CT-LSTM."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_gated as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode


def one_layer(layer, step):
    return lambda x, dt: oracles.run_stack([step], x, zeros(layer, len(x)), dt)


def test_rnn_decay():
    layer = make("rnn-decay")
    (cell,) = layer.cells
    jump = cell.jump
    gate = (array(jump.inputs.weight), array(jump.recurrent.weight), array(jump.inputs.bias + jump.recurrent.bias))
    p = {"tau": array(cell.tau), "h": gate}
    assert_matches(layer, one_layer(layer, lambda *a: models.rnn_decay(*a, p)))
    check_gradients(layer)


def test_rnn_decay_of_the_mmrnn_program():
    layer = make("rnn-decay-mmrnn")
    (cell,) = layer.cells
    jump = cell.jump
    gate = (array(jump.inputs.weight), array(jump.recurrent.weight), array(jump.inputs.bias + jump.recurrent.bias))
    p = {"tau": array(cell.tau), "h": gate, "outer": (array(cell.outer.weight), array(cell.outer.bias))}
    assert_matches(layer, one_layer(layer, lambda *a: models.rnn_decay_mmrnn(*a, p)))
    check_gradients(layer)


@pytest.mark.parametrize("candidate", ["logistic", "tanh"])
def test_ct_lstm(candidate):
    layer = make("ct-lstm", candidate=candidate)
    (cell,) = layer.cells
    names = ("i", "f", "z", "o", "i_bar", "f_bar", "delta")
    W, U, b = (models.split(array(v), names) for v in (cell.inputs.weight, cell.recurrent.weight, cell.inputs.bias))
    p = {name: (W[name], U[name], b[name]) for name in names}
    assert_matches(layer, one_layer(layer, lambda *a: models.ct_lstm(*a, p, candidate)))
    check_gradients(layer)


def test_ct_lstm_reaches_its_target():
    """After a long silence the memory is at its target, and y's gates read it there."""
    layer = make("ct-lstm")
    _, state = layer.step(torch.randn(1, 2).double())
    target = state[1]
    held = [(target, *state[1:]), state]
    x = torch.randn(1, 2).double()
    at_once, after_long = layer.step(x, held[0], 0.0), layer.step(x, held[1], 1e6)
    torch.testing.assert_close(at_once[0], after_long[0])


# ---- GRU-D


def gru_d_parameters(cell, features):
    """Gates (W, V, U, b): of an encoded input its values and its mask, of a plain one no mask."""
    W, b = (models.split(array(v), "rzn") for v in (cell.inputs.weight, cell.inputs.bias))
    U = models.split(np.concatenate([array(cell.gates.weight), array(cell.candidate.weight)]), "rzn")
    p = {"W_gamma": array(cell.decay.weight), "b_gamma": array(cell.decay.bias)}
    return p | {g: (W[g][:, :features], W[g][:, features:], U[g], b[g]) for g in "rzn"}


def gru_d_oracle(layer, x, observed, dt):
    encoder, bottom, top = layer.encoders[0], *layer.cells
    values = {name: array(getattr(encoder, name)) for name in ("mean", "w", "b")}
    sequences = zip(x, observed, dt, strict=True)
    filled, since = (np.stack(a) for a in zip(*(models.gru_d_inputs(*s, values) for s in sequences), strict=True))
    p, q = gru_d_parameters(bottom, 2), gru_d_parameters(top, 3)
    (h,), (g,) = zeros(layer, len(x))
    nothing, outputs = np.zeros((len(x), 0)), []
    for n in range(x.shape[1]):
        h, _ = models.gru_d(filled[:, n], observed[:, n], since[:, n], (h,), p)
        g, _ = models.gru_d(h, nothing, dt[:, n : n + 1], (g,), q)
        outputs.append(g)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("hidden", [0.0, 0.5, 1.0])
def test_gru_d(hidden):
    """A stack of two, with none, half or all of the values missing."""
    layer = make("gru-d", 2, 3, num_layers=2)
    layer.encoders[0].mean.copy_(torch.tensor([0.3, -0.7]))
    x, dt = oracles.sequences()
    observed = np.random.default_rng(1).random(x.shape) >= hidden
    got, _ = layer(torch.from_numpy(x), dt=torch.from_numpy(dt), observed=torch.from_numpy(observed))
    np.testing.assert_allclose(array(got), gru_d_oracle(layer, x, observed, dt), rtol=1e-10)
    if hidden == 0:
        got, _ = layer(torch.from_numpy(x), dt=torch.from_numpy(dt))
        np.testing.assert_allclose(array(got), gru_d_oracle(layer, x, observed, dt), rtol=1e-10)


def test_gru_d_without_missing_values_has_no_encoder():
    layer = make("gru-d", missing=False)
    check_gradients(layer)
    p = gru_d_parameters(layer.cells[0], 2)
    nothing = np.zeros((3, 0))
    assert_matches(layer, one_layer(layer, lambda x, state, dt: models.gru_d(x, nothing, dt, state, p)))


def test_gru_d_fades_to_the_mean():
    """A value that was never seen is the mean; one seen long ago is nearly the mean; a fresh one is itself."""
    layer = chronode.create("gru-d", 1, 3)
    encoder = layer.encoders[0]
    encoder.set_mean(torch.tensor([[1.0], [3.0], [100.0]]), torch.tensor([[True], [True], [False]]))
    assert encoder.mean.item() == 2.0
    dt, seen, not_seen = torch.ones(1, 1), torch.tensor([[5.0, 1.0]]), torch.tensor([[0.0, 0.0]])
    state = encoder.initial_state(1, dt)
    first = encoder(not_seen, state, dt)[0]
    assert first[0, 0] == 2.0 and first[0, 2] == 0.0  # the paper's δ is 0 at the first step, whatever dt is there
    y, state = encoder(seen, state, dt)
    assert y[0, 0] == 5.0 and y[0, 2] == 0.0
    y, later = encoder(not_seen, state, dt)
    assert 4 < y[0, 0] < 5 and y[0, 2] == 1.0
    torch.testing.assert_close(encoder(not_seen, later, 1e3 * dt)[0][0, 0], torch.tensor(2.0))
    assert encoder(seen, later, dt)[0][0, 2] == 2.0  # time since the last one seen, though this one is seen too


def test_gru_d_learns_its_input_decay():
    layer = make("gru-d")
    observed = torch.rand(4, 6, 2) < 0.5
    layer(torch.randn(4, 6, 2).double(), dt=torch.rand(4, 6).double(), observed=observed)[0].sum().backward()
    assert layer.encoders[0].w.grad.abs().min() > 0
