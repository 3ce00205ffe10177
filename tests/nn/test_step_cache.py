"""layer.step: what it remembers from one step to the next makes it fast, never stale."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from live_steps import NATIVE, REFUSED, make, readings
from torch.nn.utils import parametrizations, prune

import chronode
from chronode.kernels import _library as library

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")


def long_way(layer, *call):
    """layer.step with nothing remembered."""
    return copy.deepcopy(layer).step(*call)


def remembers(layer):
    return layer._steps._stepper is not None


@pytest.fixture
def no_grad():
    with torch.no_grad():
        yield


@pytest.mark.usefixtures("no_grad")
@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_step_remembers_and_gives_the_same_bits(name, batch):
    layer, state, wanted_state = make(name), None, None
    for index, (x, dt) in enumerate(readings(6, *([] if batch is None else [batch]))):
        y, state = layer.step(x, state, dt)
        wanted, wanted_state = long_way(layer, x, wanted_state, dt)
        assert torch.equal(y, wanted)
        assert all(map(torch.equal, state, wanted_state))
        assert remembers(layer) == (index > 0)


CHANGES = {
    "in place": lambda layer: next(layer.parameters()).mul_(0.9),
    "by .data": lambda layer: next(layer.parameters()).data.mul_(0.9),
    "other memory": lambda layer: setattr(next(layer.parameters()), "data", 0.9 * next(layer.parameters()).data),
    "a new parameter": lambda layer: setattr(layer.cells[0], "w", torch.nn.Parameter(layer.cells[0].w.detach() * 0.9)),
    "another submodule": lambda layer: setattr(layer.cells[0], "inputs", torch.nn.Linear(3, 5).double()),
    "a buffer": lambda layer: layer.cells[0].delta_t.fill_(0.3),
    "a hook": lambda layer: layer.cells[0].register_forward_hook(lambda m, given, got: (2 * got[0], got[1])),
    "a method": lambda layer: setattr(layer.cells[0], "project", lambda x: layer.cells[0].inputs(x) + 1),
    "pruning": lambda layer: prune.random_unstructured(layer.cells[0].inputs, "weight", amount=0.5),
    "a parametrization": lambda layer: parametrizations.weight_norm(layer.cells[0].inputs),
}


@pytest.mark.usefixtures("no_grad")
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_remembered_is_never_stale(change):
    layer = make("unicornn")
    (x, dt), *_ = readings(1, 2)
    start = tuple(part + 0.5 for part in layer.initial_state(2))
    for _ in range(3):
        before, _ = layer.step(x, start, dt)
    CHANGES[change](layer)
    with torch.enable_grad():  # the long way
        wanted, state = layer.step(x, start, dt)
    for _ in range(3):
        y, after = layer.step(x, start, dt)
        torch.testing.assert_close(y, wanted.detach(), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(after, tuple(part.detach() for part in state), rtol=1e-12, atol=1e-14)
    assert change == "a parametrization" or not torch.equal(y, before)


@pytest.mark.usefixtures("no_grad")
@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("change", ["in place", "by .data", "other memory"])
def test_packed_weights_are_never_stale(name, change):
    layer = make(name)
    (x, dt), *_ = readings(1, 2)
    for position, parameter in enumerate(layer.parameters()):
        for _ in range(3):
            layer.step(x, None, dt)
        assert remembers(layer)
        changed = parameter * 0.9 + 0.01 * position
        if change == "in place":
            parameter.copy_(changed)
        elif change == "by .data":
            parameter.data.copy_(changed)
        else:
            parameter.data = changed
        assert torch.equal(layer.step(x, None, dt)[0], long_way(layer, x, None, dt)[0])


@pytest.mark.usefixtures("no_grad")
def test_a_changed_setting_takes_effect():
    layer = make("mmrnn")
    (x, dt), *_ = readings(1, 2)
    for _ in range(3):
        before, _ = layer.step(x, None, dt)
    layer.cells[0].solve.steps += 3
    after, _ = layer.step(x, None, dt)
    assert torch.equal(after, long_way(layer, x, None, dt)[0])
    assert not torch.equal(after, before)


@pytest.mark.usefixtures("no_grad")
def test_the_backend_is_asked_at_every_step():
    layer, seen = make("unicornn"), []
    (x, dt), *_ = readings(1, 2)
    for _ in range(3):
        layer.step(x, None, dt)
    cell = layer.cells[0]
    original = type(cell).forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(cell), "forward", lambda *given: seen.append(1) or original(*given))
        layer.step(x, None, dt)  # a method of the class has changed
        assert seen == [1]
    with chronode.backend("torch"):
        layer.step(x, None, dt)
    assert not remembers(layer) or not layer._steps._stepper.is_one_call()


@pytest.mark.usefixtures("no_grad")
@pytest.mark.parametrize("row", [row for row, (_, _, words) in enumerate(REFUSED) if "shape" not in words])
def test_bad_input_is_refused_when_remembered(row):
    call, error, words = REFUSED[row]
    layer = make("mmrnn")
    for x, dt in readings(3, 2):
        layer.step(x, None, dt)
    with pytest.raises(error, match=words):
        call(lambda x, dt=1.0, observed=None: layer.step(x, None, dt, observed=observed))
    with pytest.raises(ValueError, match="state does not fit"):
        layer.step(x, layer.initial_state(3), dt)
    with pytest.raises(TypeError, match="expected torch.float64"):
        layer.step(x, tuple(part.float() for part in layer.initial_state(2)), dt)


def test_a_layer_that_remembers_is_copied_saved_and_trained():
    layer = make("ltc")
    (x, dt), *_ = readings(1, 2)
    with torch.no_grad():
        for _ in range(3):
            wanted, _ = layer.step(x, None, dt)
    assert remembers(layer)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert not remembers(other)
        torch.testing.assert_close(other.step(x, None, dt)[0].detach(), wanted)
    y, _ = layer.train().step(x, None, dt)
    y.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_threads_may_step_one_layer():
    layer, steps = make("mmrnn", hidden_size=32), readings(40, 2)

    def run(_):
        with torch.no_grad():
            state, outputs = None, []
            for x, dt in steps:
                y, state = layer.step(x, state, dt)
                outputs.append(y)
        return torch.stack(outputs)

    wanted = run(0)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(run, range(8)):
            assert torch.equal(found, wanted)


@pytest.mark.usefixtures("no_grad")
def test_divergence_is_reported_when_remembered():
    layer = make("unicornn", delta_t=1.0)
    x = torch.ones(2, 3).double()
    for _ in range(3):
        layer.step(x, None, 1.0)
    with pytest.warns(RuntimeWarning, match="the outputs of UnICORNNCell"):
        layer.step(x, tuple(1e12 + part for part in layer.initial_state(2)), 100.0)
