"""Layers on another device than the CPU, as far as that can be known without one.

On the meta device every operator checks that its tensors are on one device, and no number can be looked at: a tensor
that is made on the CPU in passing, or an `.item()`, is an error there. Where a layer looks at numbers on the CPU, to
refuse wrong ones, it must not on a GPU: each look would wait until the device has caught up.
"""

from types import SimpleNamespace

import pytest
import torch
from device_checks import Looks, as_on_a_gpu  # noqa: F401

import chronode
from chronode import kernels

SETTINGS = {
    "plain": {},
    "missing": {"missing": True},
    "directions": {"num_layers": 2, "bidirectional": True, "outputs": "last"},
    "low": {"memory": "low"},
}
models = pytest.mark.parametrize("model", list(chronode.models()))
QUICK = ("plain", "missing")
OFTEN = ("gru-d", "irnn", "mmrnn", "skip-lstm", "unicornn")  # enough of the slow settings for every `make test`


def _all_settings():
    for settings in SETTINGS:
        for model in chronode.models():
            quick = settings in QUICK or model in OFTEN
            yield pytest.param(model, settings, marks=[] if quick else pytest.mark.slow, id=f"{settings}-{model}")


@pytest.mark.parametrize(("model", "settings"), list(_all_settings()))
def test_no_tensor_is_made_elsewhere(model, settings):
    """Forward and backward on the meta device: outputs, states and gradients are there too."""
    layer = chronode.create(model, 3, 4, **SETTINGS[settings]).to("meta")
    x = torch.empty(2, 3, 3, device="meta", requires_grad=True)
    dt = torch.empty(2, 3, device="meta")
    observed = {"observed": torch.empty(2, 3, 3, dtype=torch.bool, device="meta")} if settings == "missing" else {}
    y, state = layer(x, dt=dt, lengths=torch.empty(2, dtype=torch.int64, device="meta"), **observed)
    y, state = layer(x, state, dt=dt, **observed)
    y.sum().backward()
    found = [y, *state, x.grad, *(p.grad for p in layer.parameters() if p.grad is not None)]
    assert {tensor.device.type for tensor in found} == {"meta"}


@models
@pytest.mark.usefixtures("as_on_a_gpu")
def test_nothing_waits_for_the_device(model):
    """No number is looked at in forward and backward, neither in the loop over time nor outside of it."""
    layer = chronode.create(model, 3, 4)
    x, dt, lengths = torch.randn(2, 5, 3), torch.rand(2, 5), torch.tensor([5, 3])
    with chronode.backend("torch"), Looks() as looks:
        y, _ = layer(x, dt=dt, lengths=lengths)
        y.sum().backward()
    assert looks.count == 0


def test_the_count_sees_what_waits():
    with Looks() as looks:
        float(torch.ones(1)), bool(torch.ones(2).any()), torch.ones(2).nonzero(), torch.ones(2).equal(torch.ones(2))
    assert looks.count >= 4


def test_wrong_numbers_are_refused_on_the_cpu():
    """The looks that a GPU does without are made there."""
    layer, x = chronode.create("unicornn", 3, 4), torch.randn(2, 5, 3)
    with Looks() as looks:
        layer(x)
    assert looks.count > 0
    with pytest.raises(ValueError, match="lengths\\[1\\] is 9"):
        layer(x, lengths=[5, 9])


# ---- which kernel runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["unicornn", "ltc"])
def test_hand_written_kernels_are_for_the_cpu(model):
    (cell,) = chronode.create(model, 3, 4).cells
    there = SimpleNamespace(device=torch.device("cuda:0"), dtype=torch.float32)
    for backend in ("auto", "torch", "native"):
        with chronode.backend(backend):
            assert kernels.find(cell, there) is None
    assert kernels.find(cell, torch.ones(1)) is cell.sequence_kernel
