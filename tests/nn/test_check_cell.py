"""`check_cell` passes a sound user's cell, and every kind of fault is caught by the check that is there for it."""

import pytest
import torch
from leaky_cell import Leaky, check_only, register_mine
from torch import nn

from chronode.testing import check_cell

register = pytest.fixture(register_mine)


def test_a_sound_cell_passes(register):
    register(Leaky)
    check_cell("mine")
    check_cell("mine", tau=2.0, num_layers=3, residual=1)


def test_random_numbers_and_modes_of_the_caller_stay(register):
    register(Leaky)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with torch.no_grad():
        check_cell("mine")
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(3), expected)


def test_wrong_calls(register):
    register(Leaky)
    with pytest.raises(ValueError, match="unknown check 'pading'; the checks are contract, purity"):
        check_cell("mine", leave_out=["pading"])
    with pytest.raises(ValueError, match="dropout cannot be set, because the checks vary it"):
        check_cell("mine", dropout=0.5)
    with pytest.raises(TypeError, match="has no setting 'tua'; it has tau. Did you mean 'tau'"):
        check_cell("mine", tua=1.0)
    with pytest.raises(ValueError, match="there is no model 'not-there'"):
        check_cell("not-there")


# ---- faults of a cell ----------------------------------------------------------------------------------------------


class StateIsNoTuple(Leaky):
    def forward(self, x, state, dt):
        y, (h,) = super().forward(x, state, dt)
        return y, h


class OutputTooWide(Leaky):
    def forward(self, x, state, dt):
        y, state = super().forward(x, state, dt)
        return torch.cat([y, y], dim=-1), state


class AlwaysDouble(Leaky):
    def decay(self, dt):
        return super().decay(dt).double()


class Remembers(Leaky):
    def forward(self, x, state, dt):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(x, state, dt)


class WritesInPlace(Leaky):
    def forward(self, x, state, dt):
        state[0].mul_(self.decay(dt))
        return super().forward(x, state, torch.zeros_like(dt))


class SeesTheBatch(Leaky):
    def forward(self, x, state, dt):
        return super().forward(x - x.mean(0), state, dt)


class MixesRowsAndUnits(Leaky):
    """A cell that broadcasts dt the wrong way, unnoticed where B = H."""

    def decay(self, dt):
        return super().decay(dt.view(1, -1) if len(dt) == self.hidden_size else dt)


class IgnoresTime(Leaky):
    def decay(self, dt):
        return super().decay(torch.ones_like(dt))


class DividesByTime(Leaky):
    def decay(self, dt):
        return torch.exp(-self.tau / dt) / dt


class RootOfTime(Leaky):
    """Finite at dt = 0; its gradient is not."""

    def decay(self, dt):
        return torch.exp(-dt.sqrt())


class Overflows(Leaky):
    def forward(self, x, state, dt):
        y, state = super().forward(x, state, dt)
        return y + x.sum(-1, keepdim=True).exp(), state


class LosesPrecision(Leaky):
    def forward(self, x, state, dt):
        y, state = super().forward(x, state, dt)
        return (y + 1e5) - 1e5, state


class CutsTheGradient(Leaky):
    def forward(self, x, state, dt):
        return super().forward(x, (state[0].detach(),), dt)


class IdleParameter(Leaky):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.idle = nn.Parameter(torch.zeros(1))


class UnsavedChoice(Leaky):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.tau = 1.0 + float(torch.rand(()))


class UnsavedBuffer(Leaky):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.register_buffer("tau_of_all", torch.tensor(2.0), persistent=False)

    def decay(self, dt):
        return torch.exp(-dt / self.tau_of_all)


class CannotBePickled(Leaky):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.decay = lambda dt: torch.exp(-dt)


class BranchesOnNumbers(Leaky):
    def decay(self, dt):
        return super().decay(dt) if bool(dt.sum() > 1e-9) else torch.ones_like(dt)


FAULTY_CELLS = [
    (StateIsNoTuple, "contract", "with state a tuple, got Tensor"),
    (OutputTooWide, "contract", "y has shape (3, 8), expected (batch, output_size) = (3, 4)"),
    (AlwaysDouble, "contract", "y is torch.float64 although x is torch.float32"),
    (Remembers, "purity", "sets attributes: calls"),
    (WritesInPlace, "purity", "writes to state[0] in place"),
    (SeesTheBatch, "padding_changes_nothing", "padded batch against each sequence alone: y differs by"),
    (SeesTheBatch, "rows_do_not_see_each_other", "other sequences after the first one has changed: y differs by"),
    (MixesRowsAndUnits, "as_many_sequences_as_units", "among B = H against it in a batch of 1 differs by"),
    (IgnoresTime, "time_as_registered", "registered with time='native', but doubling dt changes y by only 0"),
    (DividesByTime, "zero_gaps", "dt = 0 everywhere: y is nan"),
    (RootOfTime, "zero_gaps", "the gradient by dt is nan"),
    (Overflows, "huge_inputs", "inputs of 1e4 in torch.float32: y is inf"),
    (LosesPrecision, "float32_is_float64", "float32 against float64: y differs by"),
    (
        CutsTheGradient,
        "gradients_are_right",
        "the gradient by x in a random direction against finite differences differs by",
    ),
    (IdleParameter, "training", "cells.0.idle have no gradient"),
    (UnsavedChoice, "state_dict_holds_everything", "a layer with loaded weights: y differs by"),
    (UnsavedBuffer, "state_dict_holds_everything", "a layer with loaded weights: y differs by"),
    (CannotBePickled, "copies", "pickle"),
    (BranchesOnNumbers, "exported_step", ""),
]


@pytest.mark.parametrize(("cell", "check", "message"), FAULTY_CELLS)
def test_faulty_cell_is_caught(register, cell, check, message):
    register(cell)
    with pytest.raises(AssertionError) as caught:
        check_only(check)
    assert f"mine fails 1 of 1 checks:\n  {check}: " in str(caught.value)
    assert message in str(caught.value)


def test_time_must_be_ignored_where_it_was_promised(register):
    register(Leaky, time="none")
    with pytest.raises(AssertionError, match="registered with time='none', but with doubled dt its y differs by"):
        check_only("time_as_registered")


def test_all_failures_are_listed(register):
    register(SeesTheBatch)
    with pytest.raises(AssertionError, match=r"fails \d+ of \d+ checks:\n  padding_changes_nothing: .*\n  \w+: "):
        check_cell("mine")


class Spike(torch.autograd.Function):
    """1 above 0, with the gradient of a smooth step."""

    @staticmethod
    def forward(ctx, voltage):
        ctx.save_for_backward(voltage)
        return (voltage > 0).to(voltage.dtype)

    @staticmethod
    def backward(ctx, *grads):
        return grads[0] / (1 + ctx.saved_tensors[0].abs()) ** 2


class Noisy(Leaky):
    """Leaky, with noise at every step."""

    def forward(self, x, state, dt):
        y, (h,) = super().forward(x, state, dt)
        return y, (h + 0.1 * torch.randn_like(h),)


class Spiking(Leaky):
    """Leaky, whose output is a spike."""

    def forward(self, x, state, dt):
        y, state = super().forward(x, state, dt)
        return Spike.apply(y), state


@pytest.mark.parametrize(("cell", "option"), [(Noisy, "stochastic"), (Spiking, "surrogate")])
def test_steps_that_draw_and_surrogate_gradients_pass_with_the_option_for_them(register, cell, option):
    register(cell)
    check_cell("mine", **{option: True})
    with pytest.raises(AssertionError, match="fails"):
        check_cell("mine")
