"""Lipschitz RNN and AntisymmetricRNN."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_flows as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode


def one_layer(layer, step):
    return lambda x, dt: oracles.run_stack([step], x, zeros(layer, len(x)), dt)


@pytest.mark.parametrize(("solver", "n"), [("euler", 1), ("midpoint", 2)])
def test_lipschitz(solver, n):
    layer = make("lipschitz", epsilon=0.7, beta=0.6, gamma=0.3, solver=solver, steps=n)
    (cell,) = layer.cells
    p = {"M": array(cell.m), "U": array(cell.inputs.weight), "b": array(cell.inputs.bias)}
    p |= {"epsilon": 0.7, "beta": (0.6, 0.6), "gamma": (0.3, 0.3), "max_step": 1.0}
    assert_matches(layer, one_layer(layer, lambda *a: models.lipschitz(*a, p, solver, n)))
    check_gradients(layer)


@pytest.mark.parametrize("max_step", [0.4, None])
def test_lipschitz_with_a_pair_for_each_matrix(max_step):
    layer = make("lipschitz", epsilon=0.7, beta=0.6, gamma=0.3, beta_w=0.2, gamma_w=0.1, max_step=max_step)
    (cell,) = layer.cells
    p = {"M": array(cell.m), "U": array(cell.inputs.weight), "b": array(cell.inputs.bias)}
    p |= {"epsilon": 0.7, "beta": (0.6, 0.2), "gamma": (0.3, 0.1), "max_step": max_step or np.inf}
    assert_matches(layer, one_layer(layer, lambda *a: models.lipschitz(*a, p)))
    check_gradients(layer)


@pytest.mark.parametrize("name", ["antisymmetric", "gated-antisymmetric"])
def test_antisymmetric(name):
    layer = make(name, epsilon=0.7, gamma=0.3)
    (cell,) = layer.cells
    V, b = (np.split(array(v), 2 if cell.gated else 1) for v in (cell.inputs.weight, cell.inputs.bias))
    p = {"W": array(cell.w), "V": V[0], "b": b[0], "epsilon": 0.7, "gamma": 0.3}
    p |= {"V_z": V[1], "b_z": b[1]} if cell.gated else {}
    assert_matches(layer, one_layer(layer, lambda *a: models.antisymmetric(*a, p)))
    check_gradients(layer)


def test_antisymmetric_eigenvalues_are_imaginary_but_for_gamma():
    cell = make("antisymmetric", 2, 7, gamma=0.25).cells[0]
    np.testing.assert_allclose(np.linalg.eigvals(array(cell.matrix())).real, -0.25, atol=1e-12)


def test_lipschitz_eigenvalues_at_the_ends_of_beta():
    """β = 1 leaves the imaginary axis by γ only; β = 0 is symmetric."""
    skew, symmetric = (make("lipschitz", 2, 7, gamma=0.25, beta=beta).cells[0].matrices() for beta in (1.0, 0.0))
    for matrix in array(skew):
        np.testing.assert_allclose(np.linalg.eigvals(matrix).real, -0.25, atol=1e-12)
    np.testing.assert_allclose(array(symmetric), array(symmetric.mT), atol=1e-15)


@pytest.mark.parametrize("name", ["lipschitz", "antisymmetric"])
def test_matrices_are_made_once_for_a_sequence(name, monkeypatch):
    layer = chronode.create(name, 2, 3)
    cell_class, method = type(layer.cells[0]), "matrices" if name == "lipschitz" else "matrix"
    made, original = [], getattr(cell_class, method)
    monkeypatch.setattr(cell_class, method, lambda self: made.append(1) or original(self))
    layer(torch.randn(2, 50, 2))
    assert len(made) == 1


def test_bad_settings():
    with pytest.raises(ValueError, match="beta must be from 0 to 1"):
        chronode.create("lipschitz", 2, 3, beta=1.5)
    with pytest.raises(ValueError, match="beta_w must be from 0 to 1"):
        chronode.create("lipschitz", 2, 3, beta_w=-0.1)
    with pytest.raises(ValueError, match="epsilon must be greater than 0"):
        chronode.create("antisymmetric", 2, 3, epsilon=0.0)
    with pytest.raises(TypeError, match="gated must be True or False"):
        chronode.create("antisymmetric", 2, 3, gated="no")
