"""The GPU's kernels against the torch path: every kernel, setting and gradient.

Without a GPU they run on CPU tensors by Triton's interpreter, slowly: sizes are small.
"""

import pytest
import torch
from gpu import DEVICE, MODELS, gpu_kernels, interpreter, needs_triton  # noqa: F401
from helpers import assert_close, batch, results
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import CASES, assert_sound_operator, called, calls, make

import chronode
from chronode.kernels import elementwise as _elementwise
from chronode.kernels import triton as gpu
from chronode.kernels import unicornn as _unicornn

pytestmark = [
    pytest.mark.gpu,
    needs_triton,
    pytest.mark.usefixtures("gpu_kernels"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
    pytest.mark.filterwarnings("ignore:the outputs of UnICORNNCell"),
]
every_model = pytest.mark.parametrize("name", MODELS)


def moved(layer, x, dt, lengths, state):
    """A call with everything on the device of the tests."""
    leaves = (x, dt, *state)
    x, dt, *state = (t.detach().to(DEVICE).requires_grad_(t.requires_grad) for t in leaves)
    return layer.to(DEVICE), x, dt, None if lengths is None else lengths.to(DEVICE), tuple(state)


def assert_same_as_loop(layer, *call):
    """The kernels give what the torch path gives."""
    layer, *call = moved(layer, *call)
    assert_close(results(layer, "auto", *call), results(layer, "torch", *call))


# ---- the same numbers ------------------------------------------------------------------------------------------------


@every_model
@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_call(name, data):
    """Any sizes, dropout masks, lengths, residual connections, directions, float32 and float64."""
    call = data.draw(calls(name))
    for size, most in {"length": 7, "size": 3, "hidden": 9}.items():
        call[size] = min(call[size], most)
    assert_same_as_loop(*called(name, call))


@every_model
@pytest.mark.parametrize("hidden", [1, 3, 5])
def test_remainders_of_tiles(name, hidden, monkeypatch):
    """Several sequences in a tile, a part of a tile, several tiles of a sequence."""
    monkeypatch.setattr(gpu, "TILE", 4)
    layer = make(name, 2, hidden, torch.float64)
    assert_same_as_loop(layer, *batch(layer, 3, 3, torch.float64))


@every_model
@pytest.mark.parametrize("outputs", ["all", "last"])
@pytest.mark.parametrize("steps", [1, 4, 7])
def test_whole_and_broken_chunks(name, outputs, steps):
    layer = make(name, 2, 4, torch.float64, dropout=0.3, outputs=outputs)
    assert_same_as_loop(layer, *batch(layer, 2, steps, torch.float64))


@every_model
def test_tiles_and_chunks_as_they_are_in_use(name, monkeypatch):
    for size, number in {"TILE": 32, "CHUNK": 8, "SEGMENT": 128}.items():
        monkeypatch.setattr(gpu, size, number)
    layer = make(name, 2, 4, torch.float64)
    assert_same_as_loop(layer, *batch(layer, 2, 11, torch.float64))


@pytest.mark.parametrize("residual", [0, 1, 2])
@pytest.mark.parametrize("memory", ["fast", "low"])
def test_stacks(residual, memory):
    layer = make(f"unicornn-{memory}", 2, 5, torch.float64, num_layers=4, residual=residual, dropout=0.2)
    assert_same_as_loop(layer, *batch(layer, 2, 7, torch.float64))


@every_model
@pytest.mark.parametrize("wanted", ["x", "dt", "state", "parameters"])
def test_only_what_wants_gradients_gets_them(name, wanted):
    layer = make(name).requires_grad_(wanted == "parameters")
    x, dt, lengths, state = batch(layer, 2, 5, torch.float64)
    x, dt = x.detach().requires_grad_(wanted == "x"), dt.detach().requires_grad_(wanted == "dt")
    state = tuple(part.detach().requires_grad_(wanted == "state") for part in state)
    if wanted == "dt" and chronode.models()[CASES[name].model].time == "none":
        return
    assert_same_as_loop(layer, x, dt, lengths, state)


@every_model
def test_layouts_of_the_input(name):
    layer, turned = (make(name, batch_first=first).to(DEVICE) for first in (True, False))
    x = torch.randn(4, 5, 3, dtype=torch.float64, device=DEVICE)
    y, _ = layer(x)
    torch.testing.assert_close(turned(x.transpose(0, 1))[0].transpose(0, 1), y)
    torch.testing.assert_close(turned(x.transpose(0, 1).contiguous())[0].transpose(0, 1), y)


@every_model
def test_a_state_carried_on(name):
    """Two halves of a sequence give what the whole gives."""
    layer = make(name).to(DEVICE)
    x, dt = torch.randn(3, 9, 3, dtype=torch.float64, device=DEVICE), torch.rand(3, 9, device=DEVICE).double()
    whole, wanted = layer(x, dt=dt)
    first, state = layer(x[:, :5], dt=dt[:, :5])
    second, state = layer(x[:, 5:], state, dt=dt[:, 5:])
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(state, wanted)


# ---- in other precision ----------------------------------------------------------------------------------------------


@every_model
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.04), (torch.float16, 0.005)])
def test_inputs_of_16_bits(name, dtype, tolerance):
    """States are float32: the errors are those of inputs, weights and outputs, each rounded once."""
    layer = make(name, 3, 5, torch.float32).to(DEVICE, dtype)
    x, dt, lengths, state = batch(layer, 3, 7, torch.float32)
    call = (x.detach().to(dtype), dt.detach().to(dtype), lengths, tuple(part.detach().to(dtype) for part in state))
    exact = make(name, 3, 5, torch.float64)
    exact.load_state_dict({key: part.cpu() for key, part in layer.state_dict().items()})
    in_float64 = [None if part is None else part.double() for part in call[:2]]
    wanted = results(exact, "torch", *(t.requires_grad_() for t in in_float64), lengths,
                     tuple(part.double().requires_grad_() for part in call[3]))  # fmt: skip
    ready = (call[0].requires_grad_(), call[1].requires_grad_(), lengths, tuple(p.requires_grad_() for p in call[3]))
    found = results(*moved(layer, *ready)[:1], "auto", *moved(layer, *ready)[1:])
    for key, tensor in wanted.items():
        error = (found[key].double().cpu() - tensor).norm() / tensor.norm().clamp(min=0.1)
        assert error < tolerance, (key, float(error))


def test_states_do_not_lose_small_steps():
    """400 steps of 2⁻¹⁰ would be lost in bfloat16, whose numbers around 1 are 2⁻⁷ apart."""
    layer = chronode.create("indrnn", 1, 1).to(DEVICE)
    with torch.no_grad():
        layer.cells[0].inputs.weight.fill_(1)
        layer.cells[0].u.fill_(1)
    layer = layer.to(torch.bfloat16)
    x = torch.full((1, 400, 1), 2.0**-10, dtype=torch.bfloat16, device=DEVICE)
    y, _ = layer(x, (torch.ones(1, 1, 1, dtype=torch.bfloat16, device=DEVICE),))
    assert y[0, -1, 0].item() == pytest.approx(1 + 400 / 1024, abs=2**-7)


@pytest.mark.parametrize("memory", ["fast", "auto", "low"])
@pytest.mark.parametrize(("gap", "delta_t"), [(100.0, 0.1), (1000.0, 0.4)])
def test_long_gaps(memory, gap, delta_t):
    """No mode is less exact in float32 than torch's loop, times 5."""
    errors = {"auto": 0.0, "torch": 0.0}
    for seed in range(2):
        torch.manual_seed(seed)
        layer = chronode.create("unicornn", 2, 4, delta_t=delta_t, memory=memory).to(DEVICE)
        exact = chronode.create("unicornn", 2, 4, delta_t=delta_t).double()
        exact.load_state_dict({key: part.cpu() for key, part in layer.state_dict().items()})
        x, dt = torch.randn(3, 11, 2), torch.ones(3, 11)
        dt[:, 5] = gap
        state = tuple(part.cpu() for part in layer.initial_state(3))
        wanted = results(exact, "torch", x.double().requires_grad_(), dt.double().requires_grad_(), None,
                         tuple(part.double() for part in state))  # fmt: skip
        for backend in errors:
            call = moved(layer, x.requires_grad_(), dt.requires_grad_(), None, state)
            found = results(call[0], backend, *call[1:])
            errors[backend] += sum(
                float((found[key].double().cpu() - tensor).norm() / tensor.norm().clamp(min=1e-6)) ** 2
                for key, tensor in wanted.items()
                if key.startswith("gradient")
            )
    assert errors["auto"] ** 0.5 <= 5 * errors["torch"] ** 0.5


# ---- what autograd, compilers and careless callers see ---------------------------------------------------------------


@every_model
def test_the_same_bits_at_every_call(name):
    layer = make(name, 3, 9, torch.float32)
    call = moved(layer, *batch(layer, 5, 5, torch.float32))
    first, second = (results(call[0], "auto", *call[1:]) for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


@every_model
def test_op_is_a_sound_operator(name):
    layer = make(name, hidden=8, dropout=0.3)
    layer, *call = moved(layer, *batch(layer, 2, 5, torch.float64, ragged=CASES[name].fills_padding))
    assert_sound_operator(name, layer, *call)


@pytest.mark.parametrize("lengths", [[7, 99], [-3, 5], [0, 2**40]])
def test_wrong_lengths_touch_no_other_memory(lengths):
    """They count as 0 and as all steps; the interpreter, and a sanitizer, would notice an address outside."""
    lengths = torch.tensor(lengths, device=DEVICE)
    right = lengths.clamp(0, 5)
    a, h0, weights = (torch.randn(shape, device=DEVICE) for shape in ((5, 2, 3), (2, 3), (3,)))
    found, wanted = (
        _elementwise.elementwise_forward(a, h0, weights, None, given, "indrnn", False, True)
        for given in (lengths, right)
    )
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))
    x, dt, state = torch.randn(5, 2, 3, device=DEVICE), torch.ones(5, 2, 1, device=DEVICE), h0.unsqueeze(0)
    units = [torch.rand(1, 3, device=DEVICE) for _ in range(3)]
    parameters = (torch.randn(9, device=DEVICE), *units, torch.ones(1, device=DEVICE), None)
    found, wanted = (
        _unicornn.unicornn_forward(x, dt, state, state, *parameters, given, 0, True, False, 0)
        for given in (lengths, right)
    )
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))
