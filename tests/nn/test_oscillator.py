"""coRNN."""

from __future__ import annotations

import oracles
import oracles_flows as models
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
    steps = [lambda *a, cell=cell: models.cornn(*a, parameters(cell), cell.solver) for cell in layer.cells]
    return lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt)


DAMPING = {"under": (2.7, 0.5), "critical": (1.0, 2.0), "nearly critical": (1.0, 2.0001), "over": (2.7, 4.7)}


@pytest.mark.parametrize("solver", ["exponential", "symplectic"])
@pytest.mark.parametrize("damping", DAMPING)
def test_equations(solver, damping):
    gamma, epsilon = DAMPING[damping]
    layer = make("cornn", delta_t=0.3, gamma=gamma, epsilon=epsilon, solver=solver)
    assert_matches(layer, oracle(layer), length=12)
    check_gradients(layer)


@pytest.mark.parametrize("damping", DAMPING)
def test_a_long_gap_ends_at_rest(damping):
    """The oscillators stop at f/γ, in float32 and for any gap; without time nothing moves."""
    gamma, epsilon = DAMPING[damping]
    layer = chronode.create("cornn", 2, 4, gamma=gamma, epsilon=epsilon)
    x, state = torch.randn(3, 2), (torch.randn(1, 3, 4), torch.randn(1, 3, 4))
    (cell,) = layer.cells
    force = torch.tanh(cell.project(x) + cell.recurrent(torch.cat([part[0] for part in state], dim=-1)))
    for gap in (1e3, 1e6, 1e30):
        y, (_, z) = layer.step(x, state, gap)
        torch.testing.assert_close(y, force / gamma)
        torch.testing.assert_close(z[0], torch.zeros(3, 4))
    torch.testing.assert_close(layer.step(x, state, 0.0)[1], state)


def test_steps_of_both_solvers_approach_each_other():
    """They differ by O(e²): over the same time, ten times as many steps bring them ten times closer."""
    apart = []
    for count in (20, 200):
        both = [make("cornn", delta_t=2.0 / count, solver=solver) for solver in ("exponential", "symplectic")]
        x = torch.randn(3, 1, 2, generator=torch.Generator().manual_seed(0)).double().expand(3, count, 2)
        apart.append(float((both[0](x)[0][:, -1] - both[1](x)[0][:, -1]).norm()))
    assert 7 < apart[0] / apart[1] < 14


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
