"""Solvers: their orders, each sample's own time, the adaptive one against two others, and both kinds of gradients."""

from __future__ import annotations

import sys

import numpy as np
import oracles
import pytest
import torch
import torchdiffeq
from layer_checks import jacobian
from oracles import array
from scipy.integrate import solve_ivp
from torch import nn

from chronode.nn import Solver

FIXED = ("euler", "midpoint", "heun", "rk4")
ORDERS = {"euler": 1, "midpoint": 2, "heun": 2, "rk4": 4}


def pendulum(h):
    """A damped pendulum, written for NumPy and torch alike: h is (..., 2), angle and speed."""
    sin = torch.sin if isinstance(h, torch.Tensor) else np.sin
    stack = torch.stack if isinstance(h, torch.Tensor) else np.stack
    return stack([h[..., 1], -sin(h[..., 0]) - 0.2 * h[..., 1]], -1)


def batch(size=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, 2)), rng.uniform(0.1, 4, (size, 1))


def tensors(*arrays):
    return [torch.from_numpy(a) for a in arrays]


def scipy_solution(h, dt):
    """Each sample alone, to 1e-12."""
    rows = zip(h, dt[:, 0], strict=True)
    return np.stack(
        [solve_ivp(lambda _, v: pendulum(v), (0, t), v, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1] for v, t in rows]
    )


# ---- fixed steps


@pytest.mark.parametrize("name", FIXED)
def test_order_of_convergence(name):
    h, dt = batch()
    exact = scipy_solution(h, dt)
    errors = [np.abs(array(Solver(name, n)(pendulum, *tensors(h, dt))) - exact).max(1) for n in (40, 80, 160)]
    orders = np.log2([errors[0] / errors[1], errors[1] / errors[2]])
    np.testing.assert_allclose(np.median(orders, axis=1), ORDERS[name], atol=0.1)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("name", FIXED)
def test_equations(name, steps):
    h, dt = batch()
    expected = oracles.solve(pendulum, h, dt, name, steps)
    np.testing.assert_allclose(array(Solver(name, steps)(pendulum, *tensors(h, dt))), expected, rtol=1e-13)


@pytest.mark.parametrize("name", FIXED)
def test_gradients(name):
    h, dt = (a.requires_grad_() for a in tensors(*batch(3)))
    held = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).double().requires_grad_()

    def solve(h, dt, held):
        return Solver(name, 2)(lambda h, u: pendulum(h) * torch.cos(u), h, dt, held)

    assert torch.autograd.gradcheck(solve, (h, dt, held))


# ---- per-sample times


@pytest.mark.parametrize(("name", "tolerance"), [*((name, 1e-14) for name in FIXED), ("dopri5", 1e-7)])
def test_per_sample_times_equal_one_by_one_solves(name, tolerance):
    h, dt = tensors(*batch(8))
    dt[3] = 0.0
    together = Solver(name, rtol=1e-8, atol=1e-9)(pendulum, h, dt)
    alone = [Solver(name, rtol=1e-8, atol=1e-9)(pendulum, h[i : i + 1], dt[i : i + 1]) for i in range(8)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=tolerance)
    torch.testing.assert_close(together[3], h[3], rtol=1e-14, atol=0)  # no time, no change


def test_the_order_of_the_times_does_not_matter():
    # A known public implementation sorts the times and then picks the wrong rows.
    h, dt = tensors(*batch(8))
    order = torch.tensor([5, 2, 7, 0, 1, 6, 3, 4])
    solver = Solver("dopri5", rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(solver(pendulum, h[order], dt[order]), solver(pendulum, h, dt)[order])
    equal = torch.full_like(dt, 0.7)  # repeated times
    torch.testing.assert_close(solver(pendulum, h, equal), torch.from_numpy(scipy_solution(array(h), array(equal))))


@pytest.mark.parametrize("name", [*FIXED, "dopri5"])
def test_no_time_no_change(name):
    h, _ = tensors(*batch())
    # torchdiffeq reads the end off a polynomial, which rounds.
    tolerance = 1e-14 if name == "dopri5" else 0.0
    torch.testing.assert_close(Solver(name)(pendulum, h, torch.zeros(5, 1).double()), h, rtol=tolerance, atol=0)


# ---- the adaptive solver


@pytest.mark.parametrize("tolerance", [1e-5, 1e-9])
def test_adaptive_agrees_with_torchdiffeq_alone_and_with_scipy(tolerance):
    h, dt = batch(6)
    ours = array(Solver("dopri5", rtol=tolerance, atol=tolerance)(pendulum, *tensors(h, dt)))
    for row, start, time in zip(ours, *tensors(h, dt), strict=True):
        span = torch.tensor([0.0, float(time)], dtype=torch.float64)
        theirs = torchdiffeq.odeint(lambda _, v: pendulum(v), start, span, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(row, array(theirs[-1]), atol=50 * tolerance)
    np.testing.assert_allclose(ours, scipy_solution(h, dt), atol=50 * tolerance)


def test_idle_samples_do_not_dilute_the_error_of_a_busy_one():
    h, _ = tensors(*batch(400))
    dt = torch.zeros(400, 1).double()
    dt[17] = 6.0
    together = Solver("dopri5")(pendulum, h, dt)[17]
    torch.testing.assert_close(together, Solver("dopri5")(pendulum, h[17:18], dt[17:18])[0], rtol=1e-9, atol=1e-10)


class Driven(nn.Module):
    """A field with parameters and a held input."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(2, 2).double()

    def forward(self, h, u):
        return torch.tanh(self.inner(h) + u) - h


def gradients(adjoint):
    field, solver = Driven(), Solver("dopri5", rtol=1e-10, atol=1e-11, adjoint=adjoint)
    h, dt = tensors(*batch(4))
    u = torch.randn(4, 2, generator=torch.Generator().manual_seed(1)).double()
    inputs = [a.requires_grad_() for a in (h, dt, u)]
    end = solver(field, *inputs, params=field.parameters())
    loss = (end * torch.arange(8).double().view(4, 2)).sum()
    return torch.autograd.grad(loss, [*inputs, *field.parameters()])


def test_adjoint_gradients_equal_back_propagated_ones():
    names = ("h", "dt", "held", "weight", "bias")
    for name, adjoint, unrolled in zip(names, gradients(True), gradients(False), strict=True):
        assert unrolled.abs().max() > 1e-3, name
        torch.testing.assert_close(adjoint, unrolled, rtol=1e-6, atol=1e-8, msg=name)


@pytest.mark.parametrize("adjoint", [True, False])
def test_gradient_of_the_time_is_the_field_at_the_end(adjoint):
    h, dt = tensors(*batch(4))
    end = Solver("dopri5", rtol=1e-9, atol=1e-10, adjoint=adjoint)(pendulum, h, dt.requires_grad_())
    (gradient,) = torch.autograd.grad(end[:, 1].sum(), dt)
    torch.testing.assert_close(gradient[:, 0], pendulum(end)[:, 1].detach(), rtol=1e-5, atol=1e-7)


# ---- what mmRNN's paper says about solvers


def test_lemma_1_jacobian_of_an_euler_step():
    weight = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).double()
    h, dt, damping = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64), 0.7, 0.4

    def field(h):
        return torch.tanh(h @ weight.T) - damping * h

    def step(h):
        return Solver("euler", 1)(field, h[None], torch.full((1, 1), dt, dtype=torch.float64))[0]

    slope = array(1 - torch.tanh(h @ weight.T) ** 2)[:, None] * array(weight)
    np.testing.assert_allclose(jacobian(step, h), np.eye(3) + dt * slope - dt * damping * np.eye(3), atol=1e-14)


@pytest.mark.parametrize("name", [*FIXED, "dopri5"])
def test_theorem_2_every_solver_hands_on_vanishing_and_exploding_gradients(name):
    rates = torch.tensor([-0.8, 0.0, 0.8], dtype=torch.float64)
    h = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    end = h
    for _ in range(20):
        end = Solver(name)(lambda h: rates * h, end, torch.ones(1, 1).double())
    (gradient,) = torch.autograd.grad(end.sum(), h)
    assert gradient[0, 0] < 1e-5 and abs(gradient[0, 1] - 1) < 1e-12 and gradient[0, 2] > 1e5


# ---- errors


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"name": "rk5"}, ValueError, "rk4"),
        ({"steps": 0}, ValueError, "steps"),
        ({"steps": 2.5}, TypeError, "steps"),
        ({"name": "dopri5", "rtol": 0.0}, ValueError, "rtol"),
        ({"name": "dopri5", "atol": -1e-6}, ValueError, "atol"),
        ({"name": "rk4", "adjoint": True}, ValueError, "dopri5"),
        ({"name": "dopri5", "adjoint": "yes"}, TypeError, "adjoint"),
    ],
)
def test_refusals(arguments, error, words):
    with pytest.raises(error, match=words):
        Solver(**arguments)


def test_without_torchdiffeq_the_adaptive_solver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)
    with pytest.raises(ImportError, match="pip install"):
        Solver("dopri5")(pendulum, *tensors(*batch()))
