"""A cell that is not exactly what its kernel was written for runs as it is written: step by step, hooks included."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations, parametrize, prune

import chronode
from chronode.nn import driver
from chronode.nn._flows import MLPFlow
from chronode.nn._solvers import Solver
from chronode.nn.cells.ltc import Synapses
from chronode.testing import oracle

# Every cell that has a kernel, native or torch's own, with the settings that reach all of its parts.
KERNELS = {
    "lstm": {},
    "lstm-dt": {},
    "gru": {},
    "rnn": {},
    "unicornn": {},
    "ltc": {},
    "ltc-mapped": {"input_map": True, "weights": "clip"},
    "indrnn": {},
    "dense-indrnn": {"norm": "layer"},
    "sru": {},
}
OTHERS = {"mmrnn": {}, "irnn": {}, "ltc-dense": {"form": "dense"}}
every_kernel = pytest.mark.parametrize("name", KERNELS)


def make(name, num_layers=2, cell_class=None, **settings):
    """A stack in float64 whose weights all matter."""
    torch.manual_seed(1)
    model = chronode.models()[name if name in chronode.models() else name.split("-")[0]]
    settings = {**model.settings, **(KERNELS | OTHERS)[name], **settings}
    layer = chronode.nn.Layer(cell_class or model.cell, 3, 4, num_layers, **settings).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return layer


def call():
    """x, dt and lengths; the first row is full, so that it can be run on its own."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(3, 5, 3, dtype=torch.float64, generator=rng)
    return x, torch.rand(3, 5, dtype=torch.float64, generator=rng), torch.tensor([5, 2, 4])


def assert_runs_as_written(layer, differs_from=None):
    """The layer gives what its cells give when they are called step by step, ragged or not, and for stepped data."""
    x, dt, lengths = call()
    wanted, state = oracle.run_stack(layer, x, dt, lengths)
    y, after = layer(x, dt=dt, lengths=lengths)
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(after, state)
    whole, _ = layer(x[:1], dt=dt[:1])
    torch.testing.assert_close(whole, wanted[:1])
    torch.testing.assert_close(layer.step(x[:1, 0], None, dt[:1, 0])[0], wanted[:1, 0])
    if differs_from is not None:
        assert not torch.allclose(differs_from(x, dt=dt, lengths=lengths)[0], y), "the change makes no difference"


# ---- other methods ---------------------------------------------------------------------------------------------------


def own(base):
    """By name, other methods for a cell of the class `base`, made from its own ones as they are now."""
    forward, project, initial_state = base.forward, base.project, base.initial_state

    def doubled(self, x, state, dt):
        y, state = forward(self, x, state, dt)
        return 2 * y, state

    def prepare(self):
        return lambda x, state, dt: doubled(self, x, state, dt)

    return {
        "forward": {"forward": doubled},
        "project": {"project": lambda self, x: project(self, x + 1)},
        "initial_state": {"initial_state": lambda *given: tuple(part + 0.5 for part in initial_state(*given))},
        "prepare": {"prepare": prepare, "forward": lambda self, *given: self.prepare()(*given)},
    }


@every_kernel
@pytest.mark.parametrize("method", ["forward", "project", "initial_state", "prepare"])
@pytest.mark.parametrize("how", ["subclass", "mixin", "class", "instance", "second of a stack"])
def test_an_own_method_takes_effect(name, method, how, monkeypatch):
    layer = make(name)
    base, plain = type(layer.cells[0]), layer(call()[0], dt=call()[1])[0]
    methods = own(base)[method]
    if how == "subclass":
        layer = make(name, cell_class=type("Own", (base,), methods))
    elif how == "mixin":
        layer = make(name, cell_class=type("Own", (type("Mixin", (), methods), base), {}))
    elif how == "class":
        for key, function in methods.items():
            monkeypatch.setattr(base, key, function)
    else:
        for cell in list(layer.cells)[how == "second of a stack" :]:
            for key, function in methods.items():
                setattr(cell, key, function.__get__(cell))
    assert_runs_as_written(layer)
    assert layer.cells[1].kernel() is None
    assert not torch.allclose(layer(call()[0], dt=call()[1])[0], plain), "the change makes no difference"


@every_kernel
def test_changes_outside_the_step_keep_the_kernel(name):
    base = type(make(name).cells[0])

    class Own(base):
        """Other words, another attribute, another method that no step calls."""

        note = "mine"

        def extra_repr(self):
            return self.note

        def norm_of_weights(self):
            return sum(p.norm() for p in self.parameters())

    assert make(name, cell_class=Own).cells[0].why_no_kernel() is None


# ---- other parts -----------------------------------------------------------------------------------------------------


def doubled_class(base):
    """A subclass of a submodule's class whose inputs are doubled."""

    class Doubled(base):
        def forward(self, x, *more):
            return super().forward(2 * x, *more)

    return Doubled


@every_kernel
def test_another_submodule_takes_effect(name):
    layer = make(name)
    linears = [part for part in layer.cells[1].modules() if isinstance(part, (nn.Linear, Synapses))]
    linears[-1].__class__ = doubled_class(type(linears[-1]))
    assert_runs_as_written(layer, differs_from=make(name))
    assert "which its kernel does not support" in layer.cells[1].why_no_kernel()


def test_a_flow_of_its_own_takes_effect():
    class Own(MLPFlow):
        def forward(self, h, drive=None):
            return super().forward(h, drive) - h

    layer = make("mmrnn")
    layer.cells[1].flow.__class__ = Own
    assert_runs_as_written(layer, differs_from=make("mmrnn"))


def test_a_flow_with_a_method_of_its_own_takes_effect():
    layer = make("mmrnn")
    flow = layer.cells[0].flow
    flow.forward = lambda h, drive=None: -h
    assert_runs_as_written(layer, differs_from=make("mmrnn"))


def test_a_solver_of_its_own_takes_effect():
    class Own(Solver):
        def __call__(self, field, h, dt, *held, params=()):
            return super().__call__(field, h, 2 * dt, *held, params=params)

    layer = make("mmrnn")
    layer.cells[1].solve = Own("euler", 4)
    assert_runs_as_written(layer, differs_from=make("mmrnn"))


# ---- hooks -----------------------------------------------------------------------------------------------------------


def doubled_output(module, inputs, output):
    return (2 * output[0], output[1]) if isinstance(output, tuple) else 2 * output


def shifted_input(module, inputs):
    return (inputs[0] + 1, *inputs[1:])


HOOKS = {
    "forward": lambda module: module.register_forward_hook(doubled_output),
    "pre": lambda module: module.register_forward_pre_hook(shifted_input),
}


@every_kernel
@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_on_a_cell_run_at_every_step(name, kind):
    layer = make(name)
    HOOKS[kind](layer.cells[1])
    assert_runs_as_written(layer, differs_from=make(name))


@pytest.mark.parametrize("name", [*KERNELS, *OTHERS])
@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_on_a_submodule_run(name, kind):
    paths = [path for path, part in make(name).cells[1].named_modules() if isinstance(part, nn.Linear)]
    for path in paths:
        layer = make(name)
        HOOKS[kind](layer.cells[1].get_submodule(path))
        assert_runs_as_written(layer, differs_from=make(name))


@pytest.mark.parametrize("path", ["body.sensory", "body.recurrent"])
def test_hooks_on_synapses_run(path):
    layer = make("ltc")
    layer.cells[0].get_submodule(path).register_forward_pre_hook(shifted_input)
    assert_runs_as_written(layer, differs_from=make("ltc"))


@every_kernel
def test_backward_hooks_run(name):
    layer, seen = make(name), []
    layer.cells[1].register_full_backward_hook(lambda module, given, got: seen.append(module))
    x, dt, _ = call()
    layer(x.requires_grad_(), dt=dt)[0].sum().backward()
    assert seen == [layer.cells[1]] * x.shape[1]


@every_kernel
def test_hooks_on_all_modules_run(name):
    layer, seen = make(name), []
    handle = torch_module.register_module_forward_hook(lambda module, given, got: seen.append(module))
    try:
        layer(call()[0], dt=call()[1])
    finally:
        handle.remove()
    assert seen.count(layer.cells[1]) == 5
    assert layer.cells[1].kernel() is not None


@pytest.mark.parametrize("name", ["exprnn", "spectral", "urnn"])
def test_hooks_on_a_cell_with_prepared_steps_run(name):
    torch.manual_seed(0)
    layer = chronode.create(name, 3, 4, 2).double()
    plain = copy.deepcopy(layer)
    layer.cells[0].register_forward_hook(doubled_output)
    assert_runs_as_written(layer, differs_from=plain)


@every_kernel
def test_a_removed_hook_gives_the_kernel_back(name):
    layer = make(name)
    handle = layer.cells[0].register_forward_hook(doubled_output)
    assert layer.cells[0].kernel() is None
    handle.remove()
    assert layer.cells[0].kernel() is not None


@pytest.mark.parametrize("name", ["unicornn", "mmrnn", "irnn", "ltc", "sru"])
def test_the_native_backend_says_what_is_changed(name):
    layer = make(name)
    layer.cells[1].register_forward_hook(doubled_output)
    with chronode.backend("native"), pytest.raises(ValueError, match="has forward hooks"):
        layer(call()[0])


# ---- weights that are made -------------------------------------------------------------------------------------------


def weights(layer):
    """(module, name) of every parameter that is not a scalar."""
    return [(m, n) for m in layer.modules() for n, p in list(m.named_parameters(recurse=False)) if p.dim() > 0]


def trained_once(layer):
    """Its output after a step of gradient descent that it took in training, so that every weight is made again."""
    x, dt, lengths = call()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        layer(x, dt=dt, lengths=lengths)[0].square().sum().backward()
        optimizer.step()
    return layer(x, dt=dt, lengths=lengths)[0]


@every_kernel
def test_pruned_weights_stay_pruned_in_training(name):
    layer, other = make(name), make(name)
    kernel = layer.cells[0].kernel()
    masks = []
    for module, parameter in weights(layer):
        prune.random_unstructured(module, parameter, amount=0.5)
        masks.append(getattr(module, f"{parameter}_mask"))
    assert layer.cells[0].kernel() is kernel  # it reads the pruned weights
    # The same by hand: masked weights, masked gradients.
    for (module, parameter), mask in zip(weights(other), masks, strict=True):
        tensor = getattr(module, parameter)
        tensor.data *= mask
        tensor.register_hook(lambda grad, mask=mask: grad * mask)
    torch.testing.assert_close(trained_once(layer), trained_once(other))


@every_kernel
def test_pruned_weights_are_removed_for_good(name):
    layer = make(name)
    for module, parameter in weights(layer):
        prune.l1_unstructured(module, parameter, amount=0.3)
    x, dt, lengths = call()
    y = layer(x, dt=dt, lengths=lengths)[0]
    for module, parameter in list(pruned(layer)):
        prune.remove(module, parameter)
    torch.testing.assert_close(layer(x, dt=dt, lengths=lengths)[0], y)


def pruned(layer):
    for module in layer.modules():
        for parameter in [n.removesuffix("_orig") for n, _ in module.named_parameters(recurse=False)]:
            if hasattr(module, f"{parameter}_mask"):
                yield module, parameter


class Halved(nn.Module):
    def forward(self, weight):
        return weight / 2


@every_kernel
def test_parametrized_weights_are_what_the_kernel_reads(name):
    layer, other = make(name), make(name)
    kernel = layer.cells[0].kernel()
    with torch.no_grad():
        for module, parameter in weights(other):
            getattr(module, parameter).div_(2)
    for module, parameter in weights(layer):
        parametrize.register_parametrization(module, parameter, Halved())
    assert layer.cells[0].kernel() is kernel
    x, dt, lengths = call()
    torch.testing.assert_close(layer(x, dt=dt, lengths=lengths), other(x, dt=dt, lengths=lengths))


@pytest.mark.parametrize("name", ["lstm", "mmrnn", "unicornn", "irnn", "sru", "ltc-dense"])
def test_spectral_norm_trains(name):
    layer = make(name)
    linears = [m for m in layer.modules() if isinstance(m, nn.Linear)]
    for linear in linears:
        parametrizations.spectral_norm(linear)
    assert torch.isfinite(trained_once(layer)).all()
    layer.eval()
    for linear in linears:
        assert float(torch.linalg.matrix_norm(linear.weight.detach(), 2)) < 1.5
    assert_runs_as_written(layer)


def test_the_driver_asks_for_itself():
    """A cell that runs without a layer gives the same result."""
    cell = make("lstm").cells[0]
    x, dt = torch.randn(4, 2, 3).double(), torch.ones(4, 2, 1).double()
    cell.register_forward_hook(doubled_output)
    y, _ = driver.run(cell, x, cell.initial_state(2, x), dt, driver.Plan())
    torch.testing.assert_close(y[0], cell(cell.project(x[0]), cell.initial_state(2, x), dt[0])[0])
