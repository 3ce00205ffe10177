"""A native kernel that finds no memory, or no thread, raises MemoryError or works with less; it never ends the process.

The address space of a child is limited to a little more than it has, over a sweep of such margins.
"""

import sys
from pathlib import Path

import pytest
import torch
from children import UNDER_ASAN, in_child
from helpers import batch
from kernel_cases import CASES, make, native_calls

from chronode.kernels import _library as library
from chronode.kernels import elementwise, ops

pytestmark = [
    pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space are Linux's"),
    pytest.mark.skipif(UNDER_ASAN, reason="AddressSanitizer reserves terabytes of address space"),
]

EXACT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
"""Environment in which the C library has no memory in reserve."""

MARGINS = [2**power for power in range(13, 28)]
"""Bytes, from 8 KiB to 128 MiB."""


def limited(margin):
    """Leaves the process this much more address space than it uses now; None: any."""
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard if margin is None else used + margin, hard))


def large_calls(name):
    """Calls whose work arrays are large, in few steps."""
    inputs, hidden, size = (1, 30_000, 4) if CASES[name].module is elementwise else (40, 260, 70)
    layer = make(name, inputs, hidden, torch.float32)
    return native_calls(layer, *batch(layer, size, 2, torch.float32))


def outcomes(name, threads=2):
    """Returns the outcome of each call of that case with each margin: "done" or the message of its MemoryError."""
    torch.set_num_threads(threads)
    for kernel, *arguments in large_calls(name):
        for margin in MARGINS:
            limited(margin)
            try:
                ops.call(kernel, *arguments)
                found = "done"
            except MemoryError as error:
                found = str(error)
            finally:
                limited(None)
            yield kernel, found


def test_a_kernel_without_memory_raises():
    code = """
from test_memory import CASES, outcomes
for name in CASES:
    for kernel, found in outcomes(name): print(name, kernel, found, sep="|", flush=True)
"""
    lines = [line.split("|") for line in in_child(code, **EXACT).splitlines()]
    assert {name for name, _, _ in lines} == set(CASES)
    failed = [(kernel, text) for _, kernel, text in lines if text != "done"]
    for kernel, text in failed:
        assert (
            text.startswith(f"out of memory: the native kernel {kernel} could not allocate ") and "the shape (" in text
        )
    assert {kernel for kernel, _ in failed} == {kernel for _, kernel, _ in lines}, "the smallest margin is not enough"
    assert all(lines[i][2] == "done" for i in range(len(MARGINS) - 1, len(lines), len(MARGINS)))


def results_without_threads(name):
    """Whether a call gives the same when none of the threads that it asks for can be started."""
    torch.set_num_threads(1)
    calls = large_calls(name)
    same = True
    for kernel, dtype, *arguments in calls:
        before = [argument.clone() for argument in arguments if isinstance(argument, torch.Tensor)]
        torch.set_num_threads(4)
        limited(5 * 2**20)  # less than a thread's stack
        try:
            ops.call(kernel, dtype, *arguments)
        except MemoryError:
            pass  # its work arrays, which is not the question
        finally:
            limited(None)
        after = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        same = same and all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    return same


def test_a_kernel_without_threads_works_alone():
    code = "from test_memory import results_without_threads as run\nprint(run('indrnn'), run('unicornn-fast'))"
    assert in_child(code, **EXACT).split() == ["True", "True"]


def advice():
    """Returns the message of a training that runs out of memory inside a kernel."""
    from chronode.data import from_numpy
    from chronode.model._spec import ModelSpec
    from chronode.training import Settings, TrainingStopped, fit

    data = from_numpy(torch.randn(64, 20, 4).numpy(), order="NTD", target=(torch.arange(64) % 2).numpy())
    spec = ModelSpec.for_data(data, "unicornn", hidden_size=400)
    call = ops.call

    def small(kernel, *arguments):
        if kernel == "unicornn_backward":
            limited(2**12)
        try:
            call(kernel, *arguments)
        finally:
            limited(None)

    ops.call = small  # pyrefly: ignore
    try:
        fit(data, spec, Settings(epochs=1, batch_size=16))
    except TrainingStopped as error:
        return f"{type(error.__cause__).__name__}: {error}"
    return "nothing"


def test_training_says_which_batch_size_to_try():
    found = in_child("from test_memory import advice\nprint(advice())", **EXACT)
    assert found.startswith("MemoryError") and "try batch_size=8 (it is 16)" in found
