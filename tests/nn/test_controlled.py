"""Neural CDEs, over splines and over log-signature windows."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_flows as models
import pytest
import torch
from layer_checks import check_gradients, make
from oracles import array
from scipy.interpolate import CubicHermiteSpline

import chronode


def parameters(cell):
    field = cell.field
    p = {"W": array(cell.start.weight), "b": array(cell.start.bias)}
    p |= {"W1": array(field.inner.weight), "b1": array(field.inner.bias)}
    return p | {"W2": array(field.outer.weight), "b2": array(field.outer.bias)}


def assert_sequences(layer, sequence, x, dt):
    got, _ = layer(torch.from_numpy(x), dt=torch.from_numpy(dt))
    expected = np.stack([sequence(*one) for one in zip(x, dt, strict=True)])
    np.testing.assert_allclose(array(got), expected, rtol=1e-10)


@pytest.mark.parametrize("interpolation", ["cubic", "linear"])
def test_ncde(interpolation):
    layer = make("ncde", interpolation=interpolation)
    p = parameters(layer.cells[0])
    x, dt = oracles.sequences()
    assert_sequences(
        layer, lambda x, dt: models.ncde_sequence(x, dt, p, interpolation == "cubic"), x, np.maximum(dt, 0.01)
    )
    check_gradients(layer)


def test_the_splines_oracle_is_a_hermite_spline():
    """Without the limit, the slopes that the oracle uses are SciPy's."""
    rng = np.random.default_rng(0)
    x, dt = rng.normal(size=(6, 2)), rng.uniform(0.5, 2, 6)
    t = np.cumsum(dt)
    backward = np.diff(x, axis=0) / dt[1:, None]
    spline = CubicHermiteSpline(t, x, np.concatenate([backward[:1], backward]))
    for s in (0.0, 0.3, 1.0):
        for n, slope in enumerate(models.cubic_slopes(x, dt, s, limit=False), start=1):
            np.testing.assert_allclose(slope / dt[n], spline(t[n - 1] + s * dt[n], 1), rtol=1e-9, atol=1e-12)


def test_the_path_does_not_overshoot():
    """A fast change, then a slow one: within every interval the path goes one way, so dX/ds keeps its sign."""
    x = np.array([[0.0], [1.0], [1.1], [0.9], [0.9]])
    dt = np.array([0, 0.01, 5.0, 0.1, 3.0])
    moves = np.diff(x[:, 0])
    for s in np.linspace(0, 1, 21):
        slopes = np.array(models.cubic_slopes(x, dt, s, limit=True))[:, 0]
        assert (slopes * np.sign(moves) >= -1e-12).all()


def test_ncde_ends_where_the_path_ends():
    """With a constant f, z moves by f (X_n - X_0), however the path went: RK4 integrates the spline exactly."""
    layer = make("ncde", 2, 3)
    (cell,) = layer.cells
    cell.field.outer.weight.data.zero_()
    x, dt = (torch.from_numpy(a) for a in oracles.sequences())
    y, _ = layer(x, dt=dt)
    rise = torch.cat([dt[:, 1:].sum(1, keepdim=True), x[:, -1] - x[:, 0]], 1)
    f = torch.tanh(cell.field.outer.bias).view(3, 3)
    torch.testing.assert_close(y[:, -1], cell.start(x[:, 0]) + rise @ f.T)


def test_several_observations_at_once():
    layer = make("ncde")
    x = torch.randn(2, 6, 2).double()
    y, _ = layer(x, dt=torch.tensor([0.0, 1, 0, 0, 1, 2]).double().expand(2, 6))
    assert torch.isfinite(y).all()


# ---- log-signatures


@pytest.mark.parametrize("window", [1, 3, 8])
def test_log_ncde(window):
    layer = make("log-ncde", window=window)
    p = parameters(layer.cells[0])
    x, dt = oracles.sequences(length=11)
    assert_sequences(layer, lambda x, dt: models.log_ncde_sequence(x, dt, p, window), x, dt)
    check_gradients(layer, length=4)


def test_area_of_a_square():
    """Once round the unit square, against the clock: no rise, area 1 of the last two channels."""
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0.0]])
    path = np.concatenate([np.zeros((5, 1)), corners], axis=1)
    np.testing.assert_allclose(models.log_signature(path), [0, 0, 0, 0, 0, 1], atol=1e-15)
    layer = make("log-ncde", window=8)
    _, state = layer(torch.from_numpy(corners)[None], dt=torch.zeros(1, 5).double())
    np.testing.assert_allclose(array(state[3])[0, 0], [0, 0, 1], atol=1e-15)


def test_window_of_one_is_the_linear_path():
    """No area within a straight line: the areas' columns of f do nothing."""
    log, linear = make("log-ncde", window=1), make("ncde", interpolation="linear", solver="midpoint")
    with torch.no_grad():
        for name in ("start.weight", "start.bias", "field.inner.weight", "field.inner.bias"):
            linear.cells[0].get_parameter(name).copy_(log.cells[0].get_parameter(name))
        wide = log.cells[0].field.outer
        linear.cells[0].field.outer.weight.copy_(wide.weight.view(3, 6, 3)[:, :3].reshape(9, 3))
        linear.cells[0].field.outer.bias.copy_(wide.bias.view(3, 6)[:, :3].flatten())
    x, dt = (torch.from_numpy(a) for a in oracles.sequences())
    torch.testing.assert_close(log(x, dt=dt)[0], linear(x, dt=dt)[0])


# ---- wide inputs, stacks


def test_wide_inputs_are_mapped_to_channels():
    assert chronode.create("log-ncde", 30, 4).cells[0].path.weight.shape == (8, 30)
    assert chronode.create("ncde", 30, 4).cells[0].channels == 30
    layer = make("ncde", 5, 3, channels=2)
    (cell,) = layer.cells
    narrow = make("ncde", 2, 3)
    narrow.load_state_dict({k: v for k, v in layer.state_dict().items() if "path" not in k and "extra" not in k}, False)
    x, dt = torch.randn(2, 6, 5).double(), torch.rand(2, 6).double()
    torch.testing.assert_close(layer(x, dt=dt)[0], narrow(cell.path(x), dt=dt)[0])


@pytest.mark.parametrize("name", ["ncde", "log-ncde"])
def test_a_stack_of_cells_with_states_of_unequal_width(name):
    """The packed state is as wide as the widest cell's; the others' rest is 0."""
    layer = make(name, 2, 3, num_layers=2)
    x, dt = torch.randn(4, 7, 2).double(), torch.rand(4, 7).double()
    y, state = layer(x, dt=dt)
    assert state[1].shape == (2, 4, 3) and not state[1][0, :, 2:].any()
    first, middle = layer(x[:, :3], dt=dt[:, :3])
    second, last = layer(x[:, 3:], middle, dt=dt[:, 3:])
    torch.testing.assert_close(torch.cat([first, second], 1), y)
    for part, wanted in zip(last, state, strict=True):
        torch.testing.assert_close(part, wanted)
