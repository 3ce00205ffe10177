"""FastRNN and FastGRNN."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_gated as models
import pytest
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode

RANKS = [{}, {"w_rank": 1, "u_rank": 2}]


def matrix(linear):
    """One matrix, or the product of two."""
    weights = [array(weight) for weight in linear.parameters()]
    return weights[0] if len(weights) == 1 else weights[1] @ weights[0]


def one_layer(layer, step):
    return lambda x, dt: oracles.run_stack([step], x, zeros(layer, len(x)), dt)


@pytest.mark.parametrize("ranks", RANKS)
def test_fastrnn(ranks):
    layer = make("fastrnn", **ranks)
    (cell,) = layer.cells
    p = {"h": (matrix(cell.inputs), matrix(cell.recurrent), array(cell.bias))}
    p |= {"alpha": array(cell.raw_alpha), "beta": array(cell.raw_beta)}
    assert_matches(layer, one_layer(layer, lambda *a: models.fastrnn(*a, p)))
    check_gradients(layer)


@pytest.mark.parametrize("ranks", RANKS)
def test_fastgrnn(ranks):
    layer = make("fastgrnn", **ranks)
    (cell,) = layer.cells
    p = {"W": matrix(cell.inputs), "U": matrix(cell.recurrent)}
    p |= {"b_z": array(cell.gate_bias), "b_h": array(cell.new_bias)}
    p |= {"zeta": array(cell.raw_zeta), "nu": array(cell.raw_nu)}
    assert_matches(layer, one_layer(layer, lambda *a: models.fastgrnn(*a, p)))
    check_gradients(layer)


def test_initial_scalars():
    cell = chronode.create("fastrnn", 2, 3).cells[0]
    assert (cell.raw_alpha.item(), cell.raw_beta.item()) == (-3, 3)


def test_low_rank_saves_parameters():
    count = sum(p.numel() for p in chronode.create("fastgrnn", 30, 100, w_rank=5, u_rank=10).parameters())
    assert count == 5 * 130 + 10 * 200 + 200 + 2
    with pytest.raises(ValueError, match="w_rank must be at least 1"):
        chronode.create("fastgrnn", 2, 3, w_rank=0)


def test_rank_bounds_the_matrix():
    cell = make("fastrnn", 4, 6, w_rank=2, u_rank=3).cells[0]
    assert [np.linalg.matrix_rank(matrix(part)) for part in (cell.inputs, cell.recurrent)] == [2, 3]
