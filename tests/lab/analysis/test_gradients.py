"""Gradient flow against closed forms, torch.func and finite differences."""

import json

import mpmath
import numpy as np
import pytest
import torch
from torch.func import jacrev

import chronode
from chronode.lab.analysis import GradientTracker, gradient_flow, gradient_table, loss_gradients, loss_surface
from chronode.lab.analysis._gradients import _step_jacobians, jacobians_of
from chronode.lab.analysis._instrumented import Instrumented
from chronode.model._model import SequenceModel
from chronode.nn import Cell, Layer, Solver


class LinearCell(Cell):
    """h' = A h + x, with A symmetric: its eigenvalues are its singular values."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        turn = torch.linalg.qr(torch.randn(hidden_size, hidden_size, dtype=torch.float64)).Q
        self.eigenvalues = torch.linspace(0.5, 0.9, hidden_size, dtype=torch.float64)
        self.a = torch.nn.Parameter(turn @ torch.diag(self.eigenvalues) @ turn.T)

    def forward(self, x, state, dt):
        h = state[0] @ self.a.T + x
        return h, (h,)


def series(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_linear_recurrence_has_the_powers_of_its_eigenvalues():
    layer = Layer(LinearCell, 3, 3).double()
    steps = 400
    flow = gradient_flow(layer, series(2, steps, 3).double(), singular_values=True)
    powers = steps - np.arange(steps + 1)
    np.testing.assert_allclose(flow.log10_norms, np.log10(0.9) * powers[None].repeat(2, 0), atol=1e-9)
    np.testing.assert_allclose(flow.step_singular_values[0, 0], [0.9, 0.7, 0.5], atol=1e-9)
    np.testing.assert_allclose(flow.log10_ratio, np.log10(0.9) * (steps - 2), atol=1e-9)


def test_all_singular_values_of_a_long_product_are_exact():
    """Powers of 0.9, 0.7 and 0.5: the smallest is 1e-332 of the largest, which no double can be."""
    steps = 1300
    flow = gradient_flow(Layer(LinearCell, 3, 3).double(), series(1, steps, 3).double(), singular_values=True)
    powers = steps - np.arange(steps + 1)
    wanted = np.log10([0.9, 0.7, 0.5]) * powers[:, None]
    np.testing.assert_allclose(flow.log10_singular_values, wanted[None], rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(("name", "steps", "part"), [("rnn", 150, None), ("lstm", 60, None), ("lstm", 300, 1)])
def test_singular_values_of_a_product_in_400_digits(name, steps, part):
    torch.manual_seed(0)
    layer, x = chronode.create(name, 2, 4).double(), series(1, steps, 2).double()
    flow = gradient_flow(layer, x, singular_values=True, part=part)
    opened = Instrumented(layer)
    jacobians = _step_jacobians(opened, opened.enter(x, None))
    kept = opened.columns(part).tolist()
    with mpmath.workdps(400):
        product = mpmath.eye(opened.size)
        for jacobian in jacobians:
            product = product * mpmath.matrix(jacobian[0].tolist())
        seen = mpmath.matrix([[product[i, j] for j in kept] for i in kept])
        wanted = [float(mpmath.log10(value)) for value in mpmath.svd_r(seen, compute_uv=False)]
    assert wanted[0] - wanted[-1] > 20
    np.testing.assert_allclose(flow.log10_singular_values[0, 0], wanted, atol=1e-6)


def test_directions_that_a_step_loses_have_no_singular_value():
    layer = Layer(LinearCell, 3, 3).double()
    with torch.no_grad():
        turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
        layer.cells[0].a.copy_(turn @ torch.diag(torch.tensor([0.9, 0.5, 0.0], dtype=torch.float64)) @ turn.T)
    flow = gradient_flow(layer, series(1, 50, 3).double(), singular_values=True)
    wanted = 50 * np.log10([0.9, 0.5])
    np.testing.assert_allclose(flow.log10_singular_values[0, 0, :2], wanted, atol=1e-9)
    assert flow.log10_singular_values[0, 0, 2] == -np.inf


def test_norms_far_below_the_smallest_double_are_kept():
    layer = Layer(LinearCell, 2, 2).double()
    with torch.no_grad():
        layer.cells[0].a.copy_(1e-3 * torch.eye(2))
    flow = gradient_flow(layer, series(1, 200, 2).double())
    assert flow.log10_norms[0, 0] == pytest.approx(-600)
    assert flow.norms[0, 0] == 0


@pytest.mark.parametrize("name", ["mmrnn", "lstm", "ode-rnn", "ltc", "unicornn", "skip-gru", "exprnn"])
def test_flow_is_the_jacobian_that_torch_func_finds(name):
    torch.manual_seed(0)
    layer = chronode.create(name, 2, 4).double()
    x, dt = series(1, 6, 2).double(), torch.rand(1, 6).double()
    opened = Instrumented(layer)
    inputs = opened.enter(x, dt)

    def last(start):
        h = tuple(start[None].split(opened.parts[0], dim=-1))
        for n in range(6):
            _, h = layer.cells[0](layer.cells[0].project(inputs.x[n]), h, inputs.dt[n])
        return torch.cat(h, dim=-1)[0]

    jacobian = jacrev(last)(opened.start(1)[0]).detach()
    flow = gradient_flow(layer, x, dt=dt)
    assert flow.norms[0, 0] == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)), rel=1e-9)


def test_a_stack_counts_all_its_layers():
    torch.manual_seed(0)
    layer = chronode.create("gru", 2, 3, num_layers=3, residual=1).double()
    x = series(1, 5, 2).double()

    def end(start):
        _, state = layer(x, (start.reshape(3, 1, 3),))
        return state[0].flatten()

    with chronode.backend("torch"):
        jacobian = torch.autograd.functional.jacobian(end, torch.zeros(9, dtype=torch.float64))
    assert gradient_flow(layer, x).norms[0, 0] == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)), rel=1e-9)


def test_as_many_probes_as_numbers_are_exact():
    x = series(2, 12, 2)
    options = {"hidden_size": 6, "norm": "frobenius", "dt": 0.3, "lengths": [12, 7]}
    exact = gradient_flow("mmrnn", x, method="exact", **options)
    probed = gradient_flow("mmrnn", x, method="probes", probes=12, **options)
    np.testing.assert_allclose(probed.log10_norms, exact.log10_norms, atol=1e-9)
    few = gradient_flow("mmrnn", x, method="probes", probes=4, **options)
    assert np.nanmax(np.abs(few.log10_norms - exact.log10_norms)) < 0.3


def test_wide_states_are_probed_unless_the_spectral_norm_is_asked_for():
    x = series(1, 3, 2)
    narrow, wide = (gradient_flow("lstm", x, hidden_size=size) for size in (80, 81))
    assert (narrow.method, narrow.norm) == ("exact", "spectral")
    assert (wide.method, wide.norm) == ("probes", "frobenius")
    asked = gradient_flow("lstm", x, hidden_size=81, norm="spectral")
    assert (asked.method, asked.norm) == ("exact", "spectral")
    assert gradient_flow("lstm", x, hidden_size=81, singular_values=True).method == "exact"


def test_a_padded_sequence_flows_as_it_does_alone():
    x = series(2, 9, 2)
    both = gradient_flow("lstm", x, lengths=[9, 4], hidden_size=5)
    alone = gradient_flow("lstm", x[1:, :4], hidden_size=5)
    np.testing.assert_allclose(both.log10_norms[1, :5], alone.log10_norms[0], atol=1e-12)
    assert np.isnan(both.log10_norms[1, 5:]).all()
    assert both.ratio[1] == pytest.approx(alone.ratio[0])


@pytest.mark.parametrize("sign", [1, -1])
def test_irnn_at_equilibrium_keeps_the_norm(sign):
    options = {"recurrent": "full", "solver": "equilibrium", "sign": sign, "hidden_size": 16}
    flow = gradient_flow("irnn", series(2, 100, 3), **options)
    np.testing.assert_allclose(flow.norms, 1, atol=1e-3)


@pytest.mark.parametrize("name", ["euler", "rk4"])
def test_lemmas_1_and_2_of_mmrnn(name):
    """The state Jacobian is I + T Σ b_i ∂f/∂h(K_i)·∂K_i/∂h - τ T I for one step of the solver; for Euler K_1 = h."""
    torch.manual_seed(0)
    w, tau, span = torch.randn(4, 4, dtype=torch.float64), 0.7, 0.3
    h = torch.randn(1, 4, dtype=torch.float64)

    def field(h):
        return torch.tanh(h @ w.T) - tau * h

    def slope(h):  # ∂(f - τ h)/∂h in closed form
        return (1 - torch.tanh(h @ w.T) ** 2).T * w - tau * torch.eye(4, dtype=torch.float64)

    solve = Solver(name, steps=1)
    found = jacobians_of(lambda h: solve(field, h, torch.tensor([[span]], dtype=torch.float64)), h)[0]
    eye = torch.eye(4, dtype=torch.float64)
    if name == "euler":
        expected = eye + span * slope(h)
    else:
        d1 = slope(h)
        k1 = field(h)
        d2 = slope(h + span / 2 * k1) @ (eye + span / 2 * d1)
        k2 = field(h + span / 2 * k1)
        d3 = slope(h + span / 2 * k2) @ (eye + span / 2 * d2)
        k3 = field(h + span / 2 * k2)
        d4 = slope(h + span * k3) @ (eye + span * d3)
        expected = eye + span / 6 * (d1 + 2 * d2 + 2 * d3 + d4)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)


def test_table_2_in_the_papers_setting():
    table = gradient_table(["ode-rnn", "mmrnn"], hidden_size=32, batch=2)
    ode, mixed = table.means
    assert (np.diff(ode) > 0).all() and ode[-1] > 100
    assert ((mixed > 0.5) & (mixed < 2)).all()


def test_as_created_ode_rnn_vanishes_instead():
    ode, mixed = gradient_table(["ode-rnn", "mmrnn"], [5, 25], setting="default", seeds=1, batch=2).means
    assert ode[1] < 1e-3 < ode[0] < 1
    assert mixed[1] > 0.2


@pytest.mark.parametrize("name", ["mmrnn", "lstm", "reciprocal"])
def test_loss_gradients_are_finite_differences(name):
    torch.manual_seed(0)
    layer = chronode.create(name, 2, 3, outputs="last")
    model = SequenceModel(layer, 2)
    x, target = series(1, 5, 2), torch.tensor([1])
    found = loss_gradients(model, x, target)
    twin, step = SequenceModel(layer, 2).double(), 1e-6
    twin.load_state_dict(model.state_dict())
    with chronode.backend("torch"):
        _, state = twin.layer(x[:, :3].double())
        slopes = []
        for part in range(len(state)):
            for unit in range(3):
                values = []
                for move in (step, -step):
                    moved = [s.detach().clone() for s in state]
                    moved[part][0, 0, unit] += move
                    y, _ = twin.layer(x[:, 3:].double(), tuple(moved))
                    values.append(float(torch.nn.functional.cross_entropy(twin.head(y).detach(), target)))
                slopes.append((values[0] - values[1]) / (2 * step))
    assert found.norms[0, 2] == pytest.approx(float(np.linalg.norm(slopes)), rel=1e-5)


def test_the_middle_of_the_surface_is_the_model_and_the_model_is_left_alone():
    torch.manual_seed(0)
    model = SequenceModel(chronode.create("lstm", 2, 4, outputs="last"), 2)
    before = [p.clone() for p in model.parameters()]
    x, target = series(4, 5, 2), torch.tensor([0, 1, 1, 0])
    surface = loss_surface(model, x, target, points=3)
    assert surface.values[1, 1] == pytest.approx(torch.nn.functional.cross_entropy(model(x), target).item(), rel=1e-5)
    assert np.ptp(surface.values) > 0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_the_tracker_sees_the_weights_change():
    torch.manual_seed(0)
    model = SequenceModel(chronode.create("rnn", 2, 4, outputs="last"), 2)
    track = GradientTracker(model, series(2, 6, 2))
    track(0)
    with torch.no_grad():
        for parameter in model.layer.parameters():
            parameter.mul_(0.5)
    track(1)
    history = track.history()
    assert history.first[1] < history.first[0] / 4
    assert np.isnan(history.losses).all()
    assert json.loads(history.to_json())["losses"] == [None, None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bidirectional": True}, "bidirectional=False"),
        ({"part": 2}, "part=2: the state of"),
        ({"norm": "nuclear"}, "norm='nuclear'"),
        ({"method": "probes", "norm": "spectral"}, "norm='frobenius'"),
        ({"method": "probes", "singular_values": True}, "method='exact'"),
    ],
)
def test_mistakes_are_reported(options, message):
    with pytest.raises(ValueError, match=message):
        gradient_flow("lstm", series(1, 4, 2), **options)
