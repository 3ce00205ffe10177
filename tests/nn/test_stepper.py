"""layer.stepper: the numbers of layer.step, whatever the model, the batch and what happens in between."""

import pytest
import torch
from live_steps import NATIVE, REFUSED, make, readings

import chronode
from chronode.kernels import _library as library
from chronode.nn._stepper import _NativeUnit

MODELS = sorted(chronode.models())


def assert_steps_alike(layer, stepper, steps, state=None, **tolerance):
    """Step by step the outputs, and at the end the state, are those of layer.step."""
    with torch.no_grad():
        for x, dt in steps:
            wanted, state = layer.step(x, state, dt)
            torch.testing.assert_close(stepper(x, dt), wanted, **tolerance)
    torch.testing.assert_close(stepper.state, state, **tolerance)
    return state


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_every_model(name, batch):
    layer = make(name)
    assert_steps_alike(layer, layer.stepper(batch), readings(4, *([] if batch is None else [batch])))


@pytest.mark.parametrize("name", [*NATIVE, "mmrnn", "irnn", "ernn", "sirnn"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 3}, {"num_layers": 3, "residual": 1}, {"outputs": "last"}])
def test_stacks(name, dtype, settings):
    layer = make(name, dtype=dtype, **settings)
    assert_steps_alike(layer, layer.stepper(2), readings(5, 2, dtype=dtype))


VARIANTS = [
    ("mmrnn", {"variant": "driven"}),
    ("mmrnn", {"variant": "paper", "flow": "ctrnn", "solver": "rk4"}),
    ("mmrnn", {"flow": "gru"}),
    ("ltc", {"form": "dense"}),
    ("ltc", {"input_map": True, "weights": "clip"}),
    ("ltc", {"wiring": "ncp", "motor": 2, "hidden_size": 12}),
    ("irnn", {"eta_steps": 3}),
    ("irnn", {"recurrent": "full", "outer": "identity", "sign": -1, "start": "zero"}),
    ("unicornn", {"delta_t": 0.4, "alpha": 3.0}),
    ("lstm", {"batch_first": False}),
    ("mmrnn", {"max_gap": 0.5}),
]


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_settings(name, settings):
    layer = make(name, **settings)
    assert_steps_alike(layer, layer.stepper(2), readings(5, 2))


@pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")
@pytest.mark.parametrize("name", NATIVE)
def test_models_with_kernels_step_natively(name):
    assert [type(unit) for unit in make(name).stepper(1)._units] == [_NativeUnit]
    with chronode.backend("torch"):
        assert [type(unit) for unit in make(name).stepper(1)._units] != [_NativeUnit]


@pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")
@pytest.mark.parametrize(
    ("name", "settings"), [("gru", {}), ("gru", {"num_layers": 3, "residual": 1}), ("mmrnn", {}), ("irnn", {})]
)
def test_compiled_cells_step_natively(name, settings):
    layer = make(name, **settings)
    chronode.compiler.use(layer)
    stepper = layer.stepper(2)
    assert {type(unit) for unit in stepper._units} == {_NativeUnit}
    steps = readings(5, 2)
    compiled = [stepper(*step) for step in steps]
    chronode.compiler.use(layer, compiled=False)
    loop = layer.stepper(2)
    torch.testing.assert_close(compiled, [loop(*step) for step in steps])
    torch.testing.assert_close(stepper.state, loop.state)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["mmrnn", "gru", "gru-d"])
def test_missing_values(name, compiled):
    layer = make(name, missing=True)
    chronode.compiler.use(layer, compiled)
    stepper, state = layer.stepper(2), None
    chronode.compiler.use(layer, False)
    for x, dt in readings(5, 2):
        observed = x > 0
        hidden = torch.where(observed, x, torch.nan)
        with torch.no_grad():
            wanted, state = layer.step(hidden, state, dt, observed=observed)
        torch.testing.assert_close(stepper(hidden, dt, observed=observed), wanted)
    torch.testing.assert_close(stepper.state, state)


@pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")
def test_compiled_encoders_of_missing_values_step_natively():
    layer = make("gru-d", missing=True)
    chronode.compiler.use(layer)
    assert [type(unit) for unit in layer.stepper(2)._units] == [_NativeUnit, _NativeUnit]


@pytest.mark.parametrize("name", MODELS)
def test_the_state_can_be_taken_and_set(name):
    layer = make(name)
    stepper, steps = layer.stepper(2), readings(6, 2)
    assert_steps_alike(layer, stepper, steps[:3])
    kept = stepper.state
    rest = [stepper(*step) for step in steps[3:]]
    stepper.state = kept
    torch.testing.assert_close([stepper(*step) for step in steps[3:]], rest, rtol=0, atol=0)
    stepper.reset()
    assert_steps_alike(layer, stepper, steps[:3])


@pytest.mark.parametrize("name", ["mmrnn", "unicornn", "ltc", "irnn", "sru", "exprnn", "lstm"])
def test_new_weights_are_used(name):
    layer, other = make(name, num_layers=2), make(name, num_layers=2)
    stepper, steps = layer.stepper(2), readings(9, 2)
    state = assert_steps_alike(layer, stepper, steps[:3])

    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.1
    layer.load_state_dict(other.state_dict())
    state = assert_steps_alike(layer, stepper, steps[3:6], state)

    layer(torch.randn(2, 4, 3).double())[0].sum().backward()
    torch.optim.Adam(layer.parameters(), lr=0.05).step()
    state = assert_steps_alike(layer, stepper, steps[6:8], state)

    for parameter in layer.parameters():
        parameter.data.mul_(0.9)  # torch does not count this
    stepper.refresh()
    assert_steps_alike(layer, stepper, steps[8:], state)


@pytest.mark.parametrize("name", ["mmrnn", "ncde", "lstm", "phased-lstm"])
def test_nothing_is_shared_with_the_caller(name):
    layer = make(name)
    stepper, other = layer.stepper(2), layer.stepper(2)
    x, outputs = torch.zeros(2, 3).double(), []
    for values, dt in readings(4, 2):
        x.copy_(values)  # one array for all readings
        outputs.append(stepper(x, dt))
    kept = [y.clone() for y in outputs]
    x.fill_(7)
    for y, (values, dt), before in zip(outputs, readings(4, 2), kept, strict=True):
        torch.testing.assert_close(other(values, dt), y)
        assert torch.equal(y, before)
    state = stepper.state
    stepper(x)
    torch.testing.assert_close(other.state, state)


@pytest.mark.parametrize("name", ["mmrnn", "lstm"])
@pytest.mark.parametrize("row", range(len(REFUSED)))
def test_bad_input_is_refused_at_any_step(name, row):
    call, error, words = REFUSED[row]
    layer = make(name)
    stepper, steps = layer.stepper(2), readings(3, 2)
    state = None
    for step in [None, *steps]:
        if step is not None:
            state = assert_steps_alike(layer, stepper, [step], state)
        with pytest.raises(error, match=words):
            call(stepper)
    assert_steps_alike(layer, stepper, steps, state)  # nothing of it went into the state


def test_gaps_in_every_form():
    layer = make("mmrnn")
    x = readings(1, 2)[0][0]
    with torch.no_grad():
        for dt in (
            2,
            0.5,
            torch.tensor(0.5),
            torch.tensor([0.1, 2.0]),
            torch.tensor([[0.1], [2.0]]).double(),
            0.0,
            0.5,
        ):
            torch.testing.assert_close(layer.stepper(2)(x, dt), layer.step(x, None, dt)[0])
    stepper, state = layer.stepper(2), None
    for dt in (0.5, torch.tensor([0.1, 2.0]).double(), 0.5, 0.5, 1):
        state = assert_steps_alike(layer, stepper, [(x, dt)], state)


def test_large_values_whose_sum_overflows_are_no_mistake():
    layer = make("lstm", dtype=torch.float32)
    assert torch.isfinite(layer.stepper()(torch.full((3,), 3e38))).all()


def test_what_cannot_be_stepped():
    with pytest.raises(ValueError, match="bidirectional"):
        make("lstm", bidirectional=True).stepper()
    with pytest.raises(ValueError, match=r"layer.eval\(\)"):
        make("lstm").train().stepper()
    with pytest.raises(ValueError, match="batch must be"):
        make("lstm").stepper(0)
    with pytest.raises(ValueError, match="state does not fit"):
        make("lstm").stepper(2).state = make("lstm").initial_state(3)


@pytest.mark.parametrize("name", ["mmrnn", "lstm"])
def test_made_in_inference_mode_and_used_outside(name):
    layer, steps = make(name), readings(4, 2)
    with torch.inference_mode():
        stepper = layer.stepper(2)
        stepper(*steps[0])
    y = stepper(steps[1][0].requires_grad_(), steps[1][1])
    assert not y.requires_grad
    with torch.inference_mode():
        stepper(*steps[2])
    other = layer.stepper(2)
    for step in steps[:3]:
        other(*step)
    torch.testing.assert_close(stepper(*steps[3]), other(*steps[3]))


@pytest.mark.parametrize("name", ["mmrnn", "unicornn", "exprnn"])
def test_hooks_run(name):
    layer, seen = make(name), []
    layer.cells[0].register_forward_hook(lambda module, given, got: seen.append(module))
    stepper = layer.stepper(2)
    for step in readings(3, 2):
        stepper(*step)
    assert len(seen) == 3
