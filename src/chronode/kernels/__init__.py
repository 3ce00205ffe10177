"""Whole-sequence CPU kernels: C++ sources, the loader of the compiled libraries, their autograd wrappers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .backend import backend, chosen, why_not

__all__ = ["Kernel", "backend", "find", "find_stack"]


@dataclass(frozen=True)
class Kernel:
    """A way to run a cell over a whole sequence at once, with the numbers of the driver's loop.

    Attributes:
        run: `(cell, x, state, dt, plan) -> (y, state)`, time-major as `driver.run`, never reversed; it may
            return None where this call needs the driver's loop.
        native: whether it needs chronode's compiled library (and a float32 or float64 tensor on the CPU).
        stack: `(cells, x, states, dt, masks, residual, plan) -> (y, states)`, if it also runs a whole stack of such
            cells in one call; dropout masks `(B, H)`, one a layer or None, are multiplied onto each layer's outputs.
    """

    run: Callable[..., tuple[Tensor, tuple[Tensor, ...]] | None]
    native: bool = True
    stack: Callable[..., tuple[Tensor, list[tuple[Tensor, ...]]]] | None = None


def find(cell: Any, x: Tensor) -> Kernel | None:
    """The kernel that runs `cell` over a whole sequence `x` now; None where the driver's loop must run."""
    kernel = cell.kernel()
    if kernel is not None and not kernel.native:
        return kernel
    reason = why_not(x) if kernel is not None else f"{type(cell).__name__} has no kernel for these settings"
    if reason is None:
        return kernel
    if chosen() == "native":
        raise ValueError(f"backend 'native' was chosen, but {reason}. Choose backend 'auto' or 'torch'.")
    return None


def find_stack(cells: Sequence[Any], x: Tensor) -> Callable[..., tuple[Tensor, list[tuple[Tensor, ...]]]] | None:
    """What runs the whole stack `cells` (alike but for numbers) over `x` in one call; None: run it cell by cell."""
    kernel = find(cells[0], x)
    return None if kernel is None else kernel.stack
