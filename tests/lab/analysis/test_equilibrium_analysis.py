"""Equilibria against closed forms and scipy."""

import numpy as np
import pytest
import torch

import chronode
from chronode.lab.analysis import convergence, equilibrium_eigenvalues, phase_portrait


def linear_irnn(slope=0.5):
    """Inputs are so large that relu is linear: f(q) = slope q + W x + b, and all is known in closed form."""
    torch.manual_seed(0)
    layer = chronode.create("irnn", 2, 3, recurrent="full", outer="identity", activation="relu")
    with torch.no_grad():
        layer.cells[0].u.copy_(slope * torch.eye(3))
        layer.cells[0].inputs.bias.fill_(50.0)
    return layer


def test_the_rate_of_a_linear_recursion_is_known():
    found = convergence(linear_irnn(), torch.randn(4, 2), steps=30, eta=0.4)
    np.testing.assert_allclose(found.rates, 1 - 0.4 * (1 - 0.5), rtol=1e-6)
    assert found.bound == pytest.approx(0.8)
    np.testing.assert_allclose(found.residuals[:, 0], 0.5 * found.distances[:, 0], rtol=1e-6)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_recursion_converges_within_its_guarantee(activation, sign):
    torch.manual_seed(1)
    layer = chronode.create("ernn", 3, 8, recurrent="full", activation=activation, sign=sign)
    found = convergence(layer, torch.randn(5, 3), torch.randn(5, 8), steps=60)
    assert found.distances[:, -1].max() < 1e-8
    factors = found.distances[:, 1:10] / found.distances[:, :9]
    assert factors.max() <= found.bound + 1e-9 < 1


def test_a_transition_that_does_not_contract_has_no_guarantee():
    layer = linear_irnn(slope=0.5)
    assert np.isnan(convergence(layer, torch.randn(2, 2), eta=1.5).bound)


def test_eigenvalues_of_a_linear_transition():
    found = equilibrium_eigenvalues(linear_irnn(), torch.randn(2, 4, 2), lengths=torch.tensor([4, 1]))
    assert found.real.shape == (5 * 3,)
    np.testing.assert_allclose(found.real, 0.5 - 1, atol=1e-6)
    assert found.stable == 1
    assert equilibrium_eigenvalues(linear_irnn(slope=2.0), torch.randn(1, 2, 2)).stable == 0


@pytest.mark.parametrize("analysis", [equilibrium_eigenvalues, convergence])
def test_other_models_have_no_equilibrium(analysis):
    with pytest.raises(ValueError, match="lstm.*irnn, sirnn and ernn"):
        analysis(chronode.create("lstm", 2, 4), torch.randn(1, 3, 2))


def test_irnn_leaves_its_start_and_stays_on_a_line():
    thin = []
    for seed in range(7):
        found = phase_portrait(["fastrnn", "irnn"], steps=200, seed=seed)
        assert (found.states[:, 0] == found.states[0, 0]).all()
        # Two numbers that follow one slow input: of iRNN the second principal direction is almost empty.
        spread = [np.linalg.svd(path - path.mean(0), compute_uv=False) for path in found.states[:, 20:]]
        thin.append([small / large for large, small in spread])
    fast, own = np.median(thin, axis=0)
    assert own < fast / 2
