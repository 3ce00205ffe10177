"""Compiles cells by itself once it pays: the loop's own time decides, and nothing waits for the C++ compiler.

A cell is traced when its loop has cost as much as tracing, and its kernel is built, in another process, when the loop
of its kind has cost as much as a build: at worst, twice the time is spent. The kernel is used from the next call on.
Where the bits of a result must not depend on when a compiler finished (torch's deterministic mode), nothing changes by
itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..kernels import chosen, has_values, ops, why_not
from ..settings import one_of
from . import build

VARIABLE = "CHRONODE_COMPILE"
_TRACE_SECONDS = 0.25  # the loop of a cell, forward and backward, before the cell is traced: as long as tracing takes
_LOOP_SECONDS = 0.6  # the loop of all cells of its kind before a kernel is built: as long as a build
_WITH_BACKWARD = 3  # forward and backward take this many times as long as the forward pass
_FUSED = 0.3  # share of the time that is gained where the loop is torch's own, such as that of an LSTM


@dataclass
class _Progress:
    """One cell on its way to a kernel.

    Attributes:
        seconds: Time that its loop has taken, with the backward passes.
        building: The build of its kernel, once it was started.
        state: "loop", "building", "compiled", or "never" if it cannot be compiled.
        process: The process that started the build; a forked one does not wait for it.
    """

    seconds: float = 0.0
    building: build.Building | None = None
    state: str = "loop"
    process: int = 0


_lock = threading.Lock()
_progress: weakref.WeakKeyDictionary[Any, _Progress] = weakref.WeakKeyDictionary()
_kinds: defaultdict[tuple[Any, ...], float] = defaultdict(float)  # seconds of all cells of a kind
_noted: set[tuple[Any, ...]] = set()


def mode() -> str:
    """Returns the value of CHRONODE_COMPILE: "off", "auto" (the default) or "now" (at the first call)."""
    return one_of(VARIABLE, os.environ.get(VARIABLE, "auto"), ("off", "auto", "now"))


def wants(cell: Any, x: Tensor, equal_gaps: bool = False, last: bool = False) -> bool:
    """Returns whether a cell for which nothing was chosen runs compiled now."""
    if (choice := mode()) != "auto":
        return choice == "now"
    progress = _progress.get(cell)
    if progress is None or torch.are_deterministic_algorithms_enabled():
        return False
    if progress.state == "compiled":
        return True
    if progress.state == "never" or progress.seconds < _TRACE_SECONDS:
        return False
    with _lock:
        _advance(cell, x, (equal_gaps, last), progress)
    return progress.state == "compiled"


@contextmanager
def timed(cell: Any, x: Tensor, fused: bool) -> Iterator[None]:
    """Counts the time of a loop, with the backward pass that may follow.

    Args:
        cell: The cell.
        x: Its input.
        fused: Whether the loop is torch's own.
    """
    if not _counts(cell, x):
        yield
        return
    start = time.perf_counter()
    yield
    seconds = (time.perf_counter() - start) * (_FUSED if fused else 1.0)
    if ops.needs_backward(x, *cell.parameters()):
        seconds *= _WITH_BACKWARD
    _spend(cell, seconds)


def pays(cell: Any, x: Tensor, seconds: float) -> bool:
    """Counts the time of single steps of a cell, and returns whether it can run compiled now."""
    if not _counts(cell, x):
        return False
    _spend(cell, seconds)
    return wants(cell, x)


def _counts(cell: Any, x: Tensor) -> bool:
    """Returns whether the time of a loop decides how the cell runs."""
    free = getattr(cell, "runs_compiled", None) is None
    return free and chosen() == "auto" and has_values(x) and mode() == "auto"


def _spend(cell: Any, seconds: float) -> None:
    with _lock:
        _progress.setdefault(cell, _Progress()).seconds += seconds
        _kinds[_kind(cell)] += seconds


def _kind(cell: Any) -> tuple[Any, ...]:
    return type(cell), cell.input_size, cell.hidden_size


def _advance(cell: Any, x: Tensor, form: tuple[bool, bool], progress: _Progress) -> None:
    """Takes the next step: a build is started, is waited for no longer, or its kernel is ready."""
    from ._compiled import source_of
    from ._recorded import Unsupported

    if why_not(x) is not None:
        return
    try:
        if progress.building is None:
            source = source_of(cell, x.dtype, *form)
            if build.is_built(source):
                progress.state = "compiled"
            elif _kinds[_kind(cell)] >= _LOOP_SECONDS:
                progress.building, progress.process = build.Building(source), os.getpid()
                progress.state = "building"
        elif progress.process == os.getpid() and progress.building.is_done():
            progress.state = "compiled"
    except (Unsupported, build.BuildError):
        progress.state = "never"
    if progress.state == "compiled" and _kind(cell) not in _noted:
        _noted.add(_kind(cell))
        print(
            f"chronode: {type(cell).__name__} runs compiled from here on, with the same results up to rounding "
            f"({VARIABLE}=off turns this off).",
            file=sys.stderr,
        )
