"""Steps that cannot be compiled: the reason in words, and the loop."""

import contextlib
import re
import warnings

import pytest
import torch
from compiled_cases import CASES, assert_same, by_kernel, by_loop, everything, inputs
from torch import nn

import chronode
from chronode import compiler
from chronode.compiler._compiled import kernel_of, step_of
from chronode.compiler._recorded import Unsupported
from chronode.nn import Layer


def layer_of(forward, **attributes):
    """A layer of a cell with this step."""

    class Mine(chronode.nn.Cell):
        def __init__(self, input_size, hidden_size):
            super().__init__(input_size, hidden_size)
            self.recurrent = nn.Linear(hidden_size, hidden_size)
            for name, value in attributes.items():
                setattr(self, name, value)

    Mine.forward = forward
    torch.manual_seed(0)
    return Layer(Mine, 3, 4)


def branching(self, x, state, dt):
    h = state[0] if state[0].sum() > 0 else -state[0]
    return h, (self.recurrent(h),)


def mixing(self, x, state, dt):
    h = self.recurrent(state[0]) - state[0].mean(0)
    return h, (h,)


def sorting(self, x, state, dt):
    h = self.recurrent(state[0]).sort(-1).values
    return h, (h,)


def drawing(self, x, state, dt):
    h = torch.poisson(self.recurrent(state[0]).abs())
    return h, (h,)


def reading(self, x, state, dt):
    h = self.recurrent(state[0]) * self.scale
    return h, (h,)


class Clipped(torch.autograd.Function):
    """The identity, whose gradient is cut at ±1."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, *grads):
        return grads[0].clamp(-1, 1)


def clipping(self, x, state, dt):
    h = Clipped.apply(self.recurrent(state[0]))
    return h, (h,)


def hooking(self, x, state, dt):
    h = self.recurrent(state[0])
    if h.requires_grad:
        h.register_hook(lambda grad: grad.clamp(-1, 1))
    return h, (h,)


def hooking_onto_a_node(self, x, state, dt):
    h = self.recurrent(state[0])
    h.grad_fn.register_hook(lambda before, after: None)
    return h, (h,)


def preparing_a_number(self, x, state, dt):
    h = self.recurrent(state[0]) * self.recurrent.bias[0].item()
    return h, (h,)


def listing(self, x, state, dt):
    h = self.recurrent(state[0]) * self.recurrent.bias.tolist()[0]
    return h, (h,)


def comparing(self, x, state, dt):
    h = self.recurrent(state[0]) if torch.equal(self.recurrent.bias, self.recurrent.bias) else x
    return h, (h,)


@pytest.mark.parametrize(
    ("forward", "attributes", "reason"),
    [
        (hooking, {}, "with a hook"),
        (hooking_onto_a_node, {}, "with a hook"),
        (preparing_a_number, {}, "reads the values of tensors into Python .item."),
        (listing, {}, "reads the values of tensors into Python .tolist."),
        (comparing, {}, "branches on the values of tensors"),
        (branching, {}, "branches on the values of tensors"),
        (mixing, {}, "rows of the batch"),
        (sorting, {}, "uses sort, for which the compiler has no rule"),
        (drawing, {}, "draws random numbers"),
        (reading, {"scale": torch.ones(4)}, "neither a parameter nor a buffer"),
    ],
)
def test_the_reason_names_what_is_in_the_way(forward, attributes, reason):
    layer = layer_of(forward, **attributes)
    path = compiler.explain(layer.cells[0])
    assert path.name == "loop"
    assert re.search(reason, path.reason)
    with chronode.backend("native"), pytest.raises(ValueError, match=f"cannot be compiled: .*{reason}"):
        layer(torch.randn(2, 3, 3))


def test_what_cannot_be_compiled_runs_as_a_loop_with_one_note():
    layer = layer_of(sorting)
    x = torch.randn(2, 3, 3)
    with chronode.backend("torch"):
        expected, _ = layer(x)
    compiler.use(layer)
    with pytest.warns(UserWarning, match="Mine runs as a loop: the step uses sort"):
        y, _ = layer(x)
    assert torch.equal(y, expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x)


def test_the_error_of_a_step_that_fails_is_reported():
    def failing(self, x, state, dt):
        raise KeyError("no such thing")

    with pytest.raises(Unsupported, match="cannot be traced .KeyError"):
        step_of(layer_of(failing).cells[0])


def test_gradients_of_a_step_with_its_own_backward_are_those_of_torch():
    layer = layer_of(clipping)
    x, found = torch.randn(2, 5, 3), []
    for compiled in (False, True):
        compiler.use(layer, compiled)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y, _ = layer(x)
        (1e3 * y).sum().backward()
        found.append(layer.cells[0].recurrent.bias.grad.clone())
        layer.zero_grad()
    torch.testing.assert_close(*found)
    assert float(found[0].norm()) < 50  # not cut: above 1,000


@pytest.mark.parametrize("limit", ["gradient", "state"])
def test_a_kernel_is_compared_at_large_gradients_and_states(limit, monkeypatch):
    """If a rule of the step escaped all other checks: beyond a limit, the gradient is another."""

    class Beyond(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward(value)
            return value.clone()

        @staticmethod
        def backward(ctx, *grads):
            (value,) = ctx.saved_tensors
            return grads[0].clamp(-100, 100) if limit == "gradient" else torch.where(value.abs() > 3, 0, grads[0])

    def forward(self, x, state, dt):
        h = 0.1 * self.recurrent(Beyond.apply(state[0]))
        return h, (h,)

    monkeypatch.setattr("chronode.compiler._trace.recording_functions", contextlib.nullcontext)
    with pytest.raises(Unsupported, match="different outputs or gradients"):
        kernel_of(layer_of(forward).cells[0])


def test_functions_and_operators_that_are_recorded_as_they_are_still_compile():
    """A registered operator on a weight keeps its own gradient; torch's checkpoints only save memory."""

    @torch.library.custom_op("chronode_tests::twice", mutates_args=())
    def twice(value: torch.Tensor) -> torch.Tensor:
        return 2 * value

    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda ctx, grad: 7 * grad)  # not the gradient of 2 w, to see which one is used

    def forward(self, x, state, dt):
        kept = torch.utils.checkpoint.checkpoint(self.recurrent, state[0], use_reentrant=False)
        h = torch.tanh(kept) @ twice(self.recurrent.weight) + x[:, :1]
        return h, (h,)

    cell = layer_of(forward).cells[0].double()
    arguments = inputs(cell, CASES[0], torch.float64)
    assert_same(everything(by_loop, cell, *arguments), everything(by_kernel, cell, *arguments), 1e-9)
