"""The shared test suites that every model, and every own part of one of the other kinds, must pass.

>>> import chronode.testing
>>> chronode.testing.check_cell("lstm")
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from . import oracle, over_time, soundness
from .case import Case, Check, run_checks
from .parts import check_exporter, check_flow, check_metric, check_solver
from .readers import check_reader

__all__ = [
    "CHECKS",
    "Case",
    "check_cell",
    "check_exporter",
    "check_flow",
    "check_metric",
    "check_reader",
    "check_solver",
]

CHECKS: tuple[Check, ...] = (
    soundness.contract,
    soundness.purity,
    over_time.padding_changes_nothing,
    over_time.padding_is_never_read,
    over_time.pieces_make_the_whole,
    over_time.step_is_the_sequence,
    over_time.times_are_gaps,
    over_time.gaps_in_every_shape,
    over_time.zero_gaps,
    over_time.time_as_registered,
    over_time.as_many_sequences_as_units,
    over_time.one_step,
    over_time.unbatched_is_a_batch_of_one,
    over_time.time_first,
    over_time.rows_do_not_see_each_other,
    oracle.plain_loop,
    oracle.stack_of_two,
    oracle.both_directions,
    oracle.residual_skips,
    oracle.dropout_masks,
    oracle.last_output,
    oracle.low_memory,
    oracle.missing_values,
    soundness.huge_inputs,
    soundness.float32_is_float64,
    soundness.gradients_are_right,
    soundness.training,
    soundness.state_dict_holds_everything,
    soundness.other_settings_are_loaded_or_refused,
    soundness.copies,
    soundness.exported_step,
)
"""All checks. Each takes a `Case` and raises AssertionError; its docstring states the requirement."""

_VARIED_BY_THE_CHECKS = ("dropout", "bidirectional", "batch_first", "missing", "outputs", "memory")


_OF_OTHER_DRAWS = (
    *("purity", "padding_changes_nothing", "pieces_make_the_whole", "step_is_the_sequence", "exported_step"),
    *("as_many_sequences_as_units", "plain_loop", "stack_of_two", "both_directions", "residual_skips"),
    *("dropout_masks", "missing_values"),
)
_OF_THE_DERIVATIVE = ("gradients_are_right", "training")


def check_cell(
    name: str,
    *,
    agreement: float = 1e-9,
    stochastic: bool = False,
    surrogate: bool = False,
    leave_out: Collection[str] = (),
    **settings: Any,
) -> None:
    """Runs the shared suite on a registered model.

    Args:
        name: Name of the registered model.
        agreement: Tolerance between two float64 computations of the same result (see `Case`).
        stochastic: Whether a step draws random numbers. Every call then draws the same ones, and checks that compare
            calls of different shapes, which draw others, are skipped.
        surrogate: Whether gradients are not the derivatives of the outputs, as those of spikes. Checks that need
            derivatives are skipped.
        leave_out: Names of checks to skip, if the model cannot pass them for a good reason.
        settings: Settings of the model, `num_layers` and `residual`; the checks vary all other settings of a layer.

    Raises:
        AssertionError: A check failed. The message lists every failed check, what differed, where and by how much.

    Example:
        >>> check_cell("mmrnn", variant="driven", flow="gru")
    """
    names = [check.__name__ for check in CHECKS]
    for left_out in leave_out:
        if left_out not in names:
            raise ValueError(f"leave_out: unknown check {left_out!r}; the checks are {', '.join(names)}.")
    for setting in settings:
        if setting in _VARIED_BY_THE_CHECKS:
            raise ValueError(f"{setting} cannot be set, because the checks vary it.")
    leave_out = {*leave_out, *(_OF_OTHER_DRAWS if stochastic else ()), *(_OF_THE_DERIVATIVE if surrogate else ())}
    case = Case(name, settings, agreement, stochastic)
    with torch.random.fork_rng(devices=[]):
        case.layer()  # a wrong name or setting is the caller's error, not the model's
    run_checks(name, [check for check in CHECKS if check.__name__ not in leave_out], case)
