"""Clocks that count in every precision, constants that are exact in every precision."""

import copy

import pytest
import torch

import chronode

MODELS = chronode.models()


@pytest.fixture(autouse=True)
def without_onednn():
    """On some virtual machines oneDNN's products of bfloat16 use instructions that the processor lacks."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


def create(name, **settings):
    torch.manual_seed(0)
    return chronode.create(name, 2, 3, **settings)


# By model: its settings, which part of the state counts, what one step of dt = 1 adds.
COUNTERS = {
    "irnn": ({"eta_steps": 4}, 1),
    "ernn": ({"eta_steps": 4}, 1),
    "phased-lstm": ({}, 2),
    "ncde": ({}, 3),
}


@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_counters_count_past_256(name, dtype):
    settings, part = COUNTERS[name]
    layer = create(name, **settings).to(dtype)
    x = torch.zeros(1, 600, 2, dtype=dtype)
    with torch.no_grad():
        y, state = layer(x)
        assert float(state[part]) == 600
        assert y.dtype == dtype
        _, state = layer(x[:, :7], state)  # as a carried state too
        assert float(state[part]) == 607
        _, state = layer.step(x[:, 0], state)
        assert float(state[part]) == 608


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_bfloat16_state_goes_round(name, missing):
    layer = create(name, missing=missing).to(torch.bfloat16)
    y, state = layer(torch.zeros(2, 3, 2, dtype=torch.bfloat16))
    again, after = layer(torch.zeros(2, 3, 2, dtype=torch.bfloat16), state)
    assert y.dtype == again.dtype == torch.bfloat16
    assert [part.dtype for part in after] == [part.dtype for part in state]
    assert [part.dtype for part in layer.initial_state(2)] == [part.dtype for part in state]


@pytest.mark.parametrize(("name", "wanted"), [("gru", 400), ("gru-d", 399)])  # GRU-D counts from the first step
def test_time_since_a_value_was_seen_grows_past_256(name, wanted):
    layer = create(name, missing=True).to(torch.bfloat16)
    x, observed = torch.zeros(1, 400, 2, dtype=torch.bfloat16), torch.zeros(1, 400, 2, dtype=torch.bool)
    _, (_, since, *_) = layer(x, observed=observed)
    assert since.flatten().tolist() == [wanted, wanted]


def test_skip_rnns_count_their_updates_past_256():
    layer = create("skip-gru", update_bias=50.0).to(torch.bfloat16)
    _, state = layer(torch.zeros(1, 400, 2, dtype=torch.bfloat16))
    assert state[-1].tolist() == [[[400]]]


def test_phased_units_keep_their_rhythm_in_bfloat16():
    """Units go on opening after a time of 256; with a stopped clock they would stay as they are."""
    layer = create("phased-lstm", shortest=3.0, longest=5.0, ratio_on=0.5, leak=0.0).to(torch.bfloat16)
    cell = layer.cells[0]
    times = torch.arange(1000.0, 1020.0).unsqueeze(1)
    openness = cell.openness(times)
    assert openness.dtype == torch.float32
    assert bool((openness > 0.5).any(0).all())
    assert bool((openness == 0).any(0).all())


# ---- constants -----------------------------------------------------------------------------------------------------

VALUES = {
    "unicornn": {"delta_t": 0.1, "alpha": 0.3},
    "cornn": {"delta_t": 0.1, "gamma": 0.7, "epsilon": 1.3},
    "irnn": {"gamma": 0.7},
    "indrnn": {"bound": 1.1},
    "antisymmetric": {"epsilon": 0.1, "gamma": 0.7},
    "lipschitz": {"epsilon": 0.1, "beta": 0.7, "gamma": 0.3},
    "phased-lstm": {"ratio_on": 0.1, "leak": 0.003},
    "spectral": {"margin": 0.1},
}


@pytest.mark.parametrize("name", VALUES)
def test_double_has_the_numbers_that_were_given(name):
    settings = VALUES[name]
    layer = create(name, **settings)
    for changed in (
        copy.deepcopy(layer).double(),
        copy.deepcopy(layer).to(torch.bfloat16).double(),
        copy.deepcopy(layer).half().float().to(torch.float64),
    ):
        for key, value in settings.items():
            assert float(getattr(changed.cells[0], key)) == value, key
    for key, value in settings.items():
        assert getattr(layer.cells[0], key).dtype == torch.float32
        assert float(getattr(layer.cells[0], key)) == float(torch.tensor(value)), key


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_buffer_of_a_double_layer_is_rounded(name):
    """A layer that became float64 has the buffers of one that was made in float64."""
    single = create(name)
    torch.set_default_dtype(torch.float64)
    try:
        double = create(name)
    finally:
        torch.set_default_dtype(torch.float32)
    buffers = dict(double.named_buffers())
    for key, buffer in single.double().named_buffers():
        if "permutation" not in key and "holder" not in key:  # drawn, not given
            assert torch.equal(buffer, buffers[key]), key


@pytest.mark.parametrize("name", VALUES)
def test_weights_saved_in_float32_bring_no_rounded_constants(name):
    saved = create(name, **VALUES[name]).state_dict()
    layer = create(name, **VALUES[name]).double()
    layer.load_state_dict(saved)
    for key, value in VALUES[name].items():
        assert float(getattr(layer.cells[0], key)) == value, key


def test_another_constant_that_was_loaded_stays():
    layer, other = create("unicornn", delta_t=0.1), create("unicornn", delta_t=0.25)
    layer.load_state_dict(other.state_dict())
    assert float(layer.double().cells[0].delta_t) == 0.25
    layer.cells[0].delta_t.fill_(0.5)
    assert float(layer.float().cells[0].delta_t) == 0.5


# ---- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64])
def test_whole_times_that_go_back_are_refused(dtype):
    layer, x = create("mmrnn"), torch.zeros(1, 3, 2)
    with pytest.raises(ValueError, match=r"t\[0, 2\] goes back in time"):
        layer(x, t=torch.tensor([[3, 9, 4]]).to(dtype))


def test_differences_of_narrow_times_do_not_wrap():
    layer, x = create("mmrnn"), torch.ones(1, 3, 2)
    wanted = layer(x, dt=torch.tensor([[0.0, 227.0, 0.0]]))
    for t in (torch.tensor([[-100, 127, 127]], dtype=torch.int8), torch.tensor([[3, 230, 230]], dtype=torch.uint8)):
        torch.testing.assert_close(layer(x, t=t), wanted)
