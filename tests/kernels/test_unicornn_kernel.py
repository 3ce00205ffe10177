"""The UnICORNN kernel against the torch path."""

import os
import subprocess
import sys

import pytest
import torch
from helpers import assert_close, assert_compiles_and_exports, assert_same_as_torch, batch, results
from hypothesis import given, settings
from hypothesis import strategies as st

import chronode
from chronode.kernels import library, ops, unicornn

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

DTYPES = [torch.float64, torch.float32]
MEMORIES = ["fast", "low", "auto"]


def make(inputs=3, hidden=5, dtype=torch.float64, **chosen):
    torch.manual_seed(0)
    return chronode.create("unicornn", inputs, hidden, **{"delta_t": 0.5, **chosen}).to(dtype)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(DTYPES),
    size=st.integers(1, 19),
    steps=st.integers(1, 40),
    inputs=st.integers(1, 9),
    hidden=st.integers(1, 40),
    layers_residual=st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
    dropout=st.sampled_from([0.0, 0.4]),
    alpha=st.sampled_from([0.0, 2.5]),
    train_c=st.booleans(),
    bidirectional=st.booleans(),
    outputs=st.sampled_from(["all", "last"]),
    memory=st.sampled_from(MEMORIES),
    anchor_steps=st.integers(1, 30),
    ragged=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_call(dtype, size, steps, inputs, hidden, layers_residual, anchor_steps, ragged, seed, **chosen):
    layers, residual = layers_residual
    delta_t = [0.1 + 0.2 * layer for layer in range(layers)]
    layer = make(inputs, hidden, dtype, num_layers=layers, residual=residual, delta_t=delta_t, **chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unicornn, "ANCHOR_STEPS", anchor_steps)
        assert_same_as_torch(layer, *batch(layer, size, steps, dtype, seed, ragged))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("hidden", [1, 5, 17, 130])
@pytest.mark.parametrize("size", [1, 7])
def test_remainder_lanes(size, hidden, memory, dtype):
    layer = make(2, hidden, dtype, num_layers=2, memory=memory)
    assert_same_as_torch(layer, *batch(layer, size, 18, dtype))


def test_more_samples_than_rows_of_a_chunk():
    layer = make(1, 3, num_layers=2)
    assert_same_as_torch(layer, *batch(layer, 4300, 3, torch.float64))


def test_missing_values_are_encoded_below_the_stack():
    layer = make(2, 9, num_layers=2, missing=True)
    x = torch.randn(3, 6, 2, dtype=torch.float64)
    observed = torch.rand(3, 6, 2) > 0.4
    with chronode.backend("torch"):
        wanted, (*_, z) = layer(x, observed=observed)
    y, (*_, z_native) = layer(x, observed=observed)
    torch.testing.assert_close((y, z_native), (wanted, z))


@pytest.mark.parametrize("isa", library.available_isas())
@pytest.mark.parametrize("memory", MEMORIES)
def test_every_instruction_set(isa, memory, monkeypatch):
    monkeypatch.setattr(ops, "library", lambda: library.load(isa))
    for dtype in DTYPES:
        layer = make(3, 33, dtype, num_layers=3, residual=1, dropout=0.3, memory=memory)
        assert_same_as_torch(layer, *batch(layer, 9, 21, dtype))


def with_threads(count, layer, call):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        return results(layer, "native", *call)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("memory", MEMORIES)
def test_same_bits_for_any_number_of_threads(memory):
    layer = make(3, 20, torch.float32, num_layers=2, memory=memory)
    call = batch(layer, 37, 30, torch.float32)
    alone = with_threads(1, layer, call)
    for count in (2, 3):
        for name, tensor in with_threads(count, layer, call).items():
            assert torch.equal(tensor, alone[name]), name


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_state_that_is_not_finite_spreads_as_in_torch(value):
    layer = make(2, 9, num_layers=2)
    x, dt, lengths, (y, z) = batch(layer, 3, 9, torch.float64)
    z = z.detach().clone()
    z[0, 1, 4] = value
    call = (x, dt, lengths, (y, z))
    native, plain = results(layer, "native", *call), results(layer, "torch", *call)
    for name in ("y", "final state 0", "final state 1"):
        assert torch.equal(native[name].isfinite(), plain[name].isfinite())
        assert_close({name: native[name].nan_to_num(0, 0, 0)}, {name: plain[name].nan_to_num(0, 0, 0)})


def test_layouts_of_the_input():
    """Batch-first, time-first and strided input, and outputs that lie in memory as the input does."""
    layer, turned = make(3, 6, num_layers=2), make(3, 6, num_layers=2, batch_first=False)
    x = torch.randn(4, 7, 3, dtype=torch.float64)
    y, _ = layer(x)
    assert y.is_contiguous()
    assert torch.equal(turned(x.transpose(0, 1))[0].transpose(0, 1), y)
    assert torch.equal(turned(x.transpose(0, 1).contiguous())[0].transpose(0, 1), y)
    assert torch.equal(layer(torch.randn(4, 7, 6, dtype=torch.float64)[..., ::2].copy_(x))[0], y)
    assert torch.equal(torch.stack([layer(one)[0] for one in x]), y)


def test_only_what_wants_gradients_gets_them():
    layer = make(num_layers=2).requires_grad_(False)
    x, dt, lengths, state = batch(layer, 3, 20, torch.float64)
    assert_same_as_torch(layer, x, dt.detach(), lengths, tuple(part.detach() for part in state))
    assert_same_as_torch(layer, x.detach(), dt, lengths, tuple(part.detach() for part in state))


def test_what_is_kept_for_the_backward_pass():
    def kept(layer):
        x = torch.randn(2, 30, 3, dtype=torch.float64)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            layer(x)
        return max(sizes, default=0)

    with torch.no_grad():
        assert kept(make(hidden=8, num_layers=2, memory="fast")) == 0
    assert kept(make(hidden=8, num_layers=2, memory="fast")) == 2 * 30 * 2 * 8
    assert kept(make(hidden=8, num_layers=2, memory="low", outputs="last")) == 2 * 30 * 3  # the input
    assert unicornn._keeps("auto", torch.empty(10, 10, 1), 2, 256)
    assert not unicornn._keeps("auto", torch.empty(100_000, 100, 1), 2, 256)


@pytest.mark.parametrize("memory", MEMORIES)
def test_long_sequences_drift_little(memory):
    """The backward pass goes back 17984 steps in float32 by the inverse, without a stored state."""
    layer = make(2, 16, num_layers=2, delta_t=0.03, memory=memory, outputs="last")
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
    """What `low` relies on: 17984 steps forward by the kernel and back by the cell's inverse, in float32."""
    layer = make(2, 16, torch.float32, delta_t=0.03)
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


def test_chaotic_trajectories_are_restored_from_nearby():
    """Driven so strongly, an error of one rounding grows exponentially on the way back: "auto" keeps some states."""

    def gradients(memory):
        layer = make(2, 16, torch.float32, delta_t=0.3, memory=memory)
        torch.manual_seed(1)
        y, _ = layer(torch.randn(2, 6000, 2))
        (y * torch.randn(y.shape)).sum().backward()
        return torch.cat([p.grad.flatten() for p in layer.parameters()])

    fast = gradients("fast")
    assert (gradients("auto") - fast).norm() <= 1e-4 * fast.norm()  # measured: 1e-5, "low" 3e-4


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


def test_double_backward_names_the_way_out():
    layer = make()
    x, dt, lengths, state = batch(layer, 2, 3, torch.float64)
    y, _ = layer(x, state, dt=dt, lengths=lengths)
    (grad,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="chronode.backend\\('torch'\\)"):
        grad.square().sum().backward()


@pytest.mark.parametrize("outputs", [True, False])
@pytest.mark.parametrize(("keep", "anchor_steps"), [(True, 0), (False, 0), (False, 2)])
def test_sound_operator(outputs, keep, anchor_steps):
    def leaf(*shape):
        return torch.rand(shape, dtype=torch.float64).requires_grad_()

    states = leaf(3, 2, 5), leaf(3, 2, 5)
    weights = leaf(5 * (4 + 9 + 10)), leaf(3, 5), leaf(3, 5), leaf(3, 5), torch.rand(3, dtype=torch.float64)
    masks = torch.rand(3, 2, 5, dtype=torch.float64)
    lengths = None if keep else torch.tensor([3, 2])  # what is kept of padding is not defined, and opcheck looks at it
    for x in (leaf(3, 2, 4), leaf(2, 3, 4).transpose(0, 1)):
        tensors = (x, leaf(3, 2, 1), *states, *weights)
        torch.library.opcheck(unicornn.unicornn_forward, (*tensors, masks, lengths, 1, outputs, keep, anchor_steps))


def test_compile_and_export():
    layer = make(num_layers=3, residual=1)
    x, dt, _, _ = batch(layer, 2, 3, torch.float64, ragged=False)
    assert_compiles_and_exports(layer, x, dt)
