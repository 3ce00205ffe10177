"""Torch on this machine: devices, threads, numbers too small for normal floats, and optimizers that start fast."""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch.optim import Optimizer

from ..settings import SettingError, named, one_of
from ._process import WAIT_SETTINGS

Kind = TypeVar("Kind", bound=Optimizer)

_SMALL = 2**20
_WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")


def cpu_model() -> str:
    """Returns the name of the CPU as given by its manufacturer, or else the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def check_device(argument: str, device: str) -> str:
    """`device` if it is "cpu", or "cuda" and torch sees one."""
    if one_of(argument, device, ("cpu", "cuda")) == "cuda" and not torch.cuda.is_available():
        raise SettingError(
            f"{named(argument, device)}: torch sees no CUDA device on this machine; use 'cpu'.", argument=argument
        )
    return device


def device_for(accelerator: str) -> torch.device:
    """Returns the device that `Settings.accelerator` stands for.

    Raises:
        ValueError: A GPU is asked for, and torch finds none.

    Example:
        >>> device_for("cpu")
        device(type='cpu')
    """
    accelerated = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if accelerator == "gpu" and accelerated == "cpu":
        raise SettingError(
            f"{named('accelerator', 'gpu')}: torch cannot find a GPU on this machine. Use "
            f"{named('accelerator', 'cpu')} or 'auto', or install a build of torch for your GPU.",
            argument="accelerator",
        )
    return torch.device("cpu" if accelerator == "cpu" else accelerated)


# ---- threads ---------------------------------------------------------------------------------------------


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


# ---- numbers and optimizers ------------------------------------------------------------------------------


def are_flushed() -> bool:
    """Returns whether torch rounds numbers below the normal range of floats to 0 in this thread."""
    return not bool(torch.tensor(1e-30) * torch.tensor(1e-10))


@contextmanager
def flushed() -> Iterator[None]:
    """Rounds numbers below the normal range, 1e-38 in float32, to 0 in a block, where the processor can.

    Gradients that vanish over many steps are such numbers, which most processors handle up to 100 times more slowly.

    Example:
        >>> with flushed():
        ...     inside = are_flushed()
        >>> inside, are_flushed()
        (True, False)
    """
    for dtype in (np.float32, np.float64):  # inside, the first call for a dtype would warn
        np.finfo(dtype)
    before = are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def without_compiler(kind: type[Kind]) -> type[Kind]:
    """Returns an optimizer class whose methods do not import torch's compiler.

    torch wraps the methods of its optimizers for `torch.compile`. At the first call, the wrappers import
    `torch._dynamo`, which takes longer than a short training. The numbers are the same without them.

    Example:
        >>> weight = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = without_compiler(torch.optim.SGD)([weight], lr=0.5)
        >>> (2 * weight).backward()
        >>> optimizer.step()
        >>> weight.item(), isinstance(optimizer, torch.optim.SGD)
        (0.0, True)
    """
    return _plain(kind)


@functools.cache
def _plain(kind: type[Any]) -> Any:
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _WRAPPED}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(methods["step"])})
