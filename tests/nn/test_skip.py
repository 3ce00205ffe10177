"""Skip LSTM and Skip GRU."""

from __future__ import annotations

import oracles
import oracles_gated as models
import pytest
import torch
from layer_checks import assert_matches, make, zeros
from oracles import array

import chronode


def inner_step(cell, name):
    """The LSTM or GRU inside, as an oracle's step."""
    gates = "ifgo" if name == "skip-lstm" else "rzn"
    linear = cell.inputs, cell.recurrent
    bias = linear[0].bias + linear[1].bias
    W, U, b = (models.split(array(v), gates) for v in (linear[0].weight, linear[1].weight, bias))
    p = {gate: (W[gate], U[gate], b[gate]) for gate in gates}
    if name == "skip-gru":
        p["n"] = (*p["n"][:2], *(array(part.bias)[-cell.hidden_size :] for part in linear))
        return lambda x, state, dt: models.gru(x, state, dt, p)
    return lambda x, state, dt: models.lstm(x, state, dt, p)


@pytest.mark.parametrize("name", ["skip-lstm", "skip-gru"])
@pytest.mark.parametrize(("update_bias", "gate"), [(1.0, "memory"), (-1.5, "memory"), (-1.5, "state")])
def test_equations(name, update_bias, gate):
    layer = make(name, update_bias=update_bias, gate=gate)
    (cell,) = layer.cells
    p = {"w": array(cell.pace.weight), "b": array(cell.pace.bias)}
    step = inner_step(cell.cell, name)
    assert_matches(
        layer,
        lambda x, dt: oracles.run_stack([lambda *a: models.skip(*a, p, step, gate)], x, zeros(layer, len(x)), dt),
        length=20,
    )


@pytest.mark.parametrize("name", ["skip-lstm", "skip-gru"])
def test_a_low_bias_skips(name):
    """σ(-1.4) ≈ 0.2: an update, then the wish grows by 0.2 until it is over a half: every third step."""
    layer = chronode.create(name, 2, 4, update_bias=-1.4)
    (cell,) = layer.cells
    cell.pace.weight.data.zero_()
    y, state = layer(torch.randn(3, 12, 2))
    assert cell.updates(state).flatten().tolist() == [4, 4, 4]
    changes = (y.diff(dim=1).abs().amax(-1) > 0)[0].tolist()
    assert changes == [False, False, True] * 3 + [False, False]


def test_the_gradient_goes_straight_through():
    """The rounding counts as the identity: the pace is trained though no small change of it changes y."""
    layer = chronode.create("skip-lstm", 2, 4, update_bias=-1.4)
    y, state = layer(torch.randn(3, 12, 2))
    (y.square().sum() + layer.cells[0].updates(state).sum()).backward()
    assert float(layer.cells[0].pace.weight.grad.abs().max()) > 0
    assert float(layer.cells[0].pace.bias.grad) > 0  # a higher pace costs more updates
