"""LEM and the diagonal GRU with decay."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_linear as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode


def lem_parameters(cell):
    p = {"V": np.split(array(cell.inputs.weight), 4), "b": np.split(array(cell.inputs.bias), 4)}
    return p | {
        "W": np.split(array(cell.recurrent.weight), 3),
        "W4": array(cell.between.weight),
        "delta": float(cell.delta_t),
    }


@pytest.mark.parametrize("solver", ["exponential", "euler"])
def test_lem(solver):
    layer = make("lem", num_layers=2, delta_t=[0.3, 0.8], solver=solver)
    steps = [lambda *a, cell=cell: models.lem(*a, lem_parameters(cell), solver) for cell in layer.cells]
    assert_matches(layer, lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt))
    check_gradients(make("lem", 2, 2, solver=solver))


def test_steps_of_both_solvers_of_lem_agree_to_first_order():
    """They differ by O(e²): with a tenth of the time scale they are a hundred times closer after a step."""
    apart = []
    for delta in (1e-2, 1e-3):
        both = [make("lem", delta_t=delta, solver=solver) for solver in ("exponential", "euler")]
        x = torch.ones(1, 1, 2).double()
        apart.append(float((both[0](x)[0] - both[1](x)[0]).detach().norm()))
    assert 80 < apart[0] / apart[1] < 125


def test_lem_stays_between_its_targets():
    """y and z are averages of numbers between -1 and 1, however long the gaps."""
    layer = chronode.create("lem", 2, 8)
    y, state = layer(100 * torch.randn(3, 50, 2), dt=1e3 * torch.rand(3, 50))
    assert all(float(part.detach().abs().max()) <= 1 for part in (y, *state))


def test_decay_gru():
    layer = make("decay-gru", num_layers=2)

    def parameters(cell):
        p = {"B": np.split(array(cell.inputs.weight), 3), "b": np.split(array(cell.inputs.bias), 3)}
        return p | {"a": array(cell.a), "tau": array(cell.tau)}

    steps = [lambda *a, cell=cell: models.decay_gru(*a, parameters(cell)) for cell in layer.cells]
    assert_matches(layer, lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt))
    check_gradients(make("decay-gru", 2, 2))


def test_units_of_the_decay_gru_are_independent():
    cell = make("decay-gru", 2, 5).cells[0]
    x, dt = cell.project(torch.randn(1, 2).double()), torch.ones(1, 1).double()
    jacobian = torch.autograd.functional.jacobian(lambda h: cell(x, (h,), dt)[0], torch.rand(1, 5).double())
    matrix = array(jacobian[0, :, 0])
    np.testing.assert_array_equal(matrix, np.diag(np.diag(matrix)))
