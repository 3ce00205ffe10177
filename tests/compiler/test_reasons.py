"""Steps that cannot be compiled: the reason in words, and the loop."""

import warnings

import pytest
import torch
from torch import nn

import chronode
from chronode import compiler
from chronode.compiler._compiled import step_of
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
    h = torch.nn.functional.dropout(self.recurrent(state[0]), 0.5)
    return h, (h,)


def reading(self, x, state, dt):
    h = self.recurrent(state[0]) * self.scale
    return h, (h,)


@pytest.mark.parametrize(
    ("forward", "attributes", "reason"),
    [
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
    assert reason in path.reason
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
