"""`check_cell` passes a sound user's cell, and every kind of fault is caught by the check that is there for it."""

import pytest
import torch
from torch import nn

import chronode
from chronode.nn import Layer, door, driver, registry
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


@pytest.fixture
def register(monkeypatch):
    """Registers a cell as "mine" until the end of the test."""
    monkeypatch.setattr(registry, "_models", dict(registry._models))
    return chronode.register("mine", paper="mine", time="native")


def check_only(name):
    """Runs one check; what else is wrong does not matter here."""
    check_cell("mine", leave_out=[check.__name__ for check in CHECKS if check.__name__ != name])


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
    """What broadcasting dt the wrong way does where B = H."""

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
    (AlwaysDouble, "contract", "y is torch.float64 where x is torch.float32"),
    (Remembers, "purity", "leaves attributes behind: calls"),
    (WritesInPlace, "purity", "writes to state[0] in place"),
    (SeesTheBatch, "padding_changes_nothing", "padded batch against each sequence alone: y differs by"),
    (SeesTheBatch, "rows_do_not_see_each_other", "other sequences after the first one has changed: y differs by"),
    (MixesRowsAndUnits, "as_many_sequences_as_units", "among B = H against it in a batch of 1 differs by"),
    (IgnoresTime, "time_as_registered", "registered with time='native', yet doubling dt moves y by 0 only"),
    (DividesByTime, "zero_gaps", "dt = 0 everywhere: y is nan"),
    (RootOfTime, "zero_gaps", "the gradient by dt is nan"),
    (Overflows, "huge_inputs", "inputs of 1e4 in torch.float32: y is inf"),
    (LosesPrecision, "float32_is_float64", "float32 against float64: y differs by"),
    (
        CutsTheGradient,
        "gradients_are_right",
        "the gradient by x in a random direction against finite differences differs by",
    ),
    (IdleParameter, "training", "cells.0.idle get no gradient"),
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


def test_time_must_be_ignored_where_it_was_promised(monkeypatch):
    monkeypatch.setattr(registry, "_models", dict(registry._models))
    chronode.register("mine", paper="mine", time="none")(Leaky)
    with pytest.raises(AssertionError, match="registered with time='none', yet with doubled dt its y differs by"):
        check_only("time_as_registered")


def test_all_failures_are_listed(register):
    register(SeesTheBatch)
    with pytest.raises(AssertionError, match=r"fails \d+ of \d+ checks:\n  padding_changes_nothing: .*\n  \w+: "):
        check_cell("mine")


# ---- faults of the driver, the door and the layer: where, what, its faulty stand-in, the checks that see it ----------


def mask_per_step(self, x):
    if not self.training or not self.dropout:
        return None
    return [nn.functional.dropout(x.new_ones(*x.shape[:2], cell.output_size), self.dropout) for cell in self.cells]


def single_steps_lost(loop):
    def lossy(cell, x, *rest):
        y, state = loop(cell, x, *rest)
        return (y if len(x) > 1 else torch.zeros_like(y)), state

    return lossy


FAULTY_MACHINERY = {
    "padding is run over": (
        (driver, "_loop", lambda loop: lambda *args: loop(*args[:-2], None, args[-1])),
        ("padding_changes_nothing", "padding_is_never_read", "plain_loop", "last_output"),
    ),
    "gaps are reversed like inputs": ((driver, "reversed_gaps", lambda _: driver.flip), ("both_directions",)),
    "padding is reversed too": ((driver, "flip", lambda _: lambda x, lengths: x.flip(0)), ("both_directions",)),
    "single steps are lost": ((driver, "_loop", single_steps_lost), ("one_step",)),
    "chunks forget the state": (
        (driver, "_loop_in_chunks", lambda run: lambda cell, x, state, *rest: (run(cell, x, state, *rest)[0], state)),
        ("low_memory",),
    ),
    "t is ignored": (
        (door, "_gaps", lambda gaps: lambda call, dt, t, *rest: gaps(call, dt, None, *rest)),
        ("times_are_gaps",),
    ),
    "a number for dt is ignored": (
        (door, "_per_step", lambda f: lambda name, v, *rest: f(name, v if isinstance(v, torch.Tensor) else 1.0, *rest)),
        ("gaps_in_every_shape",),
    ),
    "batch_first is ignored": (
        (door, "_time_major", lambda _: lambda x, call, unbatched: x.unsqueeze(1) if unbatched else x.transpose(0, 1)),
        ("time_first",),
    ),
    "the carried state is ignored": (
        (Layer, "_unpack", lambda unpack: lambda self, state, *rest: unpack(self, None, *rest)),
        ("pieces_make_the_whole", "missing_values"),
    ),
    "the state of one sequence is ignored": (
        (Layer, "_unpack", lambda unpack: lambda self, s, x, one: unpack(self, None if one else s, x, one)),
        ("unbatched_is_a_batch_of_one",),
    ),
    "step ignores dt": (
        (Layer, "step", lambda step: lambda self, x, state=None, dt=1.0: step(self, x, state)),
        ("step_is_the_sequence",),
    ),
    "dropout differs over time": ((Layer, "_dropout_masks", lambda _: mask_per_step), ("dropout_masks",)),
    "residuals begin a layer early": (
        (Layer, "_skips", lambda _: lambda self, index: self.residual > 0 and index >= self.residual - 1),
        ("residual_skips",),
    ),
    "settings are not saved": (
        (Layer, "_facts", lambda _: lambda self: {}),
        ("other_settings_are_loaded_or_refused",),
    ),
}


@pytest.mark.parametrize(
    ("fault", "check"), [(fault, check) for fault, (_, checks) in FAULTY_MACHINERY.items() for check in checks]
)
def test_faulty_machinery_is_caught(register, monkeypatch, fault, check):
    register(Leaky)
    (where, name, spoil), _ = FAULTY_MACHINERY[fault]
    monkeypatch.setattr(where, name, spoil(getattr(where, name)))
    with pytest.raises(AssertionError, match=f"{check}: "):
        check_only(check)


# ---- check_cell's own door -----------------------------------------------------------------------------------------


def test_wrong_calls(register):
    register(Leaky)
    with pytest.raises(ValueError, match="there is no check 'pading'; the checks are contract, purity"):
        check_cell("mine", leave_out=["pading"])
    with pytest.raises(ValueError, match="dropout is varied by the checks themselves: leave it out"):
        check_cell("mine", dropout=0.5)
    with pytest.raises(TypeError, match="has no setting 'tua'; it has tau. Did you mean 'tau'"):
        check_cell("mine", tua=1.0)
    with pytest.raises(ValueError, match="there is no model 'not-there'"):
        check_cell("not-there")
