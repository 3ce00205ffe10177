"""iRNN, SiRNN and ERNN: the recursion, its equilibrium, and the identity gradients of their papers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import assert_matches, check_gradients, jacobian, make, norm, zeros
from oracles import array
from scipy.optimize import fsolve

import chronode

property_test = settings(max_examples=25, deadline=None, derandomize=True)


# ---- the cell's parameters as the oracles take them


def parameters(cell):
    U = oracles.low_rank(array(cell.v2), array(cell.v1)) if cell.recurrent == "low-rank" else array(cell.u)
    return {
        "U": U,
        "P": U if cell.outer == "same" else np.eye(cell.hidden_size),
        "W": array(cell.inputs.weight),
        "b": array(cell.inputs.bias),
        "deep": [(array(layer.weight), array(layer.bias)) for layer in cell.deeper],
        "gamma": float(cell.gamma),
        "s": float(cell.sign),
        "eta": array(cell.eta),
    }


def step_of(cell):
    p = parameters(cell)

    def step(x, state, dt):
        return oracles.equilibrium(x, state, p, cell.activation, cell.start)

    def counted(x, state, dt):
        h, count = state
        n = min(int(count[0, 0]), cell.eta_steps - 1)  # later steps use the last η
        y, (h,) = oracles.equilibrium(x, (h,), p | {"eta": p["eta"][:, n]}, cell.activation, cell.start)
        return y, (h, count + 1)

    return counted if cell.eta_steps else step


def oracle_of(layer):
    steps = [step_of(cell) for cell in layer.cells]
    return lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt)


# ---- equations


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("outer", ["same", "identity"])
@pytest.mark.parametrize("recurrent", ["low-rank", "full"])
def test_forms(recurrent, outer, activation):
    layer = make("irnn", 2, 4, 2, recurrent=recurrent, outer=outer, activation=activation, rank=2, eta=0.3)
    assert_matches(layer, oracle_of(layer))


@pytest.mark.parametrize("start", ["previous", "zero"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("depth", [1, 3])
def test_sign_start_and_depth(sign, start, depth):
    layer = make("ernn", sign=sign, start=start, depth=depth, gamma=1.4, activation="tanh", eta=0.3)
    assert_matches(layer, oracle_of(layer))


@pytest.mark.parametrize("num_layers", [1, 2])
def test_eta_of_each_time_step(num_layers):
    layer = make("irnn", num_layers=num_layers, K=2, eta_steps=4, eta=0.3)
    assert layer.cells[0].eta.shape == (2, 4)
    assert_matches(layer, oracle_of(layer), length=7)  # beyond the four


def test_names():
    for name, K in (("irnn", 5), ("sirnn", 1), ("ernn", 3)):
        cell = make(name).cells[0]
        assert (cell.K, len(cell.eta), cell.start, cell.activation) == (K, K, "previous", "relu")
        assert (cell.recurrent, cell.outer, float(cell.gamma), float(cell.sign)) == ("low-rank", "same", 1, 1)


def test_an_own_transition_is_a_plug_in():
    class Cubic(chronode.nn.EquilibriumCell):
        def transition(self, q, x):
            return torch.tanh(q**3 / 10 + x)

    torch.manual_seed(0)
    cell = Cubic(2, 3, K=60, eta=0.5, solver="steps")
    h = cell(cell.project(torch.ones(1, 2)), (torch.full((1, 3), 0.2),), torch.ones(1, 1))[0]
    q = h + 0.2
    torch.testing.assert_close(cell.transition(q, cell.project(torch.ones(1, 2))), q)


OPTIONS = (
    {"activation": "tanh"},
    {"activation": "relu", "outer": "identity", "start": "zero"},
    {"recurrent": "full", "sign": -1, "activation": "sigmoid", "depth": 2},
    {"eta_steps": 2},
    {"recurrent": "full", "solver": "equilibrium", "activation": "tanh", "tolerance": 1e-12},
    {"recurrent": "low-rank", "solver": "equilibrium", "activation": "sigmoid", "gamma": 3.0, "tolerance": 1e-12},
)


@pytest.mark.parametrize("options", OPTIONS)
def test_gradients(options):
    check_gradients(make("irnn", 1, 2, K=2, eta=0.3, noise=0.15, **options), length=2)


# ---- initialization


def test_initialization():
    torch.manual_seed(0)
    cell = chronode.create("irnn", 60, 80, rank=20, K=3).cells[0]
    for value, deviation in ((cell.v1, 0.03), (cell.v2, 0.03), (cell.inputs.weight, 0.1)):
        np.testing.assert_allclose(array(value).std(), deviation, rtol=0.1)
        assert abs(array(value).mean()) < 0.1 * deviation
    wide = chronode.create("irnn", 60, 80, input_std=2.0).cells[0]
    np.testing.assert_allclose(array(wide.inputs.weight).std(), 2.0, rtol=0.1)
    assert torch.equal(cell.v1, -cell.v2.T)
    assert not cell.inputs.bias.any()
    assert cell.eta.tolist() == pytest.approx([0.01] * 3)


@property_test
@given(
    st.sampled_from(["irnn", "sirnn", "ernn"]),
    st.sampled_from(["relu", "tanh", "sigmoid"]),
    st.sampled_from(["low-rank", "full"]),
    st.floats(0.01, 100),
    st.integers(0, 999),
)
def test_an_untrained_network_does_not_expand(name, activation, recurrent, size, seed):
    """‖∂h'/∂h‖ ≤ 1 everywhere: two states never move apart."""
    cell = make(name, 2, 12, seed=seed, noise=0, activation=activation, recurrent=recurrent).cells[0]
    rng = torch.Generator().manual_seed(seed)
    x, h = (scale * torch.randn(1, n, generator=rng).double() for scale, n in ((1.0, 2), (size, 12)))
    assert norm(jacobian(lambda h: cell(cell.project(x), (h,), None)[0], h)[0, :, 0]) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["irnn", "sirnn", "ernn"])
def test_an_untrained_network_stays_small_over_5000_steps(name):
    torch.manual_seed(0)
    layer = chronode.create(name, 3, 64)
    with torch.no_grad():
        assert float(layer(torch.randn(2, 5000, 3))[0].abs().max()) < 100


@property_test
@given(st.integers(1, 64), st.floats(0.1, 5), st.integers(0, 999))
def test_full_matrix_starts_below_gamma(size, gamma, seed):
    cell = make("irnn", 1, size, seed=seed, noise=0, recurrent="full", gamma=gamma).cells[0]
    assert norm(array(cell.u)) < gamma


def test_low_rank_has_no_equilibrium_at_gamma_1():
    with pytest.raises(ValueError, match="gamma"):
        chronode.create("irnn", 2, 4, solver="equilibrium")


# ---- the equilibrium


def contracting(seed, **options):
    """A smooth cell with ‖PU‖ < γ, an input projected by it, and a previous state."""
    settings = {"recurrent": "full", "activation": "tanh", "solver": "equilibrium", "tolerance": 1e-12} | options
    cell = make("irnn", 2, 4, seed=seed, noise=0, **settings).cells[0]
    rng = torch.Generator().manual_seed(seed)
    x = cell.project(3 * torch.randn(1, 2, generator=rng, dtype=torch.float64)).detach()
    return cell, x, torch.randn(1, 4, generator=rng, dtype=torch.float64)


def one_step(cell, x):
    return lambda h: cell(x, (h.unsqueeze(0),), torch.ones(1, 1).double())[0].squeeze(0)


kinds = st.fixed_dictionaries(
    {
        "activation": st.sampled_from(["tanh", "sigmoid", "relu"]),
        "outer": st.sampled_from(["same", "identity"]),
        "depth": st.integers(1, 2),
        "sign": st.sampled_from([1, -1]),
        "gamma": st.floats(0.7, 2.0),
    }
)


@property_test
@given(st.integers(0, 999), kinds)
def test_identity_gradient_at_equilibrium(seed, kind):
    cell, x, h = contracting(seed, **kind)
    np.testing.assert_allclose(jacobian(one_step(cell, x), h[0]), -kind["sign"] * np.eye(4), atol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("start", ["previous", "zero"])
def test_identity_gradient_of_many_steps(sign, start):
    cell, x, h = contracting(1, sign=sign, start=start, solver="steps", K=80, eta=0.5)
    np.testing.assert_allclose(jacobian(one_step(cell, x), h[0]), -sign * np.eye(4), atol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_over_time_keep_norm_1(sign):
    layer = make("irnn", 2, 4, noise=0, recurrent="full", solver="equilibrium", activation="tanh", sign=sign)
    x = torch.randn(1, 31, 2, generator=torch.Generator().manual_seed(0)).double()
    product = jacobian(lambda h: layer(x, (h.view(1, 1, 4),))[0][0, -1], torch.full((4,), 0.3).double())
    np.testing.assert_allclose(product, (-sign) ** 31 * np.eye(4), atol=1e-7)


@pytest.mark.parametrize(("sign", "apart"), [(1, 2), (-1, 1)])
def test_at_the_equilibrium_the_order_of_inputs_is_lost(sign, apart):
    """The state is a sum over time, whose terms only have a sign: no readout can repeat a sequence."""
    layer = make("irnn", 2, 4, noise=0, recurrent="full", solver="equilibrium", activation="tanh", sign=sign)
    x = torch.randn(1, 9, 2, generator=torch.Generator().manual_seed(0)).double()
    swapped = x.clone()
    swapped[:, [0, apart]] = x[:, [apart, 0]]
    before, after = layer(x)[0][0], layer(swapped)[0][0]
    assert (before - after)[apart - 1].abs().max() > 0.01
    torch.testing.assert_close(before[apart:], after[apart:])


@property_test
@given(st.integers(0, 999), kinds)
def test_the_equilibrium_is_the_root_that_scipy_finds(seed, kind):
    cell, x, h = contracting(seed, **kind)
    p, shift = parameters(cell), kind["sign"] * array(h)
    shared = array(cell.project(torch.zeros(1, cell.input_size, dtype=x.dtype)))
    slopes = array(cell.project(torch.eye(cell.input_size, dtype=x.dtype))) - shared
    raw = np.linalg.lstsq(slopes.T, (array(x) - shared)[0], rcond=None)[0][None]  # the x that was projected

    def residual(g):
        q = g[None] + shift
        return (oracles.transition(q, raw, p, cell.activation) - p["gamma"] * q)[0]

    ours = array(one_step(cell, x)(h[0]))
    np.testing.assert_allclose(residual(ours), 0, atol=1e-12)
    root, _, found, _ = fsolve(residual, np.zeros(4), xtol=1e-13, full_output=True)
    assert found == 1 or kind["activation"] == "relu"  # fsolve may stop at a kink
    if found == 1:
        np.testing.assert_allclose(ours, root, atol=1e-9)


@property_test
@given(st.integers(0, 999), kinds, st.floats(0.05, 0.45), st.sampled_from(["previous", "zero"]))
def test_recursion_converges_at_a_geometric_rate(seed, kind, eta, start):
    cell, x, h = contracting(seed, **kind)
    root = array(one_step(cell, x)(h[0]))
    errors = []
    for K in range(1, 13):
        steps, _, _ = contracting(seed, **kind, solver="steps", K=K, eta=eta, start=start)
        errors.append(np.linalg.norm(array(one_step(steps, x)(h[0])) - root))
    slope = norm(array(cell.u)) ** (2 if kind["outer"] == "same" else 1)
    slope *= np.prod([norm(array(layer.weight)) for layer in cell.deeper])
    rate = 1 - eta * (kind["gamma"] - slope)  # Proposition 2, for φ of slope at most 1
    assert rate < 1
    assert all(later <= rate * earlier + 1e-10 for earlier, later in pairwise(errors))


@pytest.mark.parametrize("depth", [1, 2])
def test_implicit_gradients_are_those_of_many_unrolled_steps(depth):
    x = torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    gradients = []
    for options in ({"solver": "equilibrium", "tolerance": 1e-12}, {"solver": "steps", "K": 150, "eta": 0.5}):
        layer = make("irnn", 2, 4, noise=0, recurrent="full", activation="tanh", depth=depth, **options)
        wanted = {name: p for name, p in layer.named_parameters() if not name.endswith("eta")}
        loss = (layer(x)[0] * torch.linspace(-1, 1, 40).double().view(2, 5, 4)).sum()
        gradients.append(torch.autograd.grad(loss, [x, *wanted.values()]))
    for implicit, unrolled in zip(*gradients, strict=True):
        torch.testing.assert_close(implicit, unrolled, rtol=1e-8, atol=1e-9)


@property_test
@given(st.integers(0, 999), st.sampled_from(["tanh", "sigmoid", "relu"]), st.sampled_from(["same", "identity"]))
def test_residual_jacobian(seed, activation, outer):
    cell, x, q = contracting(seed, activation=activation, outer=outer)
    p = parameters(cell)
    a = array(q) @ p["U"].T @ p["P"].T + array(x)
    slopes = {"tanh": 1 - np.tanh(a) ** 2, "relu": 1.0 * (a > 0)}
    slopes["sigmoid"] = oracles.sigmoid(a) * (1 - oracles.sigmoid(a))
    expected = np.diag(slopes[activation][0]) @ p["P"] @ p["U"] - p["gamma"] * np.eye(4)
    got = array(cell.residual_jacobian(q, x))[0]
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert (np.linalg.eigvals(got).real < 0).all()


@property_test
@given(
    st.integers(1, 10),
    st.floats(0.001, 0.3),
    st.floats(0.5, 2),
    st.floats(-1, 1),
    st.sampled_from(["same", "identity"]),
)
def test_small_K_remembers_in_the_linear_regime(K, eta, gamma, u, outer):
    options = {"K": K, "eta": eta, "gamma": gamma, "outer": outer, "start": "previous", "solver": "steps"}
    cell, _, h = contracting(0, activation="relu", **options)
    scale = torch.tensor([u, u / 2, -u, 0.3], dtype=torch.float64)
    x = torch.full((1, 4), 1e6, dtype=torch.float64)
    with torch.no_grad():
        cell.u.copy_(torch.diag(scale))
    slope = array(scale) ** (2 if outer == "same" else 1)  # λ, the eigenvalues of PU; the units are all active
    expected = 2 * (1 - eta * (gamma - slope)) ** K - 1
    np.testing.assert_allclose(jacobian(one_step(cell, x), h[0]), np.diag(expected), atol=1e-9)
