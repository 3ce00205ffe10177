"""CT-GRU and Phased LSTM."""

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


@pytest.mark.parametrize("scales", [8, 3])
def test_ct_gru(scales):
    layer = make("ct-gru", scales=scales)
    (cell,) = layer.cells
    W, b = (models.split(array(v), "RSQ") for v in (cell.inputs.weight, cell.inputs.bias))
    U = models.split(np.concatenate([array(cell.recurrent.weight), array(cell.retrieved.weight)]), "RSQ")
    p = {name: (W[name], U[name], b[name]) for name in "RSQ"}
    assert_matches(layer, one_layer(layer, lambda *a: models.ct_gru(*a, p, scales)))
    check_gradients(layer)


@pytest.mark.parametrize(("sign", "tau"), [(1.0, 10**3.5), (-1.0, 1.0)], ids=["slowest", "fastest"])
def test_ct_gru_slowest_scale_keeps_and_fastest_loses(sign, tau):
    """x = 1 stores a signal at one end of the scales, x = 0 stores nothing at the other: y is what time has left."""
    layer = chronode.create("ct-gru", 1, 4).double()
    (cell,) = layer.cells
    with torch.no_grad():
        for weight in (cell.recurrent.weight, cell.retrieved.weight, cell.inputs.weight, cell.inputs.bias):
            weight.zero_()
        cell.inputs.weight[4:8], cell.inputs.bias[4:8] = 100 * sign, -50 * sign
        cell.inputs.weight[8:] = 2.0
    stored, state = layer.step(torch.ones(1, 1).double())
    np.testing.assert_allclose(array(stored), np.tanh(2.0))
    for dt in (0.0, 0.5, 30.0):
        left, _ = layer.step(torch.zeros(1, 1).double(), state, dt)
        np.testing.assert_allclose(array(left / stored), np.exp(-dt / tau), rtol=1e-5)
    # Within 30 time units the fastest scale loses all of it, the slowest 1 %.
    assert (array(left) < 1e-12).all() if tau == 1.0 else (array(left) > 0.98 * array(stored)).all()


def test_ct_gru_scales():
    np.testing.assert_allclose(
        array(chronode.create("ct-gru", 1, 2).cells[0].log_tau.exp())[:, 0], 10 ** (np.arange(8) / 2), rtol=1e-5
    )


# ---- Phased LSTM


def phased_oracle(layer, ratio_on=0.05, leak=1e-3):
    (cell,) = layer.cells
    lstm = cell.lstm
    bias = lstm.inputs.bias + lstm.recurrent.bias
    W, U, b = (models.split(array(v), "ifgo") for v in (lstm.inputs.weight, lstm.recurrent.weight, bias))
    p = {"period": array(cell.log_period.exp()), "shift": array(cell.shift)}
    p |= {name: (W[name], U[name], b[name]) for name in "ifgo"}
    return one_layer(layer, lambda *a: models.phased_lstm(*a, p, ratio_on, leak))


@pytest.mark.parametrize("settings", [{}, {"ratio_on": 0.6, "leak": 0.1, "longest": 4.0}])
def test_phased_lstm(settings):
    layer = make("phased-lstm", 2, 5, **settings)
    own = {key: settings[key] for key in ("ratio_on", "leak") if key in settings}
    assert_matches(layer, phased_oracle(layer, **own), length=20)
    check_gradients(make("phased-lstm", 1, 2, **settings))


def test_phased_lstm_of_the_mmrnn_program():
    layer = make("phased-lstm-mmrnn", 2, 5, leak=0.1)
    (cell,) = layer.cells
    lstm = cell.lstm
    bias = lstm.inputs.bias + lstm.recurrent.bias
    W, U, b = (models.split(array(v), "ifgo") for v in (lstm.inputs.weight, lstm.recurrent.weight, bias))
    p = {"rhythm": array(cell.rhythm)} | {name: (W[name], U[name], b[name]) for name in "ifgo"}
    assert_matches(layer, one_layer(layer, lambda *a: models.phased_lstm_mmrnn(*a, p, 0.1)), length=20)
    check_gradients(make("phased-lstm-mmrnn", 1, 2))


def test_phased_lstm_openness():
    """A unit of period 10 that opens at 0 for half of it: shut, half open, open, half open, leaking."""
    layer = make("phased-lstm", 1, 1, noise=0.0, ratio_on=0.5, shortest=10.0, longest=10.0)
    (cell,) = layer.cells
    cell.shift.data.zero_()
    times = torch.tensor([[0.0], [1.25], [2.5], [3.75], [7.5], [11.25]]).double()
    np.testing.assert_allclose(array(cell.openness(times))[:, 0], [0, 0.5, 1, 0.5, 0.75e-3, 0.5], atol=1e-12)


def test_phased_lstm_phase_does_not_depend_on_batching():
    """Each sequence has its own clock: alone, in a batch, padded, in pieces, and step by step it reads the same."""
    layer = make("phased-lstm", 2, 6, ratio_on=0.5, longest=5.0)
    x, dt = torch.randn(3, 9, 2).double(), torch.rand(3, 9).double() * torch.tensor([[0.1], [1.0], [30.0]])
    y, (_, _, t) = layer(x, dt=dt, lengths=[9, 4, 6])
    torch.testing.assert_close(t[0, :, 0], torch.stack([dt[0].sum(), dt[1, :4].sum(), dt[2, :6].sum()]))
    for i, n in enumerate((9, 4, 6)):
        alone, _ = layer(x[i : i + 1, :n], dt=dt[i : i + 1, :n])
        torch.testing.assert_close(alone[0], y[i, :n])
        first, state = layer(x[i : i + 1, :3], dt=dt[i : i + 1, :3])
        second, _ = layer(x[i : i + 1, 3:n], state, dt=dt[i : i + 1, 3:n])
        torch.testing.assert_close(torch.cat([first, second], 1)[0], y[i, :n])
