"""coRNN."""

from __future__ import annotations

import oracles
import oracles_comparison as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode


def parameters(cell):
    W, W_z = (array(part) for part in cell.recurrent.weight.chunk(2, dim=1))
    p = {"W": W, "W_z": W_z, "V": array(cell.inputs.weight), "b": array(cell.inputs.bias)}
    return p | {name: float(getattr(cell, name)) for name in ("delta_t", "gamma", "epsilon")}


def oracle(layer):
    steps = [lambda *a, cell=cell: models.cornn(*a, parameters(cell)) for cell in layer.cells]
    return lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt)


def test_equations():
    layer = make("cornn", delta_t=0.3, gamma=2.7, epsilon=4.7)
    assert_matches(layer, oracle(layer), length=12)
    check_gradients(layer)


def test_settings_of_each_layer():
    layer = make("cornn", num_layers=2, delta_t=[0.1, 0.2], gamma=[1.0, 3.0], epsilon=[0.5, 2.0])
    assert_matches(layer, oracle(layer), length=12)


def test_state_stays_bounded():
    """The paper's bound: y_n² + z_n²/γ grows at most like n Δt if Δt is small enough; here by simulation."""
    layer = chronode.create("cornn", 2, 8, delta_t=0.05, gamma=1.0, epsilon=1.0)
    with torch.no_grad():
        y, (_, z) = layer(10 * torch.randn(4, 400, 2))
    assert float(y.abs().max()) < 2 and float(z.abs().max()) < 2


@pytest.mark.parametrize("setting", ["delta_t", "gamma", "epsilon"])
def test_settings_must_be_positive(setting):
    with pytest.raises(ValueError, match=f"{setting} must be greater than 0"):
        chronode.create("cornn", 2, 3, **{setting: 0.0})
