"""UnICORNN: its equations, its inverse, and what its paper proves about it."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import assert_matches, check_gradients, jacobian, make, zeros
from oracles import array
from torch.func import functional_call

import chronode

finite = st.floats(-3, 3)


def layer_parameters(cell, below):
    """A cell's parameters as the oracle takes them; the input matrix is (V, Λ), V with `below` columns."""
    weight = array(cell.inputs.weight)
    p = {"b": array(cell.inputs.bias), "w": array(cell.w), "c": array(cell.c)}
    p |= {"delta": float(cell.delta_t), "alpha": float(cell.alpha)}
    return p | {"V": weight[:, :below], "Lambda": weight[:, below:]}


def unicornn_oracle(layer, skip=None):
    sizes = [layer.input_size] + [layer.hidden_size] * (layer.num_layers - 1)
    parameters = [layer_parameters(cell, below) for cell, below in zip(layer.cells, sizes, strict=True)]
    return lambda x, dt: oracles.unicornn_stack(x, zeros(layer, len(x)), dt, parameters, skip)


# ---- equations


@pytest.mark.parametrize("train_c", [True, False])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_equations(num_layers, train_c):
    layer = make("unicornn", num_layers=num_layers, delta_t=0.6, alpha=1.7, train_c=train_c)
    assert_matches(layer, unicornn_oracle(layer), length=12)


def test_settings_of_each_layer():
    layer = make("unicornn", num_layers=3, delta_t=[0.1, 0.4, 0.9], alpha=[0.0, 2.0, 9.0])
    assert_matches(layer, unicornn_oracle(layer), length=12)


@pytest.mark.parametrize("skip", [2, 3])
def test_residual_stacking(skip):
    layer = make("unicornn", num_layers=6, delta_t=0.8, residual=skip)
    # Layer S + 1 hears the input signal, y^0, through a matrix of the input's width; those above hear layers.
    assert [cell.inputs.weight.shape[1] for cell in layer.cells][skip:] == [5] + [6] * (5 - skip)
    assert_matches(layer, unicornn_oracle(layer, skip), length=12)


def test_regular_sampling_is_the_papers_model():
    layer = make("unicornn", num_layers=2, delta_t=0.5)
    x, _ = oracles.sequences()
    expected = unicornn_oracle(layer)(x, np.ones(x.shape[:2]))
    oracles.assert_same(layer(torch.from_numpy(x)), expected)


@pytest.mark.parametrize("options", [{}, {"residual": 2, "num_layers": 4}, {"train_c": False}])
def test_gradients(options):
    check_gradients(make("unicornn", 1, 2, delta_t=0.7, alpha=1.3, **options))


def test_frozen_c_gets_no_gradient():
    layer = make("unicornn", train_c=False)
    layer(torch.randn(2, 4, 2).double())[0].sum().backward()
    assert layer.cells[0].c.grad is None and layer.cells[0].w.grad is not None


def test_initialization():
    torch.manual_seed(0)
    cell = chronode.create("unicornn", 50, 400).cells[0]
    bound = np.sqrt(6 / ((1 + 8**2) * 50))  # kaiming_uniform, a = 8, fan_in = 50
    for value, low, high in ((cell.inputs.weight, -bound, bound), (cell.w, 0, 1), (cell.c, -0.1, 0.1)):
        value, width = array(value), high - low
        assert low <= value.min() < low + 0.02 * width and high - 0.02 * width < value.max() <= high
        np.testing.assert_allclose(value.mean(), (low + high) / 2, atol=0.06 * width)
    assert not cell.inputs.bias.any()


# ---- the inverse


def rollout(cell, u, dts, state):
    """The states before and after every step."""
    states = [state]
    with torch.no_grad():
        for u_n, dt_n in zip(u, dts, strict=True):
            states.append(cell(u_n, states[-1], dt_n)[1])
    return states


def drift(dtype, steps, delta, alpha, irregular=False):
    """The largest error of the states reconstructed from the last one alone, relative to the largest state."""
    torch.manual_seed(0)
    cell = chronode.create("unicornn", 3, 16, delta_t=delta, alpha=alpha).cells[0].to(dtype)
    u = cell.project(torch.randn(steps, 2, 3, dtype=dtype)).detach()
    dts = 2 * torch.rand(steps, 2, 1, dtype=dtype) if irregular else torch.ones(steps, 2, 1, dtype=dtype)
    states = rollout(cell, u, dts, cell.initial_state(2, u))
    backward = [states[-1]]
    with torch.no_grad():
        for u_n, dt_n in zip(u.flip(0), dts.flip(0), strict=True):
            backward.append(cell.inverse(u_n, backward[-1], dt_n))
    there, back = (torch.stack([torch.stack(s) for s in path]) for path in (states, backward[::-1]))
    return float((there - back).abs().max() / there.abs().max())


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize(("delta", "alpha"), [(0.0343, 0.0), (0.126, 13.0)])  # the paper's Table 6
def test_inverse_recovers_thousands_of_steps(delta, alpha, irregular):
    assert drift(torch.float64, 4000, delta, alpha, irregular) < 1e-13
    assert drift(torch.float32, 4000, delta, alpha, irregular) < 5e-6


def test_inverse_in_single_precision_over_the_length_of_eigenworms():
    assert drift(torch.float32, 17984, 0.0343, 0.0) < 3e-5


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(0.01, 1.0), st.floats(0, 20), st.floats(0, 5), st.integers(0, 1000))
def test_one_step_back(delta, alpha, dt, seed):
    cell = make("unicornn", seed=seed, noise=1.0, delta_t=delta, alpha=alpha).cells[0]
    rng = torch.Generator().manual_seed(seed)
    x, y, z = (torch.randn(2, 3, generator=rng, dtype=torch.float64) for _ in range(3))
    dts = torch.full((2, 1), dt, dtype=torch.float64)
    after = [part.detach() for part in cell(x, (y, z), dts)[1]]
    p = layer_parameters(cell, 2)
    own = {name: p[name] for name in ("w", "c", "delta", "alpha")}
    scale = max(float(a.abs().max()) for a in (y, z, *after)) * (1 + dt * delta * (1 + alpha))
    back, wanted = cell.inverse(x, after, dts), oracles.unicornn_inverse(array(x), map(array, after), dt, **own)
    for got, before, oracle in zip(back, (y, z), wanted, strict=True):
        np.testing.assert_allclose(array(got), array(before), atol=1e-13 * scale)
        np.testing.assert_allclose(array(got), oracle, atol=1e-13 * scale)


# ---- theorems


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.floats(0.01, 1.0),
    st.floats(0, 20),
    st.floats(0, 3),
    st.lists(finite, min_size=9, max_size=9),
    st.integers(0, 99),
)
def test_phase_space_volume_is_kept(delta, alpha, dt, numbers, seed):
    cell = make("unicornn", seed=seed, noise=1.0, delta_t=delta, alpha=alpha).cells[0]
    u, *state = torch.tensor(numbers, dtype=torch.float64).view(3, 1, 3)

    def step(flat):
        return torch.cat(cell(u, flat.view(2, 1, 3).unbind(0), torch.full((1, 1), dt).double())[1]).flatten()

    one_step = jacobian(step, torch.cat(state).flatten())
    # Entries as large as e²α cancel in the determinant, so its rounding error grows with them.
    assert abs(np.linalg.det(one_step) - 1) < 1e-13 * max(1, np.abs(one_step).max()) ** 3


def energy(y, z, u, w, alpha):
    """The Hamiltonian (4) of each row."""
    a = np.abs(w * y + u)
    log_cosh = a + np.log1p(np.exp(-2 * a)) - np.log(2)
    return (alpha / 2 * y**2 + z**2 / 2 + log_cosh / w).sum(-1)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 9.0])
def test_energy_does_not_drift_under_constant_input(alpha):
    cell = make("unicornn", 1, 4, noise=0, delta_t=0.2, alpha=alpha).cells[0]
    u = torch.linspace(-1, 1, 4, dtype=torch.float64).view(1, 4)
    start = (torch.full((1, 4), 0.7, dtype=torch.float64), torch.full((1, 4), -0.4, dtype=torch.float64))
    states = rollout(cell, u.expand(4000, 1, 4), torch.ones(4000, 1, 1).double(), start)
    y, z = (np.concatenate([array(s[i]) for s in states]) for i in (0, 1))
    h = energy(y, z, array(u), array(cell.w), alpha)
    assert np.abs(h - h[0]).max() < 0.4 * h[0]  # it swings by O(Δt),
    assert abs(h[-1000:].mean() / h[:1000].mean() - 1) < 2e-3  # about a mean that stays


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.floats(0.1, 20), st.integers(0, 999), st.sampled_from([1.0, 1e2, 1e6]), st.integers(1, 3))
def test_bounds_c1(alpha, seed, size, num_layers):
    # On t in [0, 1], where the paper's ODE lives: over long times an input in resonance leaves the bound.
    steps = 100
    layer = make("unicornn", 2, 4, num_layers, seed=seed, noise=1.0, delta_t=1 / steps, alpha=alpha)
    x = size * torch.randn(2, steps, 2, generator=torch.Generator().manual_seed(seed)).double()
    t, beta = (1 + np.arange(steps)) / steps, max(1 + 2 * alpha, 4 * alpha**2)
    y = array(layer(x)[0])
    assert (np.abs(y) <= np.sqrt(2 / alpha * (1 + 2 * beta * t))[:, None]).all()
    for end in (10, 50, 100):
        _, (y_end, z_end) = layer(x[:, :end])
        assert y_end.abs().max() <= np.sqrt(2 / alpha * (1 + 2 * beta * t[end - 1]))
        assert z_end.abs().max() <= np.sqrt(2 * (1 + 2 * beta * t[end - 1]))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.floats(0.1, 10), st.integers(0, 999), st.integers(1, 3))
def test_gradient_bound_12(alpha, seed, num_layers):
    steps, delta = 50, 1 / 50
    layer = make("unicornn", 2, 4, num_layers, seed=seed, noise=1.0, delta_t=delta, alpha=alpha)
    rng = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(1, steps, 2, generator=rng).double() - 1
    target = 2 * torch.rand(1, steps, 4, generator=rng).double() - 1
    (0.5 * (layer(x)[0] - target).square().sum(-1).mean()).backward()
    beta, strength = max(1 + 2 * alpha, 4 * alpha**2), max(2, float(layer.cells[-1].w.detach().abs().max()) + alpha)
    gamma, growth = strength + strength**2 / 2, 1 + 2 * beta  # T = 1
    weights = np.prod([max(1, float(c.inputs.weight.detach().abs().sum(1).max())) for c in layer.cells])
    size = 2 + np.sqrt(2 * growth) + (2 + alpha) * np.sqrt(2 / alpha * growth)
    bound = (1 - delta**num_layers) / (1 - delta) * (1 + 2 * gamma) * weights
    bound *= (1 + np.sqrt(2 / alpha * growth)) * size
    assert max(float(p.grad.abs().max()) for p in layer.parameters()) <= bound


def first_step_share(delta, n=40):
    """dE_n/dw through step 1 alone, divided by the leading term of formula (14)."""
    cell = make("unicornn", 1, 1, noise=0, delta_t=delta, alpha=1.5).cells[0]
    one = torch.ones(1, 1, dtype=torch.float64)
    w = cell.w.detach().clone().requires_grad_()
    before = (0.8 * one, 0.3 * one)
    _, state = functional_call(cell, {"w": w}, (0.2 * one, before, one))
    for _ in range(n - 1):
        _, state = cell(0.2 * one, state, one)
    (gradient,) = torch.autograd.grad(0.5 * (state[0] - 0.1).square().sum(), w)
    slope = 1 - torch.tanh(w * 0.8 + 0.2) ** 2
    leading = -delta * torch.sigmoid(cell.c) ** 2 * (n * delta) * slope * 0.8 * (state[0] - 0.1)
    return float((gradient / leading).detach())


def test_representation_formula_14():
    errors = [abs(first_step_share(delta) - 1) for delta in (4e-3, 2e-3, 1e-3)]
    assert errors[-1] < 1e-3
    assert errors[0] > 3 * errors[1] > 9 * errors[2]  # of a higher order in Δt than the term itself
