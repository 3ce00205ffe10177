"""Oscillators: Hamiltonian, volume, inverse, bounds and the gradient formula against closed forms and autograd."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chronode
from chronode.lab.analysis import _oscillator_bounds as oscillator_bounds
from chronode.lab.analysis import _oscillators as oscillators
from chronode.nn.cells.oscillators import UnICORNNCell

few = settings(max_examples=15, deadline=None)
alphas = st.floats(0.1, 10)
seeds = st.integers(0, 10_000)


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def harmonic(alpha, delta_t, hidden=3):
    """UnICORNN without w, V and b: y'' = -α y."""
    layer = chronode.create("unicornn", 1, hidden, alpha=alpha, delta_t=delta_t).double()
    cell = layer.cells[0]
    for parameter in (cell.w, cell.inputs.weight, cell.inputs.bias):
        torch.nn.init.zeros_(parameter)
    return layer


# ---- the Hamiltonian -------------------------------------------------------------------------------------


def test_hamiltonian_of_a_harmonic_oscillator():
    cell = harmonic(4.0, 0.1).cells[0]
    y, z = noise(5, 3), noise(5, 3, seed=1)
    found = oscillators.hamiltonian(cell, torch.zeros(3), y, z)
    torch.testing.assert_close(found, (2 * y**2 + z**2 / 2).sum(-1))


@few
@given(alphas, seeds)
def test_its_derivatives_are_the_equations_of_motion(alpha, seed):
    torch.manual_seed(seed)
    cell = UnICORNNCell(2, 6, alpha=alpha).double()
    torch.nn.init.normal_(cell.w)
    cell.w.data[0] = 0
    u, y, z = (noise(6, seed=seed + i).requires_grad_() for i in range(3))
    dy, dz = torch.autograd.grad(oscillators.hamiltonian(cell, u, y, z), (y, z))
    torch.testing.assert_close(dz, z)
    torch.testing.assert_close(dy, torch.tanh(cell.w * y + u) + cell.alpha * y)


def test_it_does_not_overflow():
    cell = UnICORNNCell(1, 1)
    found = oscillators.hamiltonian(cell, torch.tensor([1e4]), torch.zeros(1), torch.zeros(1))
    assert found.item() == pytest.approx((1e4 - np.log(2)) / cell.w.item(), rel=1e-6)


def test_energy_oscillates_without_drift_and_shrinks_with_the_step():
    x = torch.ones(4000, 1)
    wide, narrow = (oscillators.energy("unicornn", x, delta_t=value) for value in (0.1, 0.05))
    assert 1.7 < wide.drift.max() / narrow.drift.max() < 2.3  # symplectic Euler: first order
    change = np.abs(wide.values - wide.values[..., :1])[0, 0]
    assert change[3000:].max() < 1.2 * change[:1000].max()


def test_energy_of_a_stack_sees_what_the_layers_below_put_out():
    layer = chronode.create("unicornn", 2, 5, num_layers=4, residual=2).double()
    x, state = noise(1, 6, 2), None
    found = oscillators.energy(layer, x).values
    for n in range(6):
        _, state = layer.step(x[:, n], state)
        y, z = state
        seen = torch.cat([y[2], y[0]], dim=-1)  # layer 4 sees layer 3, and layer 1 by the residual connection
        cell = layer.cells[3]
        wanted = oscillators.hamiltonian(cell, cell.project(seen), y[3], z[3])
        assert found[3, 0, n + 1] == pytest.approx(wanted.item(), rel=1e-9)


# ---- volume and inverse ----------------------------------------------------------------------------------


@few
@given(alphas, st.floats(0.01, 1), seeds)
def test_unicornn_keeps_the_volume_of_phase_space(alpha, delta_t, seed):
    x = noise(1, 5, 2, seed=seed)
    found = oscillators.phase_space_volume(
        "unicornn", x, hidden_size=4, seed=seed, alpha=alpha, delta_t=delta_t, num_layers=2
    )
    np.testing.assert_allclose(10**found.log10_steps, 1, atol=1e-6)


@pytest.mark.parametrize("name", ["gru", "lstm", "cornn"])
def test_volume_is_the_determinant_of_the_jacobian(name):
    x = noise(1, 3, 2)
    found = oscillators.phase_space_volume(name, x, hidden_size=4, seed=3)
    torch.manual_seed(3)
    layer = chronode.create(name, 2, 4).double()
    state = layer.initial_state(1)
    sizes = [part.shape[-1] for part in state]

    for n in range(3):

        def step(flat, n=n):
            parts = tuple(part.view(1, 1, -1) for part in flat.split(sizes))
            return torch.cat([part.flatten() for part in layer.step(x[:, n], parts)[1]])

        flat = torch.cat([part.flatten() for part in state])
        determinant = torch.linalg.det(torch.autograd.functional.jacobian(step, flat))
        assert found.log10_steps[0, n] == pytest.approx(determinant.abs().log10().item(), abs=1e-9)
        _, state = layer.step(x[:, n], state)


def test_the_inverse_restores_a_stack_as_well_as_rounding_allows():
    found = oscillators.reconstruction(300, delta_t=[0.1], num_layers=3, residual=2)
    single, double = found.error[0]
    assert (found.error[..., 0] == 0).all()
    assert double.max() < 1e-12
    assert 1e-8 < single.max() < 1e-4


def test_a_wrong_inverse_would_show(monkeypatch):
    monkeypatch.setattr(UnICORNNCell, "inverse", lambda self, x, state, dt: state)
    assert oscillators.reconstruction(100, delta_t=[0.1], dtypes=["float64"]).error.max() > 1e-2


# ---- bounds ----------------------------------------------------------------------------------------------


@few
@given(alphas, st.floats(0.001, 0.1), seeds)
def test_states_stay_within_c1(alpha, delta_t, seed):
    x = 5 * noise(2, 60, 2, seed=seed)
    found = oscillator_bounds.state_bounds("unicornn", x, seed=seed, alpha=alpha, delta_t=delta_t, num_layers=2)
    assert (found.y <= found.y_bound).all()
    assert (found.z <= found.z_bound).all()
    beta = max(1 + 2 * alpha, 4 * alpha**2)
    assert found.z_bound[0, 60] == pytest.approx(np.sqrt(2 + 4 * beta * 60 * delta_t), rel=1e-5)
    assert found.y_bound[0, 0] == pytest.approx(np.sqrt(2 / alpha), rel=1e-5)


def test_without_alpha_y_has_no_bound():
    found = oscillator_bounds.state_bounds("unicornn", noise(1, 5, 2), alpha=0.0)
    assert np.isinf(found.y_bound).all()
    assert np.isfinite(found.z_bound).all()
    with pytest.raises(ValueError, match="needs alpha > 0"):
        oscillator_bounds.gradient_bounds(lengths=[5], alpha=0.0)


def test_gradient_bound_by_hand():
    layer = chronode.create("unicornn", 2, 2, delta_t=0.5, alpha=1.0)
    cell = layer.cells[0]
    cell.w.data = torch.tensor([3.0, -1.0])
    cell.inputs.weight.data = torch.tensor([[1.0, -2.0], [0.5, 0.5]])
    time, beta, gamma = 2.0, 4.0, 4 + 8  # T = 4 · 0.5, max(3, 4), 4 + 4²/2
    y = np.sqrt(2 * (1 + 2 * beta * time))
    wanted = time * (1 + 2 * gamma * time) * 3 * (0.5 + y) * (2 + y + 3 * y)
    assert oscillator_bounds.gradient_bound([cell], 4, 0.5) == pytest.approx(wanted)


def test_gradients_stay_within_their_bound_and_do_not_explode():
    found = oscillator_bounds.gradient_bounds(lengths=[10, 100, 1000], num_layers=2)
    assert (found.measured < found.bound).all()
    assert found.measured[-1] < 100 * found.measured[0]


def test_shares_of_all_steps_add_up_to_the_gradient():
    steps, hidden = 7, 4
    shares = [
        oscillator_bounds.representation([0.2], steps=steps, at=at, hidden_size=hidden).measured[0]
        for at in range(2, steps + 1)
    ]
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(1, 2, generator=rng, dtype=torch.float64)
    target = torch.randn(1, hidden, generator=rng, dtype=torch.float64)
    torch.manual_seed(0)
    layer = chronode.create("unicornn", 2, hidden, delta_t=0.2).double()
    y, _ = layer(x.expand(1, steps, 2))
    (wanted,) = torch.autograd.grad(0.5 * (y[:, -1] - target).square().sum(), layer.cells[0].w)
    np.testing.assert_allclose(np.sum(shares, axis=0), wanted, rtol=1e-10)


def test_formula_14_is_the_limit_of_small_steps():
    found = oscillator_bounds.representation([1e-3, 1e-4], steps=80, at=5)
    distance = np.abs(found.ratio - 76 / 80).max(axis=1)
    assert distance[1] < 1e-4
    assert distance[0] / distance[1] == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("at", [1, 11])
def test_a_step_that_is_not_there_is_refused(at):
    with pytest.raises(ValueError, match="at"):
        oscillator_bounds.representation(steps=10, at=at)


@pytest.mark.parametrize("analysis", [oscillators.energy, oscillator_bounds.state_bounds])
def test_other_models_are_referred_elsewhere(analysis):
    with pytest.raises(ValueError, match="only defined for UnICORNN.*'cornn'.*phase_space_volume"):
        analysis("cornn", noise(1, 5, 2))


# ---- numbers out -----------------------------------------------------------------------------------------


def test_every_result_is_json():
    x = noise(2, 5, 2)
    for found in (
        oscillators.energy("unicornn", x, num_layers=2),
        oscillators.phase_space_volume("gru", x, hidden_size=3),
        oscillators.reconstruction(5),
        oscillator_bounds.state_bounds("unicornn", x, alpha=0.0),
        oscillator_bounds.gradient_bounds(lengths=[5]),
        oscillator_bounds.representation([0.1], steps=10),
    ):
        assert json.loads(found.to_json()).keys() == found.as_dict().keys()
