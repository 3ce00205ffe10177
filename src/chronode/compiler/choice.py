"""Which cells run compiled: decided before the work begins, because when a compiler is done is chance."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from ..kernels.backend import chosen, why_not
from .trace import Unsupported

_BUILD_SECONDS = 8.0  # to trace and to build one kernel
_NODE_SECONDS = 6e-6  # of one operation of the loop in Python
_compiled: WeakSet[nn.Module] = WeakSet()
_noted: set[str] = set()


@dataclass(frozen=True)
class Decision:
    """Whether a model's cells run compiled.

    Attributes:
        compiled: the answer.
        text: the reason, in a line.
    """

    compiled: bool
    text: str


def use(model: nn.Module, compiled: bool = True) -> None:
    """Lets the cells of a model run compiled from here on, or not.

    What cannot be compiled runs as it did, with one note.

    Example:
        >>> import chronode
        >>> layer = chronode.create("gru", 3, 8)
        >>> chronode.compiler.use(layer, compiled=False)
    """
    for module in model.modules():
        (_compiled.add if compiled else _compiled.discard)(module)


def plan(model: nn.Module, steps: int) -> Decision:
    """Whether compiling pays for `steps` time steps of training ahead (sequence length times batches).

    Args:
        model: a layer or a model with layers.
        steps: time steps that the loop would run.
    """
    cells = [module for module in model.modules() if hasattr(module, "sequence_step")]
    raise NotImplementedError(cells)


def find(cell: Any, x: Tensor) -> Any | None:
    """The compiled kernel that runs `cell` over `x` now; None where something else must.

    Raises:
        ValueError: backend "native" was chosen and the cell cannot be compiled.
    """
    backend = chosen()
    if backend == "torch" or (backend == "auto" and cell not in _compiled) or torch.compiler.is_compiling():
        return None
    reason = why_not_here(x)
    if reason is None:
        try:
            from .compiled import kernel_of

            return kernel_of(cell)
        except Unsupported as error:
            reason = f"the step {error}" if not str(error).startswith(("the ", "no ")) else str(error)
    if backend == "native":
        return None
    note = f"{type(cell).__name__} runs as a loop in Python: {reason}."
    if note not in _noted:
        _noted.add(note)
        warnings.warn(note, stacklevel=2)
    return None


def why_not_here(x: Tensor) -> str | None:
    """Why no compiled kernel can take `x` now, in words; None if one can."""
    if torch.is_autocast_enabled(x.device.type):
        return "compiled kernels do not run under autocast"
    if x.device.type != "cpu":
        return f"compiled kernels run on the CPU, x is on {x.device}"
    if x.dtype not in (torch.float32, torch.float64):
        return f"compiled kernels take float32 and float64, x is {x.dtype}"
    return None
