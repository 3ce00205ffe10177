"""Warns about diverging outputs and names the longest gap of the batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from torch import Tensor

from ..kernels import may_look
from ._inputs import LayerInput

LONG_GAP = 30.0
"""Gaps up to this length count as short: then only the final states are checked, which is cheap."""
TOO_LARGE = 1e9
"""Multiple of the largest input (or 1) beyond which outputs are useless and gradients soon overflow."""


def warn(cell: str, y: Tensor, states: Iterable[tuple[Tensor, ...]], batch: LayerInput) -> None:
    """Emits a RuntimeWarning with the longest gap if the outputs are not finite or far larger than the inputs.

    An explicit step is only stable for short gaps, and the states of some models grow with time by design.
    """
    if not may_look(y):
        return
    gap = _largest(batch.dt)
    suspicious = gap > LONG_GAP or any(_largest(part) >= TOO_LARGE for state in states for part in state)
    if not suspicious or (largest := _largest(y)) < TOO_LARGE:
        return
    inputs = _largest(batch.x)
    if largest < TOO_LARGE * max(1.0, inputs):
        return
    what = "are more than 1e9 times larger than its inputs" if largest < float("inf") else "are not finite"
    warnings.warn(
        f"the outputs of {cell} {what}; the longest gap is dt = {gap:.2g}, the largest input is {inputs:.2g}. If the "
        f"gap "
        "is the cause, divide all times by a constant so that a typical gap is about 1, build the layer with "
        "max_gap=..., or choose a solver that stays bounded (solver='exponential', where the model has it). "
        "Otherwise scale the inputs, or train with a lower learning rate.",
        RuntimeWarning,
        stacklevel=6,
    )


def _largest(values: Tensor) -> float:
    """Returns the largest magnitude; infinity if a value is NaN."""
    low, high = values.detach().aminmax()
    largest = max(abs(float(low)), abs(float(high)))
    return largest if largest == largest else float("inf")
