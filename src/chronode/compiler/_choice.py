"""Decides which cells run compiled, before the work begins, so that results do not depend on compile times."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from ..kernels import Bound, autocasts, chosen, library, may_look, weight_of, why_not
from . import triton
from ._auto import wants
from ._changes import why_hooked
from ._gpu import find_on_gpu

if TYPE_CHECKING:
    from ._gpu import Runs
    from ._run import Compiled

_BUILD_SECONDS = 6.0  # to trace and build one kernel
_OPERATION_SECONDS = 8e-6  # one operation of a step in Python
_FUSED_SECONDS = 8e-5  # one step of torch's own loops
_MOST_OPERATIONS = 300  # of nearly every step, with its backward
_GAIN = 3  # compiling is worthwhile if the loop takes this many times as long
_noted: set[str] = set()
State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Decision:
    """Whether a model's cells run compiled.

    Attributes:
        compiled: Whether to compile; the argument of `use`.
        text: The reason, in one line.
        failed: Whether the work is worth compiling, but the compiler or its cache cannot be used.
    """

    compiled: bool
    text: str
    failed: bool = False


@dataclass(frozen=True)
class Path:
    """Implementation that runs a cell over a sequence.

    Attributes:
        name: "hand-written", "compiled" (it can be) or "loop".
        reason: Why the cell runs as a loop; empty otherwise.
    """

    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.reason else self.name


def use(model: nn.Module, compiled: bool | None = True) -> None:
    """Enables or disables compiled kernels for the cells of a model; None leaves the choice to CHRONODE_COMPILE again.

    A cell that cannot be compiled runs as before, and a note is printed once. Cells with a hand-written kernel keep
    it. The choice is part of the model: copies of it run in the same way.

    Example:
        >>> import chronode
        >>> layer = chronode.create("gru", 3, 8)
        >>> chronode.compiler.use(layer, compiled=False)
    """
    for cell in cells_of(model):
        cell.runs_compiled = compiled


def cells_of(model: nn.Module) -> list[Any]:
    """Returns the cells of all layers of a model, without cells inside cells."""
    cells: list[Any] = []
    inner: set[int] = set()
    for module in model.modules():
        if hasattr(module, "prepare") and hasattr(module, "initial_state") and id(module) not in inner:
            cells.append(module)
            inner.update(id(part) for part in module.modules())
    return cells


def plan(model: nn.Module, steps: int) -> Decision:
    """Estimates whether compiling is worthwhile for the work ahead.

    Args:
        model: A layer, or a model with layers.
        steps: Total number of time steps of the training: steps per batch, times batches, times epochs.

    Example:
        >>> import chronode
        >>> chronode.compiler.plan(chronode.create("gru", 3, 8), steps=100).compiled
        False
    """
    if chosen() == "torch":
        return Decision(False, "the torch backend is chosen")
    cells = [cell for cell in cells_of(model) if not _has_kernel(cell)]
    if not cells:
        return Decision(False, "all cells have a hand-written kernel")
    # Checked before tracing, which itself takes some time.
    most = steps * len(cells) * _MOST_OPERATIONS * _OPERATION_SECONDS
    if chosen() != "native" and most < _GAIN * _BUILD_SECONDS:
        return Decision(False, "the work ahead is shorter than compiling")
    failure = _why_nothing_is_built()
    weight = weight_of(model)
    dtype = None if weight is None else weight.dtype
    paths = {cell: explain(cell, dtype) for cell in cells}
    loops = [path for path in paths.values() if path.name == "loop"]
    if len(loops) == len(cells) and failure is not None:
        return Decision(False, f"the step runs as a loop: {failure}", failed=True)
    if len(loops) == len(cells):
        return Decision(False, loops[0].reason)
    return _worth([cell for cell in cells if paths[cell].name == "compiled"], dtype, steps)


def _why_nothing_is_built() -> str | None:
    from . import build

    try:
        build.check()
    except build.BuildError as error:
        return str(error)
    return None


def _worth(cells: list[Any], dtype: torch.dtype | None, steps: int) -> Decision:
    from ._compiled import is_built, key_of, step_of

    kinds = {key_of(cell, dtype): cell for cell in cells}
    to_build = [cell for cell in kinds.values() if not is_built(cell, dtype)]
    building = _BUILD_SECONDS * len(to_build)
    looping = steps * sum(_step_seconds(cell, len(step_of(cell, dtype).nodes)) for cell in cells)
    if chosen() != "native" and looping < _GAIN * building:
        return Decision(False, f"compiling would take about {building:.0f} s, the loop about {looping:.0f} s")
    what = f"compiled ({building:.0f} s to build)" if to_build else "compiled, from the cache"
    return Decision(True, f"the step runs {what}; as a loop it would take about {looping:.0f} s")


def _step_seconds(cell: Any, operations: int) -> float:
    """Returns the seconds of one time step without compiling, forward and backward."""
    return operations * _OPERATION_SECONDS if cell.kernel() is None else _FUSED_SECONDS


def _has_kernel(cell: Any) -> bool:
    kernel = cell.kernel()
    return kernel is not None and kernel.native


def explain(cell: Any, dtype: torch.dtype | None = None) -> Path:
    """Returns how a cell runs if compiling is enabled.

    Args:
        cell: The cell.
        dtype: Dtype of its input; by default that of its weights.

    Example:
        >>> import chronode
        >>> print(chronode.compiler.explain(chronode.create("unicornn", 3, 8).cells[0]))
        hand-written
    """
    if library() is None:
        from ..kernels import status

        return Path("loop", status())
    if _has_kernel(cell):
        return Path("hand-written")
    from . import build
    from ._compiled import is_prebuilt, step_of
    from ._recorded import Unsupported

    try:
        step_of(cell, dtype)
        build.check()
    except Unsupported as reason:
        return Path("loop", f"the step {reason}")
    except build.BuildError as error:
        return Path("compiled") if is_prebuilt(cell, dtype) else Path("loop", str(error))
    return Path("compiled")


def equal(dt: Tensor, lengths: Tensor | None) -> bool:
    """Returns whether all valid steps of a call have the same gap, which the caller does not differentiate by."""
    if chosen() == "torch" or dt.requires_grad or not may_look(dt):
        return False
    low, high = dt.aminmax()
    if lengths is not None:  # the gaps of padding are 0, and the first step of every sequence is valid
        low = torch.where(dt == 0, high, dt).min()
        return bool(low == high) and int((dt > 0).sum()) in (0, int(lengths.sum()))
    return bool(low == high)


def find(cell: Any, x: Tensor, *, equal_gaps: bool = False, last: bool = False) -> Runs | None:
    """Returns the compiled kernel that runs `cell` over `x`, or None if it has to run in another way.

    Args:
        cell: The cell.
        x: Its input.
        equal_gaps: Whether all steps have the same gap.
        last: Whether only the y of each last step is needed.

    Raises:
        ValueError: Backend "native" was chosen and the cell cannot be compiled.
    """
    backend = chosen()
    if backend == "torch" or torch.compiler.is_compiling():
        return None
    if triton.takes(x):
        return find_on_gpu(cell, x)
    choice = getattr(cell, "runs_compiled", None)
    if backend == "auto" and not (wants(cell, x, equal_gaps, last) if choice is None else choice):
        return None
    dtype = torch.float32 if autocasts(x) else x.dtype  # under autocast, kernels compute in float32
    reason = why_hooked(cell) or why_not(x.new_empty(0, dtype=dtype))
    if reason is None:
        from ._compiled import kernel_of
        from ._recorded import Unsupported

        try:
            with torch.autocast("cpu", enabled=False) if autocasts(x) else nullcontext():
                return kernel_of(cell, dtype, equal_gaps=equal_gaps, last=last)
        except Unsupported as error:
            reason = str(error)
    if backend == "native":
        raise ValueError(
            f"backend 'native' was chosen, but {type(cell).__name__} has no kernel for these settings and cannot be "
            f"compiled: {reason}. Choose backend 'auto' or 'torch'."
        )
    note = f"{type(cell).__name__} runs as a loop: {reason}."
    if note not in _noted and choice:
        _noted.add(note)
        warnings.warn(note, stacklevel=2)
    return None


def bind(cell: Any, x: Tensor, dt: Tensor, before: State, after: State) -> Bound | None:
    """Binds one step of `cell` to fixed arrays, as `Kernel.bind` does; None if it has to run in another way.

    Args:
        cell: The cell.
        x: `(B, D)`, read at each call.
        dt: `(B, 1)`, read at each call.
        before: Parts of the state before the step, `(1, B, size)`, contiguous.
        after: Those after it.
    """
    kernel = None if triton.takes(x) else find(cell, x)
    return None if kernel is None else cast("Compiled", kernel).bind(cell, x, dt, before, after)
