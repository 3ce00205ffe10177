"""Cells made of random operations, compiled, against the loop."""

import pytest
import torch
from compiled_cases import ALL_AT_ONCE, assert_same, by_kernel, by_loop, everything, inputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import chronode

# Each takes values of H features and gives such values; `cell` has parameters to use.
OPERATIONS = {
    "tanh": lambda cell, a, b, dt: torch.tanh(a),
    "sigmoid": lambda cell, a, b, dt: torch.sigmoid(a) * b,
    "softplus": lambda cell, a, b, dt: nn.functional.softplus(a) - b,
    "relu": lambda cell, a, b, dt: torch.relu(a + 0.1),
    "matrix": lambda cell, a, b, dt: cell.linear(a),
    "shared matrix": lambda cell, a, b, dt: cell.linear(torch.sin(a)) + cell.linear(b),
    "low rank": lambda cell, a, b, dt: (a @ cell.narrow.T) @ cell.narrow,
    "time": lambda cell, a, b, dt: a * torch.exp(-dt) + b,
    "rates": lambda cell, a, b, dt: a * torch.exp(-nn.functional.softplus(cell.rate) * dt),
    "division": lambda cell, a, b, dt: a / (1 + b * b),
    "where": lambda cell, a, b, dt: torch.where(a > b, a, 0.5 * b),
    "both signs": lambda cell, a, b, dt: torch.maximum(a, -a) - torch.minimum(b, a),
    "clamp": lambda cell, a, b, dt: a.clamp(-0.7, 0.8),
    "norm": lambda cell, a, b, dt: cell.norm(a),
    "softmax": lambda cell, a, b, dt: torch.softmax(a, -1) * b,
    "mean": lambda cell, a, b, dt: a - b.mean(-1, keepdim=True),
    "halves": lambda cell, a, b, dt: torch.cat([a[:, 3:], b[:, :3] * a[:, :3]], -1),
    "groups": lambda cell, a, b, dt: (a.unflatten(-1, (3, 2)) * b.unflatten(-1, (3, 2)).sum(-1, True)).flatten(1),
    "turned": lambda cell, a, b, dt: a.unflatten(-1, (3, 2)).transpose(1, 2).reshape(a.shape) + b,
    "outer": lambda cell, a, b, dt: (a.unsqueeze(-1) * torch.tanh(b).unsqueeze(-2)).sum(1),
    "picked": lambda cell, a, b, dt: a[:, cell.order] * b,
    "detached": lambda cell, a, b, dt: a + (torch.round(b) - b).detach(),
    "root": lambda cell, a, b, dt: torch.sqrt(a * a + 0.1),
    "gelu": lambda cell, a, b, dt: nn.functional.gelu(a),
    "scalar": lambda cell, a, b, dt: cell.scalar * a + b,
}


class RandomCell(chronode.nn.Cell):
    """h' = tanh of what a list of operations makes of x and h."""

    state_parts = 2

    def __init__(self, input_size, hidden_size, steps=()):
        super().__init__(input_size, hidden_size)
        self.steps = steps
        self.inputs = nn.Linear(input_size, hidden_size)
        self.linear = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.narrow = nn.Parameter(torch.randn(2, hidden_size))
        self.rate = nn.Parameter(torch.randn(hidden_size))
        self.scalar = nn.Parameter(torch.randn(()))
        self.register_buffer("order", torch.arange(hidden_size - 1, -1, -1))

    def forward(self, x, state, dt):
        values = [*state, self.inputs(x)]
        for name, first, second in self.steps:
            values.append(OPERATIONS[name](self, values[first % len(values)], values[second % len(values)], dt))
        h, c = torch.tanh(values[-1]), torch.tanh(values[-2])
        return h - c, (h, c)


CHAINS = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8
).map(tuple)


def check(steps):
    torch.manual_seed(0)
    cell = RandomCell(3, 6, steps).double()
    case = ALL_AT_ONCE.__class__("random", steps=4, hidden=6, lengths=(4, 2, 3, 4, 1), carried=True)
    arguments = inputs(cell, case, torch.float64)
    assert_same(everything(by_loop, cell, *arguments), everything(by_kernel, cell, *arguments), 1e-9)


@pytest.mark.parametrize("names", [sorted(OPERATIONS)[i::3] for i in range(3)], ids=["first", "second", "third"])
def test_every_operation(names):
    # All at once in three cells: a build each would take minutes.
    check(tuple((name, i, i + 1) for i, name in enumerate(names)))


@pytest.mark.slow  # a C++ compiler for every example
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(CHAINS)
def test_random_cells_have_the_numbers_and_gradients_of_the_loop(steps):
    check(steps)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(CHAINS)
def test_a_few_random_cells(steps):
    check(steps)
