"""Whole-sequence kernels: C++ sources with their loader, and autograd around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from ._backend import backend, chosen, constant_to_compilers
from ._bound import Bound, BoundCall, Snapshot
from ._library import available_isas, cpu_description, library, march, prebuilt_folder, status
from ._modes import (
    TRANSFORMED,
    autocasts,
    has_values,
    may_look,
    need_values,
    transformed,
    weight_of,
    why_no_kernel,
    why_not,
)
from ._operator import operator
from ._product import addmm, product
from ._twice import twice_differentiable

__all__ = [
    "Bound",
    "BoundCall",
    "Kernel",
    "Snapshot",
    "addmm",
    "autocasts",
    "available_isas",
    "backend",
    "cpu_description",
    "find",
    "find_stack",
    "has_values",
    "library",
    "march",
    "may_look",
    "need_values",
    "operator",
    "prebuilt_folder",
    "product",
    "status",
    "twice_differentiable",
    "weight_of",
    "why_no_kernel",
    "why_not",
]


@dataclass(frozen=True)
class Kernel:
    """Kernel that runs a cell over a whole sequence, with the results of the driver's loop.

    Attributes:
        run: `(reads, x, state, dt, plan) -> (y, state)`, time-major as `driver.run`, never reversed; `reads` is what
            `cell.kernel_reads()` gives. It may return None where this call needs the driver's loop.
        settings: The cell's settings that it knows, each with the values it was written for; others: any value.
        parts: The classes of the cell's submodules, and of other objects that a step calls, that it was written for.
        native: Whether it needs chronode's compiled library (and a float32 or float64 tensor on the CPU).
        stack: `(reads of all cells, x, states, dt, masks, residual, plan) -> (y, states)`, if it also runs a whole
            stack of such cells in one call; dropout masks `(B, H)`, one per layer or None, are multiplied onto each
            layer's outputs.
        bind: `(reads of all cells, x (B, D), dt (B, 1), before, after, residual) -> (call, y)`, if a single step can be
            called again and again over the same arrays: `call()` makes the state `after`, and `y`, of the state
            `before`. Parts of a state are `(cells, B, size)`; one cell, or as many as `stack` takes. It returns None
            for settings in which torch does a part of the step.
    """

    run: Callable[..., tuple[Tensor, tuple[Tensor, ...]] | None]
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    parts: tuple[type, ...] = (nn.Linear,)
    native: bool = True
    stack: Callable[..., tuple[Tensor, list[tuple[Tensor, ...]]]] | None = None
    bind: Callable[..., Bound | None] | None = None

    def words(self) -> str:
        """Returns the settings that it runs, as text."""
        if not self.settings:
            return "all settings"
        return ", ".join(f"{name}={'|'.join(map(str, values))}" for name, values in self.settings.items())


def find(cell: Any, x: Tensor) -> Kernel | None:
    """Returns the kernel that runs `cell` over a whole sequence `x` now; None where the driver's loop must run."""
    kernel: Kernel | None = cell.sequence_kernel
    if kernel is None or cell.why_no_kernel() is not None:
        return None
    if kernel.native and x.device.type == "cuda":  # the compiler's
        return None
    reason = why_not(x) if kernel.native else TRANSFORMED if transformed() else None
    if reason is not None and chosen() == "native":
        raise ValueError(f"backend 'native' was chosen, but {reason}. Choose backend 'auto' or 'torch'.")
    return kernel if reason is None else None


def find_stack(cells: Sequence[Any], x: Tensor) -> Kernel | None:
    """Returns the kernel that runs the whole stack `cells` over `x` in one call; None: run it cell by cell."""
    kernel: Kernel | None = cells[0].sequence_kernel
    if kernel is None or kernel.stack is None or len({cell.hidden_size for cell in cells}) > 1:
        return None
    return kernel if all(find(cell, x) is kernel for cell in cells) else None
