"""The LTC kernels against the torch path."""

import pytest
import torch
from helpers import assert_close, assert_compiles_and_exports, assert_same_as_torch, batch, results
from hypothesis import given, settings
from hypothesis import strategies as st

import chronode
from chronode.kernels import library, ltc, ops

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

DTYPES = [torch.float64, torch.float32]
FORMS = [{"form": "synaptic"}] + [{"form": "dense", "activation": name} for name in ltc.ACTIVATIONS]


def make(inputs=3, hidden=5, dtype=torch.float64, **chosen):
    torch.manual_seed(0)
    return chronode.create("ltc", inputs, hidden, **chosen).to(dtype)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    form=st.sampled_from(FORMS),
    wiring=st.sampled_from(["full", "sparse", "ncp"]),
    dtype=st.sampled_from(DTYPES),
    size=st.integers(1, 19),
    steps=st.integers(1, 6),
    inputs=st.integers(1, 9),
    hidden=st.integers(4, 20),
    unfolds=st.integers(1, 7),
    outputs=st.sampled_from(["all", "last"]),
    ragged=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_call(form, wiring, dtype, size, steps, inputs, hidden, unfolds, outputs, ragged, seed):
    layer = make(inputs, hidden, dtype, wiring=wiring, unfolds=unfolds, outputs=outputs, **form)
    assert_same_as_torch(layer, *batch(layer, size, steps, dtype, seed, ragged))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize("hidden", [1, 5, 17, 130])
@pytest.mark.parametrize("size", [1, 7])
def test_remainder_lanes(form, hidden, size, dtype):
    layer = make(2, hidden, dtype, unfolds=2, **form)
    assert_same_as_torch(layer, *batch(layer, size, 2, dtype))


@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize("isa", library.available_isas())
def test_every_instruction_set(isa, form, monkeypatch):
    monkeypatch.setattr(ops, "library", lambda: library.load(isa))
    for dtype in DTYPES:
        layer = make(3, 17, dtype, **form)
        assert_same_as_torch(layer, *batch(layer, 9, 4, dtype))


@pytest.mark.parametrize("form", FORMS[:2])
def test_many_samples_share_their_gradient_buffers(form):
    layer = make(1, 3, unfolds=1, **form)
    assert_same_as_torch(layer, *batch(layer, 1100, 2, torch.float64))


def test_synapses_too_many_to_keep_in_cache_are_computed_again():
    layer = make(1, 130, unfolds=70)
    assert_same_as_torch(layer, *batch(layer, 1, 1, torch.float64))


@pytest.mark.parametrize("form", FORMS[:2])
def test_same_bits_for_any_number_of_threads(form):
    layer = make(3, 12, torch.float32, **form)
    call = batch(layer, 37, 5, torch.float32)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = results(layer, "native", *call)
        torch.set_num_threads(2)
        together = results(layer, "native", *call)
    finally:
        torch.set_num_threads(threads)
    for name, tensor in alone.items():
        assert torch.equal(tensor, together[name]), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_state_that_is_not_finite_spreads_as_in_torch(form, value):
    layer = make(2, 9, **form)
    x, dt, lengths, (v,) = batch(layer, 3, 3, torch.float64)
    v = v.detach().clone()
    v[0, 1, 4] = value
    call = (x, dt, lengths, (v,))
    native, plain = results(layer, "native", *call), results(layer, "torch", *call)
    for name in ("y", "final state 0"):
        assert_close({name: native[name]}, {name: plain[name]})
        assert torch.equal(native[name].isfinite(), plain[name].isfinite())


def test_potentials_far_from_every_synapse():
    layer = make(2, 9)
    x, dt, lengths, (v,) = batch(layer, 3, 3, torch.float64)
    assert_same_as_torch(layer, x.detach() * 1e6, dt, lengths, ((v * 1e5).detach(),))


@pytest.mark.parametrize("form", FORMS[:2])
def test_inference_with_last_outputs_keeps_no_states(form, monkeypatch):
    layer = make(outputs="last", **form)
    x, dt, _, state = batch(layer, 2, 4, torch.float64, ragged=False)
    name = f"ltc_{layer.cells[0].form}_forward"
    kept = []

    def watch(*inputs):
        states, final = operator(*inputs)
        kept.append(len(states))
        return states, final

    operator = getattr(ltc, name)
    monkeypatch.setattr(ltc, name, watch)
    trained = layer(x, state, dt=dt)[0]
    with torch.no_grad():
        torch.testing.assert_close(layer(x, state, dt=dt)[0], trained)
    assert kept == [4, 0]


@pytest.mark.parametrize("form", FORMS[:2])
def test_only_some_inputs_want_gradients(form):
    layer = make(**form)
    layer.requires_grad_(False)
    x, dt, lengths, state = batch(layer, 3, 4, torch.float64)
    grads = []
    for backend in ("native", "torch"):
        with chronode.backend(backend):
            y, _ = layer(x, state, dt=dt.detach(), lengths=lengths)
        grads += torch.autograd.grad(y.square().sum(), x)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("form", FORMS[:2])
def test_double_backward_names_the_way_out(form):
    layer = make(**form)
    x, dt, lengths, state = batch(layer, 2, 3, torch.float64)
    y, _ = layer(x, state, dt=dt, lengths=lengths)
    (grad,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="chronode.backend\\('torch'\\)"):
        grad.square().sum().backward()


def test_other_solvers_have_no_kernel():
    assert make(solver="rk4").cells[0].kernel() is None
    assert make(solver="fused").cells[0].kernel() is not None


def test_synaptic_op_is_a_sound_operator():
    def leaf(*shape):
        return torch.rand(shape, dtype=torch.float64).requires_grad_()

    tensors = leaf(3, 2, 4), leaf(2, 5), leaf(3, 2, 1), leaf(4, 5, 5), leaf(4, 4, 5), leaf(3, 5)
    lengths = torch.tensor([3, 2])
    torch.library.opcheck(ltc.ltc_synaptic_forward, (*tensors, lengths, 2, True))


def test_dense_op_is_a_sound_operator():
    def leaf(*shape):
        return torch.rand(shape, dtype=torch.float64).requires_grad_()

    tensors = leaf(3, 2, 5), leaf(2, 5), leaf(3, 2, 1), leaf(5, 5), leaf(2, 5)
    torch.library.opcheck(ltc.ltc_dense_forward, (*tensors, None, 1, 2, True))


@pytest.mark.parametrize("form", FORMS[:2])
def test_compile_and_export(form):
    layer = make(**form)
    x, dt, _, _ = batch(layer, 2, 3, torch.float64, ragged=False)
    assert_compiles_and_exports(layer, x, dt)
