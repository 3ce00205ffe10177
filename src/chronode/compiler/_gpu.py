"""Decides how a cell runs on a GPU: by a Triton kernel, as captured CUDA graphs, or as a loop with a note."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..kernels import autocasts, chosen, why_no_kernel
from ..settings import one_of
from . import triton
from ._auto import mode
from ._changes import why_hooked
from ._recorded import VIEWS, Unsupported

if TYPE_CHECKING:
    from ._captured import Captured
    from ._run import Compiled

    Runs = Compiled | Captured

GRAPHS = "CHRONODE_CUDA_GRAPHS"
"""Environment variable: "on" captures loops that are not element-wise as CUDA graphs; nobody has run this yet."""
_LAUNCH_SECONDS = 8e-6  # one operation of a step in Python, which takes longer than a small kernel
_CPU_FLOPS = 1e10  # of one core, in the products of a compiled step
_noted: set[str] = set()


def find_on_gpu(cell: Any, x: Tensor) -> Runs | None:
    """Returns what runs `cell` over `x`, a tensor on a GPU; None if the loop must.

    Raises:
        ValueError: Backend "native" was chosen and there is no kernel for this cell.
    """
    if chosen() == "auto" and not _allowed(cell):
        return None
    reason = _why_not(cell, x)
    if reason is None:
        from ._compiled import gpu_kernel_of

        try:
            with torch.autocast(x.device.type, enabled=False) if autocasts(x) else nullcontext():
                return gpu_kernel_of(cell, torch.float64 if x.dtype == torch.float64 else torch.float32)
        except Unsupported as error:
            reason = str(error)
        if captures(x) and why_hooked(cell) is None:
            from ._captured import Captured

            return Captured() if launches(cell, x).draws == 0 else None
    if chosen() == "native":
        raise ValueError(
            f"backend 'native' was chosen, but {type(cell).__name__} has no kernel for a GPU: {reason}. "
            "Choose backend 'auto' or 'torch'."
        )
    return None


def _allowed(cell: Any) -> bool:
    choice = getattr(cell, "runs_compiled", None)
    return mode() != "off" if choice is None else choice


def captures(x: Tensor) -> bool:
    """Returns whether loops are captured as CUDA graphs."""
    return one_of(GRAPHS, os.environ.get(GRAPHS, "off"), ("off", "on")) == "on" and not autocasts(x)


def _why_not(cell: Any, x: Tensor) -> str | None:
    """Returns why a cell of any kind has no kernel for a GPU now."""
    if (reason := why_hooked(cell) or why_no_kernel()) is not None:
        return reason
    if not triton.installed():
        return f"kernels for a GPU need triton: {triton.INSTALL}"
    if x.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        return f"kernels for a GPU take floating-point numbers of 16 bits or more, x is {x.dtype}"
    return None


def gpu_path(cell: Any) -> str | None:
    """Returns why the loop of a cell cannot be emitted as a kernel for a GPU; None if it can.

    Example:
        >>> import chronode
        >>> chronode.compiler.gpu_path(chronode.create("mingru", 3, 8).cells[0])
        >>> chronode.compiler.gpu_path(chronode.create("gru", 3, 8).cells[0])
        'the step mixes units within a step (product)'
    """
    from ._compiled import gpu_source_of

    try:
        gpu_source_of(cell)
    except Unsupported as reason:
        return f"the step {reason}"
    return None


class _Count(TorchDispatchMode):
    """Counts operations that launch a kernel, and those among them that draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.forward = self.total = self.draws = 0

    @property
    def backward(self) -> int:
        """Operations after the forward pass."""
        return self.total - self.forward

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Counts one operation."""
        self.total += func._opname not in VIEWS and not func._opname.startswith(("empty", "new_empty"))
        self.draws += torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def launches(cell: Any, x: Tensor) -> _Count:
    """Counts the operations of one step, forward and backward, on a small batch."""
    with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []), torch.enable_grad():
        state = tuple(part.detach().requires_grad_() for part in cell.initial_state(2, x.new_zeros(2, x.shape[-1])))
        given = x.new_zeros(1, 2, x.shape[-1])
        projected = cell.project_sequence(given, None)
        rows = (cell.project(given) if projected is None else projected)[0].detach().requires_grad_()
        step, dt = cell.prepare(), x.new_ones(2, 1)
        with _Count() as count:
            y, new = step(rows, state, dt)
            count.forward = count.total
            outputs = [out for out in (y, *new) if out.requires_grad]
            weights = [weight for weight in cell.parameters() if weight.requires_grad]
            if outputs:
                ones = [torch.ones_like(out) for out in outputs]
                count.total -= len(ones)
                torch.autograd.grad(outputs, [rows, *state, *weights], ones, allow_unused=True)
    return count


def note_loop(cell: Any, x: Tensor) -> None:
    """Warns once per kind of cell why its steps run one by one on a GPU, what they cost, and what would be faster."""
    name = type(cell).__name__
    if torch.compiler.is_compiling() or not triton.takes(x) or chosen() != "auto" or name in _noted:
        return
    _noted.add(name)
    reason = _why_not(cell, x)
    if reason is None:
        reason = gpu_path(cell) if _allowed(cell) else "compiled kernels are turned off for it"
    warnings.warn(f"{name} runs as a Python loop on the GPU: {reason}. {_advice(cell, x)}", stacklevel=2)


def _advice(cell: Any, x: Tensor) -> str:
    """Returns the number of launches of a step, and how the GPU and the CPU's kernel are likely to compare."""
    count, weights = launches(cell, x), sum(weight.numel() for weight in cell.parameters())
    there = count.total * _LAUNCH_SECONDS
    here = 6 * x.shape[1] * weights / (_CPU_FLOPS * torch.get_num_threads())
    counted = f"A step launches {count.forward} + {count.backward} kernels (forward + backward)"
    if there > here:
        return (
            f"{counted}, about {1e6 * there:,.0f} µs; for this model and size, its kernel on the CPU is likely faster."
        )
    return f"{counted}; {GRAPHS}=on replays them as CUDA graphs (experimental)."
