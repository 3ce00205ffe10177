"""Every kernel gives what the torch path gives, whatever the call, the machine and the autograd mode."""

import contextlib

import helpers
import pytest
import torch
from helpers import assert_close, assert_same_as_torch, batch, results
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import CASES, assert_sound_operator, called, calls, make, watched
from layer_checks import assert_same_when_checkpointed

import chronode
from chronode.kernels import _library as library
from chronode.kernels import ops
from chronode.system._torch import are_flushed, threads

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

DTYPES = [torch.float64, torch.float32]
LINE = 8
"""Units whose float64 fill a cache line: what is kept for the backward pass has no gaps then."""
every_case = pytest.mark.parametrize("name", CASES)


def test_no_kernel_is_left_out():
    models = chronode.models()
    assert {model.cell for model in models.values() if model.kernel()} == {models[c.model].cell for c in CASES.values()}


# ---- the same numbers, for any sizes ---------------------------------------------------------------------------------


@every_case
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_call(name, data):
    assert_same_as_torch(*called(name, data.draw(calls(name))))


@every_case
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden", [1, 5, 17, 130])
@pytest.mark.parametrize("size", [1, 7])
def test_remainder_lanes(name, hidden, size, dtype):
    layer = make(name, 2, hidden, dtype)
    assert_same_as_torch(layer, *batch(layer, size, CASES[name].length, dtype))


@every_case
@pytest.mark.parametrize("isa", library.available_isas())
def test_every_instruction_set(name, isa, monkeypatch):
    monkeypatch.setattr(ops, "library", lambda: library.load(isa))
    for dtype in DTYPES:
        layer = make(name, 3, 33, dtype, dropout=0.3)
        assert_same_as_torch(layer, *batch(layer, 9, CASES[name].length, dtype))


@every_case
@pytest.mark.parametrize(("size", "length", "hidden"), [(150, 9, 21), (37, 30, 100)])
def test_same_bits_for_any_number_of_threads(name, size, length, hidden):
    layer = make(name, 3, hidden, torch.float32)
    call = batch(layer, size, length, torch.float32)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(results(layer, "native", *call))
    finally:
        torch.set_num_threads(threads)
    for part, wanted in found[0].items():
        assert all(torch.equal(others[part], wanted) for others in found[1:]), part


@every_case
def test_long_sequences(name):
    layer = make(name, 2, 6)
    assert_same_as_torch(layer, *batch(layer, 5, CASES[name].long, torch.float64))


@every_case
def test_many_samples(name):
    layer = make(name, 1, 3)
    assert_same_as_torch(layer, *batch(layer, 4300, 3, torch.float64))


@every_case
@pytest.mark.parametrize("outputs", ["all", "last"])
def test_directions(name, outputs):
    layer = make(name, 4, 4, bidirectional=True, outputs=outputs)
    assert_same_as_torch(layer, *batch(layer, 5, 6, torch.float64))


# ---- the same numbers, for any inputs --------------------------------------------------------------------------------


@every_case
def test_missing_values_are_encoded_below_the_kernel(name):
    layer = make(name, 2, 9, missing=True)
    x, observed = torch.randn(3, 6, 2, dtype=torch.float64), torch.rand(3, 6, 2) > 0.4
    with chronode.backend("torch"):
        wanted = layer(x, observed=observed)
    torch.testing.assert_close(layer(x, observed=observed), wanted)


@every_case
def test_layouts_of_the_input(name):
    """Batch-first, time-first and strided input, and one sequence without a batch."""
    layer, turned = make(name), make(name, batch_first=False)
    x = torch.randn(4, 7, 3, dtype=torch.float64)
    y, _ = layer(x)
    strided = torch.zeros(7, 4, 6, dtype=torch.float64)[..., ::2].transpose(0, 1)
    layouts = [
        turned(x.transpose(0, 1))[0].transpose(0, 1),
        turned(x.transpose(0, 1).contiguous())[0].transpose(0, 1),
        layer(strided.copy_(x))[0],
        torch.stack([layer(one)[0] for one in x]),
    ]
    for found in layouts:
        torch.testing.assert_close(found, y)


@every_case
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_state_that_is_not_finite_spreads_as_in_torch(name, value):
    layer = make(name, 2, 9)
    helpers.assert_same_where_not_finite(layer, *batch(layer, 3, CASES[name].length, torch.float64), value)


@every_case
def test_gradients_that_are_not_finite_go_where_they_go_in_torch(name):
    """A ReLU that is off stops even an infinite gradient; one that is NaN stops none."""
    layer = make(name, 2, 9)
    x, dt, lengths, state = batch(layer, 3, 4, torch.float64)
    lengths[1] = 4  # the torch path goes through padding, too, where 0 times NaN is NaN
    with torch.no_grad():
        state[0][0, 1, 0] = float("nan")
    found = []
    for backend in ("native", "torch"):
        with chronode.backend(backend):
            y, _ = layer(x, state, dt=dt, lengths=lengths)
        weight = torch.ones_like(y)
        weight[0, 0] = float("inf")
        grads = torch.autograd.grad((y * weight).sum(), (x, *state))
        found.append(dict(enumerate(grads)))
    assert_close(*found)


@every_case
def test_autocast(name):
    """Products are of less precision then, the recurrence not."""
    layer = make(name, dtype=torch.float32)
    x, dt, _, state = batch(layer, 2, 4, torch.float32, ragged=False)
    found = []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for backend in ("native", "torch"):
            with chronode.backend(backend):
                found.append(layer(x, state, dt=dt)[0])
    assert found[0].dtype == found[1].dtype
    torch.testing.assert_close(*found, rtol=0.02, atol=0.02)


# ---- what autograd and compilers see ---------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("wanted", ["x", "dt", "state", "parameters"])
def test_only_what_wants_gradients_gets_them(name, wanted):
    layer = make(name).requires_grad_(wanted == "parameters")
    x, dt, lengths, state = batch(layer, 3, CASES[name].length, torch.float64)
    x, dt = x.detach().requires_grad_(wanted == "x"), dt.detach().requires_grad_(wanted == "dt")
    state = tuple(part.detach().requires_grad_(wanted == "state") for part in state)
    if wanted == "dt" and chronode.models()[CASES[name].model].time == "none":
        assert not layer(x, state, dt=dt, lengths=lengths)[0].requires_grad
    else:
        assert_same_as_torch(layer, x, dt, lengths, state)


@every_case
def test_inference_with_last_outputs_keeps_no_states(name):
    layer = make(name, hidden=LINE, outputs="last")
    x, dt, _, state = batch(layer, 2, 4, torch.float64, ragged=False)
    with watched(name) as seen:
        trained = layer(x, state, dt=dt)[0]
        with torch.no_grad():
            torch.testing.assert_close(layer(x, state, dt=dt)[0], trained)
    one = state[0].numel()
    kept = [sum(part.numel() for part in returned if part.numel() > one) for _, returned in seen]
    assert kept == [CASES[name].kept * one, 0]


@every_case
@pytest.mark.parametrize("outputs", ["all", "last"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_outputs_and_states_may_be_written_to(name, outputs, batch_first):
    """As behind an activation that works in place: what the backward pass reads is not theirs."""
    layer = make(name, outputs=outputs, batch_first=batch_first)
    x, dt, lengths, state = batch(layer, 3, 3, torch.float64)  # as many steps as sequences: any layout fits
    found = []
    for in_place in (False, True):
        y, final = layer(x, state, dt=dt, lengths=lengths)
        parts = [part.mul_(3) if in_place else part * 3 for part in (y, *final)]
        loss = sum(part.square().sum() for part in parts)
        grads = torch.autograd.grad(loss, [x, *layer.parameters()], allow_unused=True, materialize_grads=True)
        found.append(dict(enumerate(grads)))
    assert_close(*found)


@every_case
@pytest.mark.filterwarnings("ignore:a backward pass")
def test_second_derivatives(name):
    layer = make(name, hidden=3)
    x, dt, lengths, state = batch(layer, 2, 3, torch.float64)
    weights = list(layer.parameters())

    def outputs(x, *state):
        y, final = layer(x, state, dt=dt, lengths=lengths)
        return y, *final

    def gradients(kernel):
        with contextlib.nullcontext() if kernel else chronode.backend("torch"):
            loss = sum(part.square().sum() for part in outputs(x, *state))
        first = torch.autograd.grad(
            loss, [x, *state, *weights], create_graph=True, allow_unused=True, materialize_grads=True
        )
        return torch.autograd.grad(
            sum(one.square().sum() for one in first), [x, dt, *weights], allow_unused=True, materialize_grads=True
        )

    assert torch.autograd.gradgradcheck(outputs, (x, *state), atol=1e-4, fast_mode=True)
    assert_close(*(dict(enumerate(gradients(kernel))) for kernel in (True, False)))


@every_case
def test_gradients_under_checkpointing(name):
    layer = make(name)
    x, dt, lengths, state = batch(layer, 3, CASES[name].length, torch.float64)

    def outputs(x, dt, *state):
        y, final = layer(x, state, dt=dt, lengths=lengths)
        return y, *final

    assert_same_when_checkpointed(outputs, (x, dt, *state), layer.parameters())


@every_case
def test_op_is_a_sound_operator(name):
    layer = make(name, hidden=LINE, dropout=0.3)
    assert_sound_operator(name, layer, *batch(layer, 2, 3, torch.float64, ragged=CASES[name].fills_padding))


# It takes a second; "fast" and "low" memory are but other numbers to the operator.
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.settings.get("memory", "auto") == "auto"])
def test_compile_and_export(name):
    layer = make(name)
    x, dt, _, _ = batch(layer, 2, 3, torch.float64, ragged=False)
    helpers.assert_compiles_and_exports(layer, x, dt)


@every_case
def test_a_cell_with_a_step_of_its_own_has_no_kernel(name):
    (cell, *_) = make(name).cells

    class Own(type(cell)):
        def forward(self, x, state, dt):
            return super().forward(x + 1, state, dt)

    assert cell.kernel() is not None
    assert Own(3, 5).kernel() is None


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("model", ["ltc", "sru"])
def test_vanished_gradients_are_zero_instead_of_slow(model, count):
    layer = chronode.create(model, 2, 8)
    tiny = torch.finfo(torch.float32).tiny
    below = {}
    for backend in ("native", "torch"):
        x = torch.randn(9, 300, 2, requires_grad=True)
        with chronode.backend(backend), threads(count):
            layer(x)[0][:, -1].sum().backward()
        size = x.grad.abs()
        below[backend] = int(((size > 0) & (size < tiny)).sum())
    assert below["native"] == 0 < below["torch"]
    assert not are_flushed()
