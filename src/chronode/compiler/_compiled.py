"""Turns a cell into a loaded kernel, once per kind of cell and process."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import torch
from torch import nn

from . import _build as build
from ._emit_cpu import emit
from ._fingerprint import fingerprint
from ._lower import Step, lower
from ._recorded import Unsupported
from ._run import Compiled
from ._trace import keeping_buffers, trace
from ._verify import check

_lock = threading.RLock()
_steps: dict[Any, Step | Unsupported] = {}
_kernels: dict[Any, Compiled | Unsupported] = {}


def step_of(cell: nn.Module) -> Step:
    """Returns the graph of a cell's step.

    Raises:
        Unsupported: It cannot be compiled; the message gives the reason.
    """
    return _step(cell, fingerprint(cell))


def kernel_of(cell: nn.Module) -> Compiled:
    """Returns the kernel that runs exactly this cell, built now unless it is in the cache.

    Raises:
        Unsupported: It cannot be compiled or built; the message gives the reason.
    """
    mark = fingerprint(cell)
    found = _kernels.get(mark)
    if found is None:
        with _lock:
            found = _kernels.get(mark) or _made(cell, mark)
            _kernels[mark] = found
    if isinstance(found, Unsupported):
        raise found
    return found


def is_built(cell: nn.Module) -> bool:
    """Returns whether the cell's kernel is already built."""
    mark = fingerprint(cell)
    return isinstance(_kernels.get(mark), Compiled) or build.is_built(emit(_step(cell, mark), _dtype(cell)).text)


def _step(cell: nn.Module, mark: Any) -> Step:
    with _lock:
        if mark not in _steps:
            try:
                with keeping_buffers(cell):
                    _steps[mark] = lower(_traced(cell))
            except Unsupported as reason:
                _steps[mark] = reason
        found = _steps[mark]
    if isinstance(found, Unsupported):
        raise found
    return found


def _traced(cell: Any) -> Any:
    if _dtype(cell) not in ("float32", "float64"):
        raise Unsupported(f"has parameters of {_dtype(cell)}, not float32 or float64")
    example = next(cell.parameters(), torch.empty(0)).new_zeros(2, 2, cell.input_size)
    with torch.no_grad():
        projected = cell.project_sequence(example, None)
    if projected is None:
        return trace(cell, cell.input_size)
    # A projection in which steps or sequences depend on each other is not part of the step.
    return trace(cell, projected.shape[-1], with_project=False)


def _made(cell: nn.Module, mark: Any) -> Compiled | Unsupported:
    try:
        step = _step(cell, mark)
        source = emit(step, _dtype(cell))
        key = hashlib.sha256(f"{source.text}{step.traced.captured}{step.traced.prefix.code}".encode()).hexdigest()[:16]
        kernel = Compiled(key, step, source, build.load(source.text))
        with keeping_buffers(cell):
            check(cell, kernel)
        return kernel
    except build.BuildError as error:
        return Unsupported(str(error))
    except Unsupported as reason:
        return Unsupported(f"the step {reason}")


def _dtype(cell: nn.Module) -> str:
    return str(next(cell.parameters(), torch.empty(0)).dtype).removeprefix("torch.")
