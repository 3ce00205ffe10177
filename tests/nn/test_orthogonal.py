"""expRNN, SpectralRNN, uRNN: their equations, and that training does not leave the set of matrices."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_flows as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array
from scipy.linalg import expm

import chronode


def one_layer(layer, step):
    return lambda x, dt: oracles.run_stack([step], x, zeros(layer, len(x)), dt)


def orthogonal(matrix):
    """B exp(X - Xᵀ) by SciPy, X the lower triangle."""
    (holder,) = matrix.holder.parametrizations.weight
    X = np.tril(array(matrix.holder.parametrizations.weight.original))
    return array(holder.base) @ expm(X - X.T)


def test_exprnn():
    layer = make("exprnn", 2, 5)
    (cell,) = layer.cells
    p = {"W": array(cell.inputs.weight), "Q": orthogonal(cell.recurrent), "b": array(cell.bias)}
    assert_matches(layer, one_layer(layer, lambda *a: models.exprnn(*a, p)))
    check_gradients(make("exprnn", 1, 3))


@pytest.mark.parametrize("reflections", [None, 2])
def test_spectral(reflections):
    layer = make("spectral", 2, 5, margin=0.2, reflections=reflections)
    (cell,) = layer.cells
    p = {"W": array(cell.inputs.weight), "b": array(cell.inputs.bias), "s": 1 + 0.2 * np.tanh(array(cell.p))}
    for name, raw in (("U", cell.left), ("V", cell.right)):
        columns = np.tril(array(raw), -1) + np.eye(5)[:, : array(raw).shape[1]]
        p[name] = models.reflection_product(list(columns.T))
    assert_matches(layer, one_layer(layer, lambda *a: models.spectral(*a, p)))
    singular = np.linalg.svd(array(cell.matrix()), compute_uv=False)
    np.testing.assert_allclose(np.sort(singular), np.sort(p["s"]), rtol=1e-10)
    check_gradients(layer)


@pytest.mark.parametrize("form", ["full", "structured"])
def test_urnn(form):
    layer = make("urnn", 2, 5, form=form)
    (cell,) = layer.cells
    real, imaginary = (array(part) for part in cell.inputs.weight.chunk(2))
    if form == "full":
        Q = orthogonal(cell.o1) @ np.diag(np.exp(1j * array(cell.phases)[0])) @ orthogonal(cell.o2)
    else:
        v = array(cell.reflections)
        Q = models.unitary_structured(array(cell.phases), v[:, 0] + 1j * v[:, 1], array(cell.permutation))
    p = {"W": real + 1j * imaginary, "Q": Q, "b": array(cell.bias)}

    def complex_run(x, dt):
        y, (h,) = oracles.run(lambda *a: models.urnn(*a, p), x, (np.zeros((len(x), 5), complex),), dt)
        return y, [(np.concatenate([h.real, h.imag], axis=1),)]

    x, dt = oracles.sequences()
    oracles.assert_same(layer(torch.from_numpy(x), dt=torch.from_numpy(dt)), complex_run(x, dt))
    np.testing.assert_allclose(Q @ Q.conj().T, np.eye(5), atol=1e-12)
    check_gradients(make("urnn", 1, 3, form=form))


def trained(name, steps=100, weight_decay=0.1, **settings):
    """A cell after optimizer steps that pull its weights about."""
    torch.manual_seed(0)
    layer = chronode.create(name, 3, 16, **settings)
    before = [p.detach().clone() for p in layer.parameters()]
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2, weight_decay=weight_decay)
    x, target = torch.randn(8, 10, 3), torch.randn(8, 10, layer.output_size)
    for _ in range(steps):
        optimizer.zero_grad()
        (layer(x)[0] - target).square().mean().backward()
        optimizer.step()
    assert all((p - q).abs().max() > 1e-2 for p, q in zip(layer.parameters(), before, strict=True))
    return layer.cells[0]


def test_exprnn_is_orthogonal_after_100_steps():
    Q = trained("exprnn").recurrent()
    assert (Q @ Q.T - torch.eye(16)).abs().max() < 1e-5


def test_spectral_keeps_its_singular_values():
    """Weight decay included, under which torch's own Householder parametrization gives a matrix of zeros."""
    cell = trained("spectral", margin=0.1)
    singular = torch.linalg.svdvals(cell.matrix())
    torch.testing.assert_close(singular.sort()[0], (1 + 0.1 * torch.tanh(cell.p)).sort()[0], rtol=0, atol=1e-5)
    assert singular.min() > 0.9 - 1e-5 and singular.max() < 1.1 + 1e-5


@pytest.mark.parametrize("form", ["full", "structured"])
def test_urnn_is_unitary_after_100_steps(form):
    Q = torch.complex(*trained("urnn", form=form).matrix())
    assert (Q @ Q.conj().T - torch.eye(16)).abs().max() < 1e-5


def test_gradients_keep_their_length():
    """Over 300 steps of a linear expRNN (b = 0) the gradient of the last state by the first has norm 1."""
    layer = make("exprnn", 2, 6, outputs="last")
    layer.cells[0].bias.data.zero_()
    h = torch.randn(1, 1, 6).double().requires_grad_()
    y, _ = layer(torch.randn(1, 300, 2).double(), (h,))
    direction = torch.randn(6).double()
    (gradient,) = torch.autograd.grad(y[0] @ direction, h)
    torch.testing.assert_close(gradient.norm(), direction.norm(), rtol=1e-8, atol=0)


def test_a_copy_is_frozen_where_the_original_is():
    import copy

    cell = chronode.create("exprnn", 2, 4).cells[0].eval()
    cell.recurrent.requires_grad_(False)
    copied = copy.deepcopy(cell)
    assert [p.requires_grad for p in copied.parameters()] == [p.requires_grad for p in cell.parameters()]
    assert not copied.recurrent.training


def test_bad_settings():
    with pytest.raises(ValueError, match="reflections must be at most hidden_size=3"):
        chronode.create("spectral", 2, 3, reflections=4)
    with pytest.raises(ValueError, match="form='complex' is not supported"):
        chronode.create("urnn", 2, 3, form="complex")
