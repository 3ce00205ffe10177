"""Optimizers without the wrappers of torch.compile: the same numbers, and no import of the compiler."""

import subprocess
import sys

import pytest
import torch

from chronode.system._torch import without_compiler

KINDS = {
    torch.optim.Adam: {"lr": 0.01, "weight_decay": 0.1},
    torch.optim.AdamW: {"lr": 0.01, "weight_decay": 0.1},
    torch.optim.RMSprop: {"lr": 0.01, "momentum": 0.9, "alpha": 0.9},
    torch.optim.SGD: {"lr": 0.01, "momentum": 0.9},
}

TRAINING = """
import sys
from chronode.data import from_list
from chronode.training import Settings, fit
s = from_list([[1.0, 2.0], [3.0, 1.0]] * 20, target=["up", "down"] * 20)
for start in ("none", "linear"):
    for name in ("adam", "adamw", "rmsprop", "sgd"):
        fit(s, "rnn", Settings(epochs=1, optimizer=name), start=start, valid=s)
assert "torch._dynamo" not in sys.modules, "the compiler of torch was imported"
"""


def steps(kind, options, count=5, state=None):
    """The weights and the state after some steps of a small regression."""
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(3, 2), torch.randn(8, 3)
    optimizer = kind(layer.parameters(), **options)
    if state is not None:
        optimizer.load_state_dict(state)
    for _ in range(count):
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        optimizer.step()
    assert all(p.requires_grad and p.grad is not None for p in layer.parameters())
    return torch.cat([p.detach().flatten() for p in layer.parameters()]), optimizer.state_dict()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_numbers_are_those_of_torch(kind):
    options = KINDS[kind]
    wanted, state = steps(kind, options)
    found, own = steps(without_compiler(kind), options)
    assert torch.equal(found, wanted)
    for index, parts in state["state"].items():
        for name, part in parts.items():
            assert part is own["state"][index][name] is None or torch.equal(part, own["state"][index][name])
    again, _ = steps(without_compiler(kind), options, state=state)
    resumed, _ = steps(kind, options, state=own)
    assert torch.equal(again, resumed)


def test_a_closure_is_evaluated_with_gradients():
    def found(kind):
        weight = torch.nn.Parameter(torch.tensor([3.0]))
        optimizer = kind([weight], max_iter=20, line_search_fn="strong_wolfe")

        def closure():
            optimizer.zero_grad()
            loss = (weight - 1).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return weight.item()

    assert found(without_compiler(torch.optim.LBFGS)) == found(torch.optim.LBFGS) == pytest.approx(1.0)


def test_a_training_does_not_import_the_compiler():
    subprocess.run([sys.executable, "-c", TRAINING], check=True)
