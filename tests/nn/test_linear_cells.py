"""Cells that are linear in their state: LinOSS, D-LinOSS, LRU, S5, S4D, minGRU, minLSTM."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_linear as models
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import check_gradients, make
from oracles import array
from scipy.linalg import expm

import chronode
from chronode.nn import LinearCell
from chronode.nn.cells.linoss import motion
from chronode.settings import SettingError

LINEAR = {
    name: model
    for name, model in chronode.models().items()
    if issubclass(model.cell, LinearCell) and model.cell.__module__.startswith("chronode.")
}
SCHEMES = [
    *(("linoss", scheme) for scheme in ("exact", "im", "imex")),
    *(("d-linoss", scheme) for scheme in ("exact", "imex")),
    *((name, scheme) for name in ("s5", "s4d") for scheme in ("zoh", "bilinear")),
    *((name, None) for name in ("lru", "mingru", "minlstm")),
]


def build(name, scheme, *sizes, **options):
    return make(name, *sizes, **options, **({} if scheme is None else {"discretization": scheme}))


# ---- parameters of a cell, as the oracle takes them


def complex_rows(matrix):
    """(Re; Im) stacked over rows."""
    real, imaginary = np.split(array(matrix), 2)
    return real + 1j * imaginary


def readout(matrix):
    """y = Re(C h) = C_re Re h - C_im Im h, kept as (C_re, -C_im)."""
    real, imaginary = np.split(array(matrix), 2, axis=1)
    return real - 1j * imaginary


def stiffness(cell, s, G):
    """A as the scheme uses it: not negative, or within the bounds of the paper."""
    a = array(cell.stiffness)
    if cell.discretization != "imex" or not G.any():
        return np.maximum(a, 0)
    bounds = [(2 + s * G + sign * 2 * np.sqrt(1 + s * G)) / s**2 for sign in (-1, 1)]
    return np.clip(a, *bounds)


def step_of(name, cell):
    """The oracle's step of a cell, and the complex state it starts from."""
    if name in ("mingru", "minlstm"):
        gates = "zc" if name == "mingru" else "fic"
        p = {}
        for kind, value in (("W", cell.inputs.weight), ("b", cell.inputs.bias)):
            p |= dict(zip([f"{kind}_{gate}" for gate in gates], np.split(array(value), len(gates)), strict=True))
        return lambda x, state, dt: getattr(models, name)(x, state, dt, p), 1
    if name == "s4d":
        shape = cell.hidden_size, cell.state_size
        p = {"Lambda": (-np.exp(array(cell.log_decay)) + 1j * array(cell.frequency)).reshape(shape)}
        p |= {"C": (array(cell.C)[0] + 1j * array(cell.C)[1]).reshape(shape), "D": array(cell.D)}
        p |= {"Delta": np.exp(array(cell.log_step))[:, None]}
        p |= {"W": None if cell.input_size == cell.hidden_size else array(cell.mix.weight)}
        return lambda x, state, dt: models.s4d(x, state, dt, p, cell.discretization), 1
    p = {"B": complex_rows(cell.B), "C": readout(cell.C), "D": array(cell.D)}
    if name == "lru":
        p |= {key: array(getattr(cell, key)) for key in ("nu", "theta", "log_gamma")}
        return lambda x, state, dt: models.lru(x, state, dt, p), 1
    if name == "s5":
        p |= {"Lambda": -np.exp(array(cell.log_decay)) + 1j * array(cell.frequency)}
        p |= {"Delta": np.exp(array(cell.log_step)), "C": p["C"] / 2}
        return lambda x, state, dt: models.s5(x, state, dt, p, cell.discretization), 1
    s = oracles.sigmoid(array(cell.rate))
    G = np.maximum(array(cell.damping), 0) if name == "d-linoss" else np.zeros_like(s)
    p |= {"A": stiffness(cell, s, G), "G": G, "s": s}
    return lambda x, state, dt: models.oscillators(x, state, dt, p, cell.discretization), 2


def run_oracle(name, layer, x, dt):
    """Outputs, and the final states as the layer keeps them: real parts, then imaginary ones."""
    finals = []
    for cell in layer.cells:
        step, parts = step_of(name, cell)
        shape = (len(x), cell.hidden_size, cell.state_size) if name == "s4d" else (len(x), cell.units)
        dtype = float if name.startswith("min") else complex
        x, state = oracles.run(step, x, (np.zeros(shape, dtype),) * parts, dt)
        state = [part.reshape(len(part), -1) for part in state]
        finals.append(state if dtype is float else [real for part in state for real in (part.real, part.imag)])
    return x, finals


@pytest.mark.parametrize(("name", "scheme"), SCHEMES)
@pytest.mark.parametrize("sizes", [(2, 3, 2), (3, 3, 1)])
def test_equations(name, scheme, sizes):
    """By the loop, for a stack and for as many inputs as outputs, with irregular gaps."""
    layer = build(name, scheme, *sizes)
    x, dt = oracles.sequences(features=sizes[0], length=8)
    oracles.assert_same(layer(torch.from_numpy(x), dt=torch.from_numpy(dt)), run_oracle(name, layer, x, dt), rtol=1e-9)


@pytest.mark.parametrize(("name", "scheme"), SCHEMES)
def test_gradients(name, scheme):
    check_gradients(build(name, scheme, 2, 2))


@pytest.mark.parametrize("name", LINEAR)
def test_state_is_linear(name):
    """The state after a sum of starting states is the sum of the states, without the input counted twice."""
    layer = make(name, 3, 4)
    x, dt = (torch.from_numpy(a) for a in oracles.sequences(features=3))
    draws = torch.Generator().manual_seed(1)
    one, two = (
        tuple(torch.randn(part.shape, generator=draws).double() for part in layer.initial_state(3)) for _ in "ab"
    )
    both = tuple(a + b for a, b in zip(one, two, strict=True))
    ends = [layer(x, state, dt=dt)[1] for state in (one, two, None, both)]
    for a, b, none, end in zip(*ends, strict=True):
        torch.testing.assert_close(a + b - none, end)


# ---- gaps

COMPOSING = [("linoss", "exact"), ("d-linoss", "exact"), ("lru", None), ("s5", "zoh"), ("s4d", "zoh")]


@pytest.mark.parametrize(("name", "scheme"), COMPOSING)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(first=st.floats(0, 20), second=st.floats(0, 20), seed=st.integers(0, 99))
def test_gaps_compose(name, scheme, first, second, seed):
    """Without input, a gap of a + b is a gap of a and then one of b."""
    layer = build(name, scheme, 2, 3, seed=seed)
    draws = torch.Generator().manual_seed(seed)
    state = tuple(torch.randn(part.shape, generator=draws).double() for part in layer.initial_state(1))
    x = torch.zeros(1, 2).double()
    _, there = layer.step(x, layer.step(x, state, first)[1], second)
    _, at_once = layer.step(x, state, first + second)
    torch.testing.assert_close(there, at_once, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("name", "scheme"), [*COMPOSING[:2], ("s5", "zoh"), ("mingru", None), ("minlstm", None)])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(first=st.floats(0, 20), second=st.floats(0, 20))
def test_gaps_compose_with_an_input_that_is_held(name, scheme, first, second):
    layer = build(name, scheme, 2, 3)
    x = torch.tensor([[0.7, -1.2]]).double()
    _, there = layer.step(x, layer.step(x, None, first)[1], second)
    torch.testing.assert_close(there, layer.step(x, None, first + second)[1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("name", "scheme"), [("linoss", "imex"), ("d-linoss", "imex")])
def test_gaps_too_long_for_explicit_steps_are_reported(name, scheme):
    torch.manual_seed(0)
    layer = chronode.create(name, 2, 8, discretization=scheme)
    x = torch.randn(2, 40, 2)
    with pytest.warns(RuntimeWarning, match=r"the longest gap is dt = 50.*max_gap=.*discretization='exact'"):
        layer(x, dt=50.0)
    exact = chronode.create(name, 2, 8, discretization="exact")
    assert bool(torch.isfinite(exact(x, dt=50.0)[0]).all())


def test_imex_keeps_the_volume():
    """The determinant of its step is 1: the state can be computed backwards."""
    cell = build("linoss", "imex", 2, 3).cells[0]
    ((a, b), (c, d)), _ = cell.recurrence()(torch.zeros(1, 2 * 3 + 3).double(), torch.tensor([[1.7]]).double())
    torch.testing.assert_close(a * d - b * c, torch.ones(1, 3).double())


# ---- oscillations in closed form


def exact_motion(A, G, time):
    K = np.array([[-G, -A, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    return expm(K * time)


def matrix_of(A, G, time, undamped=False):
    A, G, time = (torch.tensor([value], dtype=torch.float64) for value in (A, G, time))
    c, s, q = (float(part) for part in motion(A, None if undamped else G, time))
    drag, A = 0.5 * float(G) * s, float(A)
    return np.array([[c - drag, -A * s, s], [s, c + drag, q]])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    stiffness=st.one_of(st.just(0.0), st.floats(1e-12, 40)),
    damping=st.one_of(st.just(0.0), st.floats(1e-9, 12)),
    time=st.floats(0, 6),
)
def test_motion_is_the_matrix_exponential(stiffness, damping, time):
    wanted = exact_motion(stiffness, damping, time)[:2]
    np.testing.assert_allclose(matrix_of(stiffness, damping, time), wanted, rtol=1e-10, atol=1e-13)
    wanted = exact_motion(stiffness, 0.0, time)[:2]
    np.testing.assert_allclose(matrix_of(stiffness, 0.0, time, undamped=True), wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("time", [1e-3, 0.2, 0.9, 1.1, 3.0])
@pytest.mark.parametrize("apart", [0.0, 1e-12, -1e-12, 1e-6, -1e-6, 1e-2, -1e-2])
def test_critical_damping(time, apart):
    A, G = 2.25 * (1 + apart), 3.0
    np.testing.assert_allclose(matrix_of(A, G, time), exact_motion(A, G, time)[:2], rtol=1e-11, atol=1e-16)


@pytest.mark.parametrize("damping", [None, 0.0, 0.3, 2.0, 9.0])
def test_gradients_of_the_motion(damping):
    """By stiffness, damping and time, also at a stiffness of nearly 0 and at the borders of the series."""
    stiffness = torch.tensor([1e-6, 0.2, 0.9999, 1.0, 4.0, 30.0]).double().requires_grad_()
    time = torch.tensor([0.3, 0.5, 0.8, 1.0, 2.0, 0.1]).double().requires_grad_()
    if damping is None:
        assert torch.autograd.gradcheck(lambda a, t: motion(a, None, t), (stiffness, time))
        return
    G = torch.full((6,), damping).double().requires_grad_()
    assert torch.autograd.gradcheck(motion, (stiffness, G, time))


def test_no_motion_without_time():
    zero = torch.zeros(3).double().requires_grad_()
    A, G = (torch.tensor(value).double().requires_grad_() for value in ([0.0, 1.0, 1.0], [0.0, 0.0, 5.0]))
    for damping in (None, G):
        c, s, q = motion(A, damping, zero)
        assert bool((c == 1).all()) and not s.any() and not q.any()
        gradients = torch.autograd.grad((c + s + q).sum(), [A, zero])
        assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


# ---- initial values


@pytest.mark.parametrize("scheme", ["exact", "imex"])
def test_eigenvalues_of_damped_oscillators(scheme):
    """Uniform r² between 0.81 and 1, and angles between 0 and π, as the eigenvalues of the 2 x 2 matrices show."""
    torch.manual_seed(0)
    cell = chronode.create("d-linoss", 2, 3000, discretization=scheme).double().cells[0]
    ((a, b), (c, d)), _ = cell.recurrence()(torch.zeros(1, 3 * 3000).double(), torch.ones(1, 1).double())
    entries = torch.broadcast_tensors(a, b, c, d)
    matrices = torch.stack(entries, dim=-1).view(-1, 2, 2)
    values = np.linalg.eigvals(array(matrices))
    square, angle = np.abs(values[:, 0]) ** 2, np.abs(np.angle(values[:, 0]))
    for found, low, high in ((square, 0.81, 1.0), (angle, 0.0, np.pi)):
        tenths, _ = np.histogram(found, 10, (low, high))
        assert tenths.sum() >= 2998 and (np.abs(tenths - 300) < 90).all()


def test_ring_of_the_lru():
    torch.manual_seed(0)
    cell = chronode.create("lru", 2, 3000, r_min=0.5, r_max=0.9, max_phase=1.0).double().cells[0]
    ((real, _), (imaginary, _)), forcing = cell.recurrence()(torch.ones(1, 9000).double(), torch.ones(1, 1).double())
    size = torch.hypot(real, imaginary)
    tenths = torch.histc(size.detach().square(), 10, 0.25, 0.81)
    assert float(tenths.sum()) >= 2998 and bool(((tenths - 300).abs() < 90).all())
    torch.testing.assert_close(forcing[0].square() + size.square(), torch.ones(1, 3000).double(), rtol=1e-5, atol=1e-5)
    phase = torch.atan2(imaginary, real).detach()
    assert float(phase.min()) >= 0 and float(phase.max()) <= 1


def test_s5_begins_as_hippo():
    """The diagonal system is the normal part of HiPPO-LegS in another basis: both have the same response."""
    torch.manual_seed(0)
    cell = chronode.create("s5", 1, 1, state_size=8, blocks=2).double().cells[0]
    n = np.arange(8)
    root = np.sqrt(2 * n + 1)
    legs = -np.where(n[:, None] > n, np.outer(root, root), np.diag(n + 1.0))
    normal = legs + np.outer(np.sqrt(n + 0.5), np.sqrt(n + 0.5))
    np.testing.assert_allclose(normal + normal.T, -np.eye(8), atol=1e-12)
    values = np.linalg.eigvals(normal)
    wanted = np.sort(values.imag[values.imag > 0])
    for block in np.split(array(cell.frequency), 2):
        np.testing.assert_allclose(np.sort(block), wanted, rtol=1e-5)
    np.testing.assert_allclose(np.exp(array(cell.log_decay)), 0.5, rtol=1e-6)


def test_s4d_begins_with_equally_spaced_frequencies():
    cell = chronode.create("s4d", 2, 3, state_size=4).cells[0]
    np.testing.assert_allclose(array(cell.frequency).reshape(3, 4), np.pi * np.tile(np.arange(4), (3, 1)), rtol=1e-6)
    assert bool(((cell.log_step > np.log(0.001)) & (cell.log_step < np.log(0.1))).all())


# ---- settings


@pytest.mark.parametrize(
    ("name", "wrong", "argument"),
    [
        ("linoss", {"discretization": "zoh"}, "discretization"),
        ("d-linoss", {"discretization": "im"}, "discretization"),
        ("s5", {"state_size": 6, "blocks": 4}, "blocks"),
        ("s5", {"step_min": 0.2, "step_max": 0.1}, "step_min"),
        ("lru", {"r_min": 0.9, "r_max": 0.5}, "r_max"),
        ("lru", {"r_max": 1.5}, "r_max"),
        ("lem", {"solver": "rk4"}, "solver"),
        *((name, {"state_size": 0}, "state_size") for name in ("linoss", "d-linoss", "lru", "s5", "s4d")),
    ],
)
def test_settings_that_do_not_fit(name, wrong, argument):
    with pytest.raises(SettingError) as caught:
        chronode.create(name, 2, 3, **wrong)
    assert caught.value.argument == argument
