"""The element-wise recurrences, IndRNN and SRU, against the torch path."""

import helpers
import pytest
import torch
from helpers import assert_same_as_torch, batch
from hypothesis import given, settings
from hypothesis import strategies as st

import chronode
from chronode.kernels import elementwise, library, ops
from chronode.nn.independent import IndRNNCell, SRUCell

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

DTYPES = [torch.float64, torch.float32]
MODELS = ["indrnn", "dense-indrnn", "sru"]


def make(model, inputs=3, hidden=5, dtype=torch.float64, **chosen):
    torch.manual_seed(0)
    layer = chronode.create(model, inputs, hidden, **chosen).to(dtype)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith((".b", ".u", ".v")):  # recurrent weights of both signs, some beyond IndRNN's bound
                parameter += 0.5 * torch.randn_like(parameter)
    return layer


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    case=st.sampled_from(
        [
            ("indrnn", {}),
            ("indrnn", {"bound": 0.4, "norm": "layer"}),
            ("dense-indrnn", {"num_layers": 2}),
            ("sru", {"num_layers": 2}),
            ("sru", {"highway_bias": -1.0}),
        ]
    ),
    dtype=st.sampled_from(DTYPES),
    size=st.integers(1, 19),
    steps=st.integers(1, 8),
    inputs=st.integers(1, 9),
    hidden=st.integers(1, 20),
    outputs=st.sampled_from(["all", "last"]),
    ragged=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_call(case, dtype, size, steps, inputs, hidden, outputs, ragged, seed):
    model, chosen = case
    layer = make(model, inputs, hidden, dtype, outputs=outputs, **chosen)
    assert_same_as_torch(layer, *batch(layer, size, steps, dtype, seed, ragged))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("hidden", [1, 5, 17, 130])
@pytest.mark.parametrize("size", [1, 7])
def test_remainder_lanes(model, hidden, size, dtype):
    layer = make(model, 2, hidden, dtype)
    assert_same_as_torch(layer, *batch(layer, size, 3, dtype))


@pytest.mark.parametrize("model", ["indrnn", "dense-indrnn"])
def test_batch_norm(model):
    layer = make(model, norm="batch")
    assert_same_as_torch(layer, *batch(layer, 6, 5, torch.float64))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("outputs", ["all", "last"])
def test_directions(model, outputs):
    layer = make(model, 4, 4, bidirectional=True, outputs=outputs)
    assert_same_as_torch(layer, *batch(layer, 5, 6, torch.float64))


@pytest.mark.parametrize("isa", library.available_isas())
def test_every_instruction_set(isa, monkeypatch):
    monkeypatch.setattr(ops, "library", lambda: library.load(isa))
    for model in MODELS:
        for dtype in DTYPES:
            layer = make(model, 3, 17, dtype)
            assert_same_as_torch(layer, *batch(layer, 9, 4, dtype))


@pytest.mark.parametrize("model", MODELS)
def test_same_bits_for_any_number_of_threads(model):
    layer = make(model, 3, 21, torch.float32)
    helpers.assert_same_bits_for_any_threads(layer, *batch(layer, 150, 9, torch.float32))


@pytest.mark.parametrize("model", MODELS)
def test_long_sequences(model):
    layer = make(model, 2, 6)
    assert_same_as_torch(layer, *batch(layer, 3, 300, torch.float64))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("model", MODELS)
def test_a_state_that_is_not_finite_spreads_as_in_torch(model, value):
    layer = make(model, 2, 9)
    helpers.assert_same_where_not_finite(layer, *batch(layer, 3, 3, torch.float64), value)


@pytest.mark.parametrize("model", MODELS)
def test_gradients_that_are_not_finite_go_where_they_go_in_torch(model):
    """A ReLU that is off stops even an infinite gradient; one that is NaN stops none."""
    layer = make(model, 2, 9)
    x, dt, lengths, (state,) = batch(layer, 3, 4, torch.float64)
    with torch.no_grad():
        state[0, 1, 0] = float("nan")
    found = []
    for backend in ("native", "torch"):
        with chronode.backend(backend):
            y, _ = layer(x, (state,), dt=dt, lengths=lengths)
        weight = torch.ones_like(y)
        weight[0, 0] = float("inf")
        grads = torch.autograd.grad((y * weight).sum(), (state, x))
        found.append(dict(zip(("state", "x"), grads, strict=True)))
    helpers.assert_close(*found)


@pytest.mark.parametrize("model", MODELS)
def test_inputs_that_do_not_lie_densely(model):
    layer = make(model, 3, 5)
    x, dt, _, state = batch(layer, 4, 6, torch.float64, ragged=False)
    apart = torch.zeros(6, 4, 7, dtype=torch.float64)[..., ::2].transpose(0, 1)[..., :3]
    apart.copy_(x.detach())
    with torch.no_grad():
        torch.testing.assert_close(layer(apart, state, dt=dt)[0], layer(x, state, dt=dt)[0])


@pytest.mark.parametrize("model", MODELS)
def test_autocast(model):
    """The input's product is of less precision then, the recurrence not."""
    layer = make(model, dtype=torch.float32)
    x, dt, _, state = batch(layer, 2, 4, torch.float32, ragged=False)
    found = []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for backend in ("native", "torch"):
            with chronode.backend(backend):
                found.append(layer(x, state, dt=dt)[0])
    assert found[0].dtype == found[1].dtype
    torch.testing.assert_close(*found, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("model", MODELS)
def test_inference_with_last_outputs_keeps_no_states(model, monkeypatch):
    layer = make(model, outputs="last")
    x, dt, _, state = batch(layer, 2, 4, torch.float64, ragged=False)
    operator, kept = elementwise.elementwise_forward, []

    def watch(*inputs):
        found = operator(*inputs)
        kept.append(len(found[0]))
        return found

    monkeypatch.setattr(elementwise, "elementwise_forward", watch)
    trained = layer(x, state, dt=dt)[0]
    with torch.no_grad():
        torch.testing.assert_close(layer(x, state, dt=dt)[0], trained)
    assert kept == [4, 0]


def test_where_there_is_a_kernel():
    class OwnIndRNN(IndRNNCell):
        def forward(self, x, state, dt):
            return super().forward(x + 1, state, dt)

    class OwnSRU(SRUCell):
        def forward(self, x, state, dt):
            return super().forward(x + 1, state, dt)

    for model in MODELS:
        assert chronode.create(model, 3, 5).cells[0].kernel() is not None
    assert OwnIndRNN(3, 5).kernel() is None and OwnSRU(3, 5).kernel() is None


@pytest.mark.parametrize("model", MODELS)
def test_double_backward_names_the_way_out(model):
    layer = make(model)
    helpers.assert_refuses_double_backward(layer, *batch(layer, 2, 3, torch.float64))


@pytest.mark.parametrize(("model", "shares", "weights"), [("indrnn", 1, 1), ("sru", 4, 2)])
@pytest.mark.parametrize("last", [True, False])
def test_op_is_a_sound_operator(model, shares, weights, last):
    def leaf(*shape):
        return (torch.rand(shape, dtype=torch.float64) - 0.5).requires_grad_()

    tensors = leaf(3, 2, shares * 5), leaf(2, 5), leaf(weights * 5)
    scale = torch.ones((), dtype=torch.float64) if model == "sru" else None
    arguments = (*tensors, scale, torch.tensor([3, 2]), model, last, True)
    torch.library.opcheck(elementwise.elementwise_forward, arguments)


@pytest.mark.parametrize("model", MODELS)
def test_compile_and_export(model):
    layer = make(model)
    x, dt, _, _ = batch(layer, 2, 3, torch.float64, ragged=False)
    helpers.assert_compiles_and_exports(layer, x, dt.detach())
