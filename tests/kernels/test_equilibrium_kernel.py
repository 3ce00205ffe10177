"""Properties of the iRNN/ERNN kernel only: rates of single steps, transitions that it does not know."""

import pytest
import torch
from helpers import assert_compiles_and_exports, assert_same_as_torch, batch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import called, calls, make

import chronode
from chronode.kernels import _library as library
from chronode.kernels import ops
from chronode.nn.cells.irnn import EquilibriumCell

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

FORMS = ["irnn-low-rank", "irnn-full"]


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data(), eta_steps=st.integers(1, 4), taken=st.integers(0, 2))
def test_rates_of_each_step(name, data, eta_steps, taken):
    layer, x, dt, lengths, (h, count) = called(name, data.draw(calls(name)), eta_steps=eta_steps)
    assert_same_as_torch(layer, x, dt, lengths, (h, torch.full_like(count, taken)))


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
@pytest.mark.parametrize("isa", library.available_isas())
def test_activations_on_every_instruction_set(isa, activation, monkeypatch):
    monkeypatch.setattr(ops, "library", lambda: library.load(isa))
    for name in FORMS:
        for dtype in (torch.float64, torch.float32):
            layer = make(name, 3, 17, dtype, activation=activation)
            assert_same_as_torch(layer, *batch(layer, 9, 4, dtype))


def test_compile_and_export_with_rates_of_each_step():
    layer = make("irnn-full", eta_steps=2)
    x, dt, _, _ = batch(layer, 2, 3, torch.float64, ragged=False)
    assert_compiles_and_exports(layer, x, dt)


def test_where_there_is_a_kernel():
    class Own(EquilibriumCell):
        def transition(self, q, x):
            return torch.tanh(super().transition(q, x))

    def has(**chosen):
        return chronode.create("irnn", 3, 5, **chosen).cells[0].kernel() is not None

    assert has() and chronode.create("ernn", 3, 5).cells[0].kernel() is not None
    assert not has(depth=2) and not has(solver="equilibrium", recurrent="full")
    assert Own(3, 5).kernel() is None
