"""`check_cell` catches faults of the driver, the input checks and the layer too, so that a sound cell shows them."""

import pytest
import torch
from leaky_cell import Leaky, check_only, register_mine
from torch import nn

from chronode.nn import Layer, _inputs, driver

register = pytest.fixture(register_mine)


def mask_per_step(self, x):
    if not self.training or not self.dropout:
        return None
    return [nn.functional.dropout(x.new_ones(*x.shape[:2], cell.output_size), self.dropout) for cell in self.cells]


def single_steps_lost(loop):
    def lossy(cell, state, steps):
        y, state = loop(cell, state, steps)
        return (y if len(steps.x) > 1 else torch.zeros_like(y)), state

    return lossy


# By fault: where it is, what, its faulty stand-in; the checks that see it.
FAULTY_MACHINERY = {
    "padding is run over": (
        (driver, "_loop", lambda loop: lambda cell, state, steps: loop(cell, state, steps._replace(valid=None))),
        ("padding_changes_nothing", "padding_is_never_read", "plain_loop", "last_output"),
    ),
    "gaps are reversed like inputs": ((driver, "reversed_gaps", lambda _: driver.flip), ("both_directions",)),
    "padding is reversed too": ((driver, "flip", lambda _: lambda x, lengths: x.flip(0)), ("both_directions",)),
    "single steps are lost": ((driver, "_loop", single_steps_lost), ("one_step",)),
    "chunks forget the state": (
        (driver, "_loop_in_chunks", lambda run: lambda cell, state, *rest: (run(cell, state, *rest)[0], state)),
        ("low_memory",),
    ),
    "t is ignored": (
        (_inputs, "_gaps", lambda gaps: lambda call, dt, t, *rest: gaps(call, dt, None, *rest)),
        ("times_are_gaps",),
    ),
    "a number for dt is ignored": (
        (_inputs, "_per_step", lambda f: lambda n, v, *rest: f(n, v if isinstance(v, torch.Tensor) else 1.0, *rest)),
        ("gaps_in_every_shape",),
    ),
    "batch_first is ignored": (
        (_inputs, "_time_major", lambda _: lambda x, call, one: x.unsqueeze(1) if one else x.transpose(0, 1)),
        ("time_first",),
    ),
    "the carried state is ignored": (
        (Layer, "unpack", lambda unpack: lambda self, state, *rest: unpack(self, None, *rest)),
        ("pieces_make_the_whole", "missing_values"),
    ),
    "the state of one sequence is ignored": (
        (Layer, "unpack", lambda unpack: lambda self, s, x, one: unpack(self, None if one else s, x, one)),
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
