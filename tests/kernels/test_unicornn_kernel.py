"""Properties of the UnICORNN kernel only: what it keeps, what it restores by the inverse, how its arrays lie."""

import os
import subprocess
import sys

import pytest
import torch
from helpers import assert_same_as_torch, batch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import CASES, assert_sound_operator, called, calls, make

import chronode
from chronode.kernels import _library as library
from chronode.kernels import unicornn

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

DTYPES = [torch.float64, torch.float32]
MEMORIES = ["fast", "low", "auto"]


def initial(inputs=3, hidden=5, dtype=torch.float64, **chosen):
    """A layer with its initial parameters: what is measured here depends on them."""
    torch.manual_seed(0)
    return chronode.create("unicornn", inputs, hidden, **{"delta_t": 0.5, **chosen}).to(dtype)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(call=calls("unicornn-auto"), anchor_steps=st.integers(1, 60))
def test_any_distance_of_kept_states(call, anchor_steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unicornn, "ANCHOR_STEPS", anchor_steps)
        assert_same_as_torch(*called("unicornn-auto", call))


def test_layouts_of_the_input():
    """Batch-first, time-first and strided input, and outputs that lie in memory as the input does."""
    layer, turned = initial(3, 6, num_layers=2), initial(3, 6, num_layers=2, batch_first=False)
    x = torch.randn(4, 7, 3, dtype=torch.float64)
    y, _ = layer(x)
    assert y.is_contiguous()
    assert torch.equal(turned(x.transpose(0, 1))[0].transpose(0, 1), y)
    assert torch.equal(turned(x.transpose(0, 1).contiguous())[0].transpose(0, 1), y)
    assert torch.equal(layer(torch.randn(4, 7, 6, dtype=torch.float64)[..., ::2].copy_(x))[0], y)
    assert torch.equal(torch.stack([layer(one)[0] for one in x]), y)


def test_what_is_kept_for_the_backward_pass():
    def kept(layer):
        x = torch.randn(2, 30, 3, dtype=torch.float64)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            layer(x)
        return max(sizes, default=0)

    with torch.no_grad():
        assert kept(initial(hidden=8, num_layers=2, memory="fast")) == 0
    assert kept(initial(hidden=8, num_layers=2, memory="fast")) == 2 * 30 * 2 * 8
    assert kept(initial(hidden=8, num_layers=2, memory="low", outputs="last")) == 2 * 30 * 3  # the input
    assert unicornn._keeps("auto", torch.empty(10, 10, 1), 2, 256)
    assert not unicornn._keeps("auto", torch.empty(100_000, 100, 1), 2, 256)


@pytest.mark.parametrize("memory", MEMORIES)
def test_long_sequences_drift_little(memory):
    """17984 steps in float32; "low" goes back by the inverse, from the last state alone."""
    layer = initial(2, 16, num_layers=2, delta_t=0.03, memory=memory, outputs="last")
    x = torch.randn(2, 17984, 2, dtype=torch.float64)
    grads = []
    for dtype in DTYPES:
        layer = layer.to(dtype)
        layer.zero_grad()
        layer(x.to(dtype))[0].square().sum().backward()
        grads.append([p.grad.double() for p in layer.parameters()])
    for single, double in zip(grads[1], grads[0], strict=True):
        assert (single - double).norm() <= 2e-4 * double.norm()


def test_drift_of_the_inverse():
    """The inverse of `low`: 17984 steps forward by the kernel and back by the cell's inverse, in float32."""
    layer = initial(2, 16, torch.float32, delta_t=0.03)
    (cell,) = layer.cells
    x = torch.randn(17984, 2, 2)
    start = torch.randn(1, 2, 16), torch.randn(1, 2, 16)
    with torch.no_grad():
        _, (y, z) = layer(x.transpose(0, 1), start)
        state = y[0], z[0]
        for u in reversed(cell.project(x).unbind(0)):
            state = cell.inverse(u, state, torch.ones(2, 1))
    for restored, wanted in zip(state, start, strict=True):  # measured: y 3e-5, z 6e-5
        assert (restored - wanted[0]).norm() <= 1e-4 * wanted.norm()


def test_chaotic_trajectories_are_followed_forwards():
    """Driven so strongly, an error of one rounding grows exponentially: "auto" has the states of the forward pass."""

    def gradients(memory):
        layer = initial(2, 16, torch.float32, delta_t=0.3, memory=memory)
        torch.manual_seed(1)
        y, _ = layer(torch.randn(2, 6000, 2))
        (y * torch.randn(y.shape)).sum().backward()
        return torch.cat([p.grad.flatten() for p in layer.parameters()])

    fast = gradients("fast")
    assert torch.equal(gradients("auto"), fast)
    assert (gradients("low") - fast).norm() <= 1e-3 * fast.norm()  # measured: 3e-4


MEASURE = """
import resource, torch, chronode
torch.set_num_threads(2)
layer = chronode.create("unicornn", 1, 128, num_layers=3, outputs="last", memory="low", delta_t=0.05)
def train(steps):
    layer(torch.randn(32, steps, 1))[0].sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = train(64)
print((train(2048) - before) / 1024)
"""


def test_memory_does_not_grow_with_the_layers_states():
    """T2048 B32 H128 L3: states and projections would take 96 MiB each."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, env=environment, check=True)
    assert float(run.stdout) < 16


@pytest.mark.parametrize(("outputs", "batch_first"), [("last", True), ("all", False), ("last", False)])
@pytest.mark.parametrize("memory", MEMORIES)
def test_op_is_a_sound_operator_for_any_outputs_and_layout(memory, outputs, batch_first):
    name = f"unicornn-{memory}"
    layer = make(name, hidden=8, dropout=0.3, outputs=outputs, batch_first=batch_first)
    x, dt, lengths, state = batch(layer, 2, 3, torch.float64, ragged=CASES[name].fills_padding)
    if not batch_first:
        x, dt = (part.detach().transpose(0, 1).contiguous().requires_grad_() for part in (x, dt))
    assert_sound_operator(name, layer, x, dt, lengths, state)
