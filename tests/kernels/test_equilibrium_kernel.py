"""The iRNN/ERNN kernel against the torch path."""

import helpers
import pytest
import torch
from helpers import assert_same_as_torch, batch
from hypothesis import given, settings
from hypothesis import strategies as st

import chronode
from chronode.kernels import equilibrium, library, ops
from chronode.nn.equilibrium import EquilibriumCell

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

DTYPES = [torch.float64, torch.float32]
FORMS = [{"recurrent": "low-rank"}, {"recurrent": "full"}]


def make(inputs=3, hidden=5, dtype=torch.float64, **chosen):
    torch.manual_seed(0)
    layer = chronode.create("irnn", inputs, hidden, **{"eta": 0.3, **chosen}).to(dtype)
    with torch.no_grad():
        for parameter in layer.parameters():  # away from the initial η, which is alike for all k
            parameter += 0.1 * torch.randn_like(parameter)
    return layer


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    recurrent=st.sampled_from(["low-rank", "full"]),
    outer=st.sampled_from(["same", "identity"]),
    activation=st.sampled_from(["relu", "tanh", "sigmoid"]),
    start=st.sampled_from(["previous", "zero"]),
    sign=st.sampled_from([1, -1]),
    gamma=st.sampled_from([0.7, 1.0]),
    eta_steps=st.integers(0, 4),
    K=st.integers(1, 6),
    dtype=st.sampled_from(DTYPES),
    size=st.integers(1, 19),
    steps=st.integers(1, 6),
    inputs=st.integers(1, 9),
    hidden=st.integers(1, 20),
    outputs=st.sampled_from(["all", "last"]),
    ragged=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_call(dtype, size, steps, inputs, hidden, ragged, seed, **chosen):
    layer = make(inputs, hidden, dtype, **chosen)
    x, dt, lengths, (h, *count) = batch(layer, size, steps, dtype, seed, ragged)
    count = [torch.full_like(n, seed % 3) for n in count]
    assert_same_as_torch(layer, x, dt, lengths, (h, *count))


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
            layer = make(3, 17, dtype, activation="tanh", **form)
            assert_same_as_torch(layer, *batch(layer, 9, 4, dtype))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("hidden", [21, 100])
def test_same_bits_for_any_number_of_threads(hidden, form):
    layer = make(3, hidden, torch.float32, **form)
    helpers.assert_same_bits_for_any_threads(layer, *batch(layer, 37, 9, torch.float32))


@pytest.mark.parametrize("form", FORMS)
def test_long_sequences_gather_their_weight_gradients_in_pieces(form):
    layer = make(2, 6, K=1, **form)
    assert_same_as_torch(layer, *batch(layer, 5, 90, torch.float64))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("form", FORMS)
def test_a_state_that_is_not_finite_spreads_as_in_torch(form, value):
    layer = make(2, 9, **form)
    helpers.assert_same_where_not_finite(layer, *batch(layer, 3, 3, torch.float64), value)


def test_inference_with_last_outputs_keeps_no_states(monkeypatch):
    layer = make(outputs="last")
    x, dt, _, state = batch(layer, 2, 4, torch.float64, ragged=False)
    operator, kept = equilibrium.equilibrium_forward, []

    def watch(*inputs):
        found = operator(*inputs)
        kept.append(len(found[0]))
        return found

    monkeypatch.setattr(equilibrium, "equilibrium_forward", watch)
    trained = layer(x, state, dt=dt)[0]
    with torch.no_grad():
        torch.testing.assert_close(layer(x, state, dt=dt)[0], trained)
    assert kept == [4, 0]


def test_where_there_is_a_kernel():
    class Own(EquilibriumCell):
        def transition(self, q, x):
            return torch.tanh(super().transition(q, x))

    def has(**chosen):
        return chronode.create("irnn", 3, 5, **chosen).cells[0].kernel() is not None

    assert has() and chronode.create("ernn", 3, 5).cells[0].kernel() is not None
    assert not has(depth=2) and not has(solver="equilibrium", recurrent="full")
    assert Own(3, 5).kernel() is None


def test_double_backward_names_the_way_out():
    layer = make()
    helpers.assert_refuses_double_backward(layer, *batch(layer, 2, 3, torch.float64))


@pytest.mark.parametrize("low_rank", [True, False])
def test_op_is_a_sound_operator(low_rank):
    def leaf(*shape):
        return (torch.rand(shape, dtype=torch.float64) - 0.5).requires_grad_()

    rank = 2 if low_rank else 5
    tensors = leaf(3, 2, 4), leaf(2, 5), None, leaf(5, 4), leaf(5), leaf(5, rank), leaf(5, rank) if low_rank else None
    constants = torch.ones((), dtype=torch.float64), torch.ones((), dtype=torch.float64), torch.tensor([3, 2])
    torch.library.opcheck(equilibrium.equilibrium_forward, (*tensors, leaf(3, 1), *constants, "previous", "tanh", True))


@pytest.mark.parametrize("chosen", [{}, {"recurrent": "full", "eta_steps": 2}])
def test_compile_and_export(chosen):
    layer = make(**chosen)
    x, dt, _, _ = batch(layer, 2, 3, torch.float64, ragged=False)
    helpers.assert_compiles_and_exports(layer, x, dt.detach())
