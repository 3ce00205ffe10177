"""A kernel is that of its own cell: however a step holds a number, another number is another kernel."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from holders import WAYS
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import chronode
from chronode.compiler import _compiled
from chronode.compiler._compiled import kernel_of, key_of
from chronode.nn import driver

NUMBERS = (0.5, -1.5)


class Held(chronode.nn.Cell):
    """h' = activation(U h + x); the activation holds a number."""

    def __init__(self, activation):
        super().__init__(2, 2)
        self.recurrent = nn.Linear(2, 2)
        self.activation = activation

    def forward(self, x, state, dt):
        h = self.activation(self.recurrent(state[0]) + x)
        return h, (h,)


def cell_of(activation):
    torch.manual_seed(0)
    return Held(activation).double()


def difference(cell):
    """Returns the distance of the compiled cell from the loop, in outputs and the gradient of the input."""
    x = torch.linspace(-2, 2, 24, dtype=torch.float64).view(3, 4, 2)
    found = []
    for run in (driver.run, kernel_of(cell, x.dtype).run):
        leaf = x.clone().requires_grad_()
        state = cell.initial_state(4, leaf)
        y, _ = run(cell, leaf, state, torch.ones(3, 4, 1, dtype=x.dtype), driver.Plan())
        found.append((y, *torch.autograd.grad(y.sum(), leaf)))
    return max(float((a - b).detach().abs().max()) for a, b in zip(*found, strict=True))


def test_the_ways_differ_in_the_loop():
    """Otherwise the tests below could not fail."""
    z = torch.ones(1)
    for name, make in WAYS.items():
        first, change = make(NUMBERS[0])
        assert float(first(z)) == pytest.approx(NUMBERS[0] * float(torch.tanh(z))), name
        change(NUMBERS[1])
        expected = NUMBERS[0] if name == "partial_of_a_partial" else NUMBERS[1]
        assert float(first(z)) == pytest.approx(expected * float(torch.tanh(z))), name


@pytest.mark.parametrize("name", WAYS)
def test_another_number_is_another_kernel(name):
    (first, change), (second, _) = (WAYS[name](number) for number in NUMBERS)
    cells = [cell_of(first), cell_of(second)]
    assert [difference(cell) for cell in cells] == pytest.approx([0, 0], abs=1e-12)
    change(NUMBERS[1])
    assert difference(cells[0]) < 1e-12


@settings(max_examples=10, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(WAYS)), st.sampled_from(NUMBERS), st.booleans()), min_size=1, max_size=4)
)
def test_numbers_held_one_inside_the_other(held):
    """Activations in a chain, each with a number of its own, some of which change."""
    parts = [(*WAYS[name](number), number, changes) for name, number, changes in held]

    class Chain:
        def __init__(self, functions):
            self.functions = functions

        def __call__(self, z):
            for function in self.functions:
                z = function(z)
            return z

    cell = cell_of(Chain([part[0] for part in parts]))
    before = key_of(cell)
    for _, change, number, changes in parts:
        if changes:
            change(NUMBERS[0] if number == NUMBERS[1] else NUMBERS[1])
    fresh = cell_of(cell.activation)  # traced now, whatever was known before
    assert key_of(cell) == key_of(fresh)
    really = any(
        changes for (name, *_), (*_, changes) in zip(held, parts, strict=True) if name != "partial_of_a_partial"
    )
    assert (key_of(cell) != before) == really


def test_methods_classes_and_tied_weights_of_the_cell():
    cell = cell_of(torch.tanh)
    assert difference(cell) < 1e-12
    cell.activation = torch.sigmoid
    assert difference(cell) < 1e-12

    class Other(Held):
        def forward(self, x, state, dt):
            h = torch.relu(self.recurrent(state[0]) - x)
            return h, (h,)

    cell.__class__ = Other
    assert difference(cell) < 1e-12

    class Tied(Held):
        def __init__(self, activation):
            super().__init__(activation)
            self.first, self.second = nn.Parameter(torch.ones(2)), nn.Parameter(torch.full((2,), 3.0))

        def forward(self, x, state, dt):
            h = self.activation(self.first * x + self.second * state[0])
            return h, (h,)

    tied = Tied(torch.tanh).double()
    tied.second = tied.first
    assert difference(tied) < 1e-12
    tied.second = nn.Parameter(torch.full((2,), 3.0, dtype=torch.float64))
    assert difference(tied) < 1e-12


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda cell: pickle.loads(pickle.dumps(cell))])
def test_copies_are_cells_of_their_own(duplicate):
    cell = cell_of(nn.Tanh())
    assert difference(cell) < 1e-12
    other = duplicate(cell)
    other.activation = nn.Sigmoid()
    assert difference(other) < 1e-12
    assert difference(cell) < 1e-12


def test_equal_cells_share_a_kernel_and_are_traced_once(monkeypatch):
    traced = []
    original = _compiled.trace
    monkeypatch.setattr(_compiled, "trace", lambda *a, **k: traced.append(1) or original(*a, **k))
    first, second = cell_of(nn.Tanh()), cell_of(nn.Tanh())
    for training in (True, True, False, True, False):
        kernel_of(first.train(training))
        kernel_of(second)
    assert len(traced) == 3  # two cells, one of them also in evaluation
    assert kernel_of(first) is kernel_of(second)


def test_what_was_known_of_a_cell_goes_with_it():
    cell = cell_of(nn.Tanh())
    kernel_of(cell)
    gone = weakref.ref(cell)
    del cell
    gc.collect()
    assert gone() is None


def test_a_sweep_over_activations_trains_each():
    """The layer calls by itself what was decided for it."""
    x, results = torch.randn(3, 5, 2), []
    for number in NUMBERS:
        cell = cell_of(WAYS["closure"](number)[0]).float()
        cell.runs_compiled = True
        y, _ = driver.run(cell, x, cell.initial_state(5, x[0]), torch.ones(3, 5, 1), driver.Plan())
        results.append(y)
    assert not torch.allclose(*results)
