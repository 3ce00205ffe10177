"""The mmRNN kernel against the torch path."""

import helpers
import pytest
import torch
from helpers import assert_same_as_torch, batch
from hypothesis import given, settings
from hypothesis import strategies as st

import chronode
from chronode.kernels import library, mixed_memory, ops
from chronode.nn.mixed_memory import MixedMemoryCell

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

DTYPES = [torch.float64, torch.float32]
FORMS = [{"flow": "mlp"}, {"flow": "ctrnn", "variant": "driven", "solver": "rk4", "steps": 2}]


def make(inputs=3, hidden=5, dtype=torch.float64, **chosen):
    torch.manual_seed(0)
    return chronode.create("mmrnn", inputs, hidden, **chosen).to(dtype)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    variant=st.sampled_from(["gated", "paper", "driven"]),
    flow=st.sampled_from(["mlp", "ctrnn"]),
    solver=st.sampled_from(mixed_memory.METHODS),
    steps=st.integers(1, 4),
    dtype=st.sampled_from(DTYPES),
    size=st.integers(1, 19),
    length=st.integers(1, 6),
    inputs=st.integers(1, 9),
    hidden=st.integers(1, 20),
    outputs=st.sampled_from(["all", "last"]),
    ragged=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_call(dtype, size, length, inputs, hidden, ragged, seed, **chosen):
    layer = make(inputs, hidden, dtype, **chosen)
    assert_same_as_torch(layer, *batch(layer, size, length, dtype, seed, ragged))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("hidden", [1, 5, 17, 130])
@pytest.mark.parametrize("size", [1, 7])
def test_remainder_lanes(form, hidden, size, dtype):
    layer = make(2, hidden, dtype, **form)
    assert_same_as_torch(layer, *batch(layer, size, 3, dtype))


@pytest.mark.parametrize("isa", library.available_isas())
def test_every_instruction_set(isa, monkeypatch):
    monkeypatch.setattr(ops, "library", lambda: library.load(isa))
    for form in FORMS:
        for dtype in DTYPES:
            layer = make(3, 17, dtype, **form)
            assert_same_as_torch(layer, *batch(layer, 9, 4, dtype))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("hidden", [21, 100])
def test_same_bits_for_any_number_of_threads(hidden, form):
    layer = make(3, hidden, torch.float32, **form)
    helpers.assert_same_bits_for_any_threads(layer, *batch(layer, 37, 9, torch.float32))


@pytest.mark.parametrize("form", FORMS)
def test_long_sequences_gather_their_weight_gradients_in_pieces(form):
    layer = make(2, 6, **form)
    assert_same_as_torch(layer, *batch(layer, 5, 60, torch.float64))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("form", FORMS)
def test_a_state_that_is_not_finite_spreads_as_in_torch(form, value):
    layer = make(2, 9, **form)
    helpers.assert_same_where_not_finite(layer, *batch(layer, 3, 3, torch.float64), value)


def test_inference_keeps_no_memory(monkeypatch):
    layer = make(outputs="last")
    x, dt, _, state = batch(layer, 2, 4, torch.float64, ragged=False)
    operator, kept = mixed_memory.mixed_memory_forward, []

    def watch(*inputs):
        found = operator(*inputs)
        kept.append((len(found[0]), len(found[1])))
        return found

    monkeypatch.setattr(mixed_memory, "mixed_memory_forward", watch)
    trained = layer(x, state, dt=dt)[0]
    with torch.no_grad():
        torch.testing.assert_close(layer(x, state, dt=dt)[0], trained)
    assert kept == [(4, 4), (0, 0)]


def test_where_there_is_a_kernel():
    class Own(MixedMemoryCell):
        def forward(self, x, state, dt):
            return super().forward(x, state, 2 * dt)

    def has(**chosen):
        return chronode.create("mmrnn", 3, 5, **chosen).cells[0].kernel() is not None

    assert has() and has(variant="driven") and has(flow="ctrnn", solver="heun")
    assert not has(flow="gru") and not has(flow="ltc") and not has(solver="dopri5")
    assert Own(3, 5).kernel() is None


@pytest.mark.parametrize("form", FORMS)
def test_double_backward_names_the_way_out(form):
    layer = make(**form)
    helpers.assert_refuses_double_backward(layer, *batch(layer, 2, 3, torch.float64))


@pytest.mark.parametrize("form", FORMS)
def test_op_is_a_sound_operator(form):
    layer = make(hidden=4, **form)
    x, dt, lengths, state = batch(layer, 2, 3, torch.float64)
    cell = layer.cells[0]
    weights = [w.detach().requires_grad_(w.numel() > 0) for w in mixed_memory._weights(cell, x)]
    steps_first = [part.detach().transpose(0, 1).contiguous().requires_grad_() for part in (x, dt.unsqueeze(-1))]
    states = [part[0].detach().requires_grad_() for part in state]
    how = (cell.variant, cell.solve.name, cell.solve.steps, True, True)
    torch.library.opcheck(mixed_memory.mixed_memory_forward, (*steps_first, *states, weights, lengths, *how))


@pytest.mark.parametrize("form", FORMS)
def test_compile_and_export(form):
    layer = make(**form)
    x, dt, _, _ = batch(layer, 2, 3, torch.float64, ragged=False)
    helpers.assert_compiles_and_exports(layer, x, dt)
