"""Properties of the LTC kernels only: synapses out of reach or too many to keep, activations, solvers."""

import pytest
import torch
from helpers import assert_same_as_torch, assert_same_where_not_finite, batch
from kernel_cases import make

from chronode.kernels import _library as library
from chronode.kernels import ltc

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")


def test_synapses_too_many_to_keep_in_cache_are_computed_again():
    layer = make("ltc-synaptic", 1, 130, unfolds=70)
    assert_same_as_torch(layer, *batch(layer, 1, 1, torch.float64))


def test_potentials_far_from_every_synapse():
    layer = make("ltc-synaptic", 2, 9)
    x, dt, lengths, (v,) = batch(layer, 3, 3, torch.float64)
    assert_same_as_torch(layer, x.detach() * 1e6, dt, lengths, ((v * 1e5).detach(),))


@pytest.mark.parametrize("activation", ltc.ACTIVATIONS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_state_that_is_not_finite_spreads_through_every_activation(activation, value):
    layer = make("ltc-dense", 2, 9, activation=activation)
    assert_same_where_not_finite(layer, *batch(layer, 3, 3, torch.float64), value)


def test_other_solvers_have_no_kernel():
    assert make("ltc-synaptic", solver="rk4").cells[0].kernel() is None
    assert make("ltc-synaptic", solver="fused").cells[0].kernel() is not None
