"""Properties of the element-wise recurrences only, IndRNN and SRU."""

import pytest
import torch
from helpers import assert_same_as_torch, batch
from kernel_cases import assert_sound_operator, make

from chronode.kernels import _library as library

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")


@pytest.mark.parametrize("name", ["indrnn", "dense-indrnn"])
def test_batch_norm(name):
    layer = make(name, norm="batch")
    assert_same_as_torch(layer, *batch(layer, 6, 5, torch.float64))


@pytest.mark.parametrize("name", ["indrnn", "sru"])
def test_op_that_gives_last_outputs_is_a_sound_operator(name):
    layer = make(name, outputs="last")
    assert_sound_operator(name, layer, *batch(layer, 2, 3, torch.float64))
