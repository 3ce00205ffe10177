"""A sound cell as a user writes it, for the tests of `check_cell`."""

import torch
from torch import nn

import chronode
from chronode.nn import _registry as registry
from chronode.testing import CHECKS, check_cell


class Leaky(chronode.nn.Cell):
    """h' = h e^(-dt/τ) + tanh(W x + U h + b), the cell of the tour."""

    def __init__(self, input_size, hidden_size, tau=1.0):
        super().__init__(input_size, hidden_size)
        self.tau = tau
        self.inputs = nn.Linear(input_size, hidden_size)
        self.recurrent = nn.Linear(hidden_size, hidden_size, bias=False)

    def decay(self, dt):
        return torch.exp(-dt / self.tau)

    def forward(self, x, state, dt):
        (h,) = state
        h = h * self.decay(dt) + torch.tanh(self.inputs(x) + self.recurrent(h))
        return h, (h,)


def check_only(name):
    """Runs one check; what else is wrong does not matter here."""
    check_cell("mine", leave_out=[check.__name__ for check in CHECKS if check.__name__ != name])


def register_mine(monkeypatch):
    """Gives a function that registers a cell as "mine" until the end of the test."""
    monkeypatch.setattr(registry, "_models", dict(registry._models))

    def register(cell, time="native"):
        chronode.register("mine", paper="mine", time=time)(cell)

    return register
