"""A cell that changes after it was compiled runs as it is now, never as it was."""

import pytest
import torch
from compiled_cases import CASES, assert_same, by_kernel, by_loop, everything, inputs
from torch import nn
from torch.nn.utils import parametrizations, prune

import chronode
from chronode import compiler
from chronode.compiler._compiled import kernel_of
from chronode.compiler._recorded import Unsupported
from chronode.nn import Layer


def make_leaky():
    """A new class at each call, as a notebook's cell makes one."""

    class Leaky(chronode.nn.Cell):
        factor = 1.0

        def __init__(self, input_size, hidden_size):
            super().__init__(input_size, hidden_size)
            self.inputs = nn.Linear(input_size, hidden_size)
            self.recurrent = nn.Linear(hidden_size, hidden_size, bias=False)

        def forward(self, x, state, dt):
            (h,) = state
            h = h * torch.exp(-dt) + torch.tanh(self.inputs(x) + self.recurrent(h))
            return h, (h,)

    return Leaky


def check_now(cell):
    arguments = inputs(cell, CASES[0], torch.float64)
    assert_same(everything(by_loop, cell, *arguments), everything(by_kernel, cell, *arguments), 1e-9)


def leaky():
    torch.manual_seed(0)
    return make_leaky()(3, 6).double()


def test_a_method_that_is_replaced():
    cell = leaky()
    check_now(cell)

    def forward(self, x, state, dt):
        h = torch.sigmoid(self.inputs(x) + self.recurrent(state[0])) - dt
        return h, (h,)

    type(cell).forward = forward
    check_now(cell)


def test_a_setting_that_is_changed():
    cell = chronode.create("rnn", 3, 6).double().cells[0]
    check_now(cell)
    cell.activation = "relu"
    check_now(cell)


def test_a_forward_hook_sees_every_call():
    seen = []
    layer = Layer(make_leaky(), 3, 6)
    compiler.use(layer)
    x = torch.randn(2, 4, 3)
    expected, _ = layer(x)
    layer.cells[0].recurrent.register_forward_hook(lambda module, args, output: seen.append(output))
    with pytest.warns(UserWarning, match="Leaky.recurrent has forward hooks"):
        y, _ = layer(x)
    assert len(seen) == 4
    assert torch.allclose(y, expected, atol=1e-6)


def test_pruned_weights():
    cell = leaky()
    check_now(cell)
    prune.l1_unstructured(cell.recurrent, "weight", amount=0.5)
    check_now(cell)


def test_parametrized_weights():
    cell = leaky()
    parametrizations.orthogonal(cell.recurrent)
    check_now(cell)


def test_parameters_that_are_replaced():
    cell = leaky()
    check_now(cell)
    cell.recurrent.weight = nn.Parameter(torch.randn(6, 6, dtype=torch.float64))
    check_now(cell)


def test_training_and_evaluation_are_two_kernels():
    cell = chronode.create("rnn-vae", 3, 6).double().cells[0]
    check_now(cell)
    check_now(cell.eval())


def test_gradients_that_are_switched_off_are_noticed():
    cell = leaky()

    def forward(self, x, state, dt):
        with torch.no_grad():
            kept = torch.sigmoid(self.recurrent(state[0]))
        h = kept * state[0] + torch.tanh(self.inputs(x))
        return h, (h,)

    type(cell).forward = forward
    with pytest.raises(Unsupported, match="disable gradients"):
        kernel_of(cell)


def test_frozen_parameters_have_no_gradient():
    cell = leaky()
    cell.inputs.weight.requires_grad_(False)
    check_now(cell)
    x, state, dt, plan = inputs(cell, CASES[0], torch.float64)
    y, _ = by_kernel(cell, x, state, dt, plan)
    y.sum().backward()
    assert cell.inputs.weight.grad is None
    assert cell.recurrent.weight.grad is not None


@pytest.mark.parametrize("model", chronode.models())
def test_a_call_leaves_the_fingerprint_of_a_cell_as_it_is(model):
    layer = chronode.create(model, 3, 8)
    layer(torch.ones(2, 3, 3))
    fingerprints = [compiler.Fingerprint(cell) for cell in layer.all_cells()]
    layer(torch.ones(2, 3, 3))
    assert all(fingerprint.holds() for fingerprint in fingerprints)
