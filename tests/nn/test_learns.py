"""Every registered model learns small irregular tasks: all from values, those that see time from gaps too."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import chronode

MODELS = {name: m for name, m in chronode.models().items() if m.cell.__module__.startswith("chronode.")}


def sign_of_the_first(count, steps=5):
    """x (value, 1 at the first step): is the first value positive? All other values, and the gaps, are noise."""
    label = torch.randint(0, 2, (count,))
    x = torch.stack([0.5 * torch.randn(count, steps), torch.zeros(count, steps)], dim=-1)
    x[:, 0] = torch.stack([2.0 * label - 1, torch.ones(count)], dim=-1)
    return x, 0.2 + torch.rand(count, steps), label


def length_of_the_gaps(count, steps=5):
    """Are the gaps long or short? The values say nothing."""
    label = torch.randint(0, 2, (count,))
    x = torch.stack([0.5 * torch.randn(count, steps), torch.ones(count, steps)], dim=-1)
    return x, torch.rand(count, steps) * (0.5 + label[:, None]), label


def accuracy_after_training(name, task, updates=80):
    torch.manual_seed(0)
    layer = chronode.create(name, 2, 16, outputs="last")
    head = nn.Linear(layer.output_size, 2)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=1e-2)
    for _ in range(updates):
        x, dt, label = task(64)
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(layer(x, dt=dt)[0]), label).backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
    layer.eval()
    x, dt, label = task(500)
    with torch.no_grad():
        return (head(layer(x, dt=dt)[0]).argmax(1) == label).float().mean().item()


# Chance is 0.5, with a standard deviation of 0.02 on 500 sequences.


IN_TIME = [name for name, model in MODELS.items() if model.time != "none"]
BOTH = ("irnn", "ltc", "mmrnn", "unicornn")  # the others that see time learn from gaps in every `make test`


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in IN_TIME and n not in BOTH else []) for n in MODELS]
)
def test_learns_from_values(name):
    assert accuracy_after_training(name, sign_of_the_first) > 0.75


@pytest.mark.parametrize("name", IN_TIME)
def test_learns_from_gaps(name):
    assert accuracy_after_training(name, length_of_the_gaps) > 0.75
