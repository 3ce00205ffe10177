"""Properties of the LTC kernel only: synapses out of reach or too many to keep, forms and solvers."""

import pytest
import torch
from helpers import assert_same_as_torch, batch
from kernel_cases import make

from chronode.kernels import _library as library

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")


def test_synapses_too_many_to_keep_in_cache_are_computed_again():
    layer = make("ltc-synaptic", 1, 130, unfolds=70)
    assert_same_as_torch(layer, *batch(layer, 1, 1, torch.float64))


def test_potentials_far_from_every_synapse():
    layer = make("ltc-synaptic", 2, 9)
    x, dt, lengths, (v,) = batch(layer, 3, 3, torch.float64)
    assert_same_as_torch(layer, x.detach() * 1e6, dt, lengths, ((v * 1e5).detach(),))


def test_other_forms_and_solvers_have_no_kernel():
    assert make("ltc-synaptic", form="dense").cells[0].kernel() is None
    assert make("ltc-synaptic", solver="rk4").cells[0].kernel() is None
    assert make("ltc-synaptic", solver="fused").cells[0].kernel() is not None
