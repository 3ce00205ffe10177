"""An input that a result does not depend on has no gradient, None and not 0, whichever way a model runs.

An optimizer skips what has no gradient, but decays a weight whose gradient is 0.
"""

import pytest
import torch
from test_models import FAST

import chronode
from chronode.nn import Layer

HAND_WRITTEN = [name for name, model in chronode.models().items() if model.kernel()]


class Partly(chronode.nn.Cell):
    """Two states: the first never reaches y, the second forgets; one weight is only compared."""

    state_parts = 2

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.inputs = torch.nn.Linear(input_size, hidden_size)
        self.only_state = torch.nn.Parameter(torch.ones(hidden_size))
        self.compared = torch.nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x, state, dt):
        first, _ = state
        kept = torch.where(self.compared > 0, x.sum(-1, keepdim=True), 1.0)
        y = torch.tanh(self.inputs(x)) * kept
        return y, (first * self.only_state + dt, y)


def without_gradient(layer, backend, lengths, loss):
    """Names of inputs and weights without a gradient."""
    torch.manual_seed(1)
    x, dt = torch.randn(2, 4, 3, dtype=torch.float64), torch.rand(2, 4, dtype=torch.float64)
    state = tuple(part.detach().clone() for part in layer.initial_state(2))
    named = {"x": x, "dt": dt, **{f"state {i}": part for i, part in enumerate(state)}}
    inputs = {name: tensor.requires_grad_() for name, tensor in named.items()} | dict(layer.named_parameters())
    with chronode.backend(backend):
        y, end = layer(x, state, dt=dt, lengths=lengths)
    total = {"y": y.sum(), "end": sum(part.sum() for part in end), "first": end[0].sum()}[loss]
    grads = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
    return {name for name, grad in zip(inputs, grads, strict=True) if grad is None}


def check(layer):
    for lengths in (None, [4, 2]):
        for loss in ("y", "end", "first"):
            plain, native = (without_gradient(layer, backend, lengths, loss) for backend in ("torch", "native"))
            assert native == plain, (lengths, loss)


@pytest.mark.parametrize("settings", [{}, {"outputs": "last"}, {"memory": "low"}, {"bidirectional": True}], ids=str)
def test_states_that_y_does_not_see_and_weights_that_are_only_compared(settings):
    torch.manual_seed(0)
    layer = Layer(Partly, 3, 4, **settings).double()
    missing = without_gradient(layer, "native", None, "y")
    assert {"dt", "state 0", "state 1", "cells.0.only_state", "cells.0.compared"} <= missing
    check(layer)


@pytest.mark.parametrize("model", [*FAST, *HAND_WRITTEN])
def test_models_have_gradients_for_the_same_inputs(model):
    check(chronode.create(model, 3, 7).double())


@pytest.mark.slow  # a C++ compiler for each model
@pytest.mark.parametrize("outputs", ["all", "last"])
@pytest.mark.parametrize("model", chronode.models())
def test_every_model_has_gradients_for_the_same_inputs(model, outputs):
    check(chronode.create(model, 3, 6, outputs=outputs).double())
