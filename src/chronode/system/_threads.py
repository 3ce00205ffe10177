"""The number of torch's threads within a block, and how they wait for work."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ._process import WAIT_SETTINGS

_SMALL = 2**20


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Sets the number of torch's threads in a block; None leaves it.

    Example:
        >>> with threads(1):
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_for(numbers: int) -> int | None:
    """Returns 1 for many small operations on so many numbers, otherwise None.

    On a busy machine, threads of a small operation wait for one another much longer than it takes.
    """
    return 1 if numbers < _SMALL else None


@contextmanager
def patient() -> Iterator[None]:
    """Lets torch's threads sleep between operations in a block, instead of waiting busily for milliseconds.

    On a busy machine a thread that waits busily keeps the core that the one it waits for needs: a training step took 20
    times as much CPU time. How threads wait is read from the environment when torch is loaded. But libgomp, the OpenMP
    of torch's builds for Linux, waits briefly while it has more threads than there are processors: here it has some
    that never get work. With another OpenMP, or where the environment says how to wait, nothing happens.

    Example:
        >>> with patient():
        ...     float(torch.ones(3).sum())
        3.0
    """
    parallel = None if any(name in os.environ for name in WAIT_SETTINGS) else _openmp()
    idle = _processors() - torch.get_num_threads() + 2  # the first of a team is counted only once for all teams
    if torch.get_num_threads() == 1 or parallel is None or not _can_start(idle):
        yield
        return
    started, over = threading.Event(), threading.Event()

    def park() -> None:
        parallel(ctypes.CDLL(None).free, None, idle, 0)  # each thread frees nothing
        started.set()
        over.wait()

    helper = threading.Thread(target=park, name="chronode-idle", daemon=True)
    helper.start()
    started.wait()
    try:
        yield
    finally:
        over.set()
        helper.join()


def _openmp() -> Any:
    """Returns what GCC calls for a parallel region, of the OpenMP that torch is linked with, or None."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        entry = ctypes.CDLL(str(library)).GOMP_parallel
    except (OSError, AttributeError):
        return None
    entry.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    entry.restype = None
    return entry


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _can_start(count: int) -> bool:
    """Returns whether so many threads can be started: libgomp ends the process if one cannot."""
    over = threading.Event()
    trial = [threading.Thread(target=over.wait, daemon=True) for _ in range(count)]
    begun = []
    try:
        for thread in trial:
            thread.start()
            begun.append(thread)
    except RuntimeError:
        return False
    finally:
        over.set()
        for thread in begun:
            thread.join()
    return True
