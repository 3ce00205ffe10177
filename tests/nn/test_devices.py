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
from chronode.kernels import triton as gpu

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

THERE = SimpleNamespace(device=torch.device("cuda:0"), dtype=torch.float32)
"""All that is asked of a tensor on a GPU before a kernel is chosen."""


@pytest.fixture
def notes(monkeypatch):
    monkeypatch.setattr(kernels, "_noted", set())


@pytest.mark.parametrize("model", ["unicornn", "indrnn", "dense-indrnn", "sru"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_models_with_a_kernel_for_a_gpu(model, dtype, monkeypatch):
    monkeypatch.setattr(gpu, "installed", lambda: True)
    (cell,) = chronode.create(model, 3, 4).cells
    tensor = SimpleNamespace(device=THERE.device, dtype=dtype)
    assert kernels.find(cell, tensor) is cell.sequence_kernel
    with chronode.backend("torch"):
        assert kernels.find(cell, tensor) is None


@pytest.mark.usefixtures("notes")
def test_without_triton_one_note_says_what_to_install(monkeypatch):
    monkeypatch.setattr(gpu, "installed", lambda: False)
    (cell,) = chronode.create("unicornn", 3, 4).cells
    assert kernels.find(cell, THERE) is None
    with pytest.warns(
        UserWarning, match="UnICORNNCell runs as a Python loop on the GPU.*pip install 'chronode\\[gpu\\]'"
    ):
        kernels.note_loop(cell, THERE)
    kernels.note_loop(cell, THERE)  # a second one would be an error here
    with chronode.backend("native"), pytest.raises(ValueError, match="triton"):
        kernels.find(cell, THERE)


@pytest.mark.usefixtures("notes")
def test_other_cells_run_as_a_loop_with_a_note(monkeypatch):
    monkeypatch.setattr(gpu, "installed", lambda: True)
    (cell,) = chronode.create("ltc", 3, 4).cells
    assert kernels.find(cell, THERE) is None
    with pytest.warns(UserWarning, match="LTCCell runs as a Python loop on the GPU: there is no kernel for a GPU"):
        kernels.note_loop(cell, THERE)
    kernels.note_loop(cell, torch.ones(1))  # on the CPU that is nothing to note


def test_an_operator_has_an_implementation_for_each_kind_of_device():
    from chronode.kernels import elementwise, unicornn

    for module in (elementwise, unicornn):
        name = module.__name__.rsplit(".", 1)[-1]
        for way in ("forward", "backward"):
            operator = getattr(module, f"{name}_{way}")
            assert {"cpu", "cuda"} <= set(operator.kernels)
