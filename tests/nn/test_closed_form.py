"""CfC: its equations, and ncps's cell with the same weights."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_gated as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode


def test_equations():
    layer = make("cfc", backbone_units=5)
    (cell,) = layer.cells
    heads = zip(np.split(array(cell.heads.weight), 4), np.split(array(cell.heads.bias), 4), strict=True)
    p = {"backbone": (array(cell.inputs.weight), array(cell.recurrent.weight), array(cell.inputs.bias))}
    p["heads"] = list(heads)  # pyrefly: ignore
    assert_matches(layer, lambda x, dt: oracles.run_stack([lambda *a: models.cfc(*a, p)], x, zeros(layer, len(x)), dt))
    check_gradients(layer)


def ncps_twin(cell):
    from ncps.torch import CfCCell

    units, layers = cell.inputs.out_features, 1 + len(cell.deeper)
    twin = CfCCell(cell.input_size, cell.hidden_size, backbone_units=units, backbone_layers=layers).double()
    with torch.no_grad():
        twin.backbone[0].weight.copy_(torch.cat([cell.inputs.weight, cell.recurrent.weight], 1))
        twin.backbone[0].bias.copy_(cell.inputs.bias)
        for i, layer in enumerate(cell.deeper, start=1):
            twin.backbone[2 * i].load_state_dict(layer.state_dict())
        weights, biases = cell.heads.weight.chunk(4), cell.heads.bias.chunk(4)
        for head, weight, bias in zip((twin.ff1, twin.ff2, twin.time_a, twin.time_b), weights, biases, strict=True):
            head.weight.copy_(weight)
            head.bias.copy_(bias)
    return twin


@pytest.mark.parametrize("backbone_layers", [1, 3])
def test_numbers_are_those_of_ncps(backbone_layers):
    """Default mode, each sample with its own gaps: outputs, final state, gradient."""
    layer = make("cfc", 3, 4, backbone_units=6, backbone_layers=backbone_layers)
    twin = ncps_twin(layer.cells[0])
    x, dt = (torch.from_numpy(a) for a in oracles.sequences(features=3))
    h, outputs = torch.zeros(3, 4).double(), []
    for n in range(6):
        y, h = twin(x[:, n], h, dt[:, n : n + 1])
        outputs.append(y)
    y, (state,) = layer(x, dt=dt)
    torch.testing.assert_close(y, torch.stack(outputs, 1), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(state[0], h, rtol=1e-12, atol=1e-14)
    y.square().sum().backward()
    torch.stack(outputs, 1).square().sum().backward()
    torch.testing.assert_close(layer.cells[0].inputs.weight.grad, next(twin.backbone.parameters()).grad[:, :3])


def test_as_many_parameters_as_ncps():
    from ncps.torch import CfCCell

    ours, theirs = chronode.create("cfc", 3, 20), CfCCell(3, 20)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
