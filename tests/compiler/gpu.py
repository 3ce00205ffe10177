"""Runs the GPU's kernels in tests: on a GPU if there is one, else on CPU tensors by Triton's interpreter."""

from __future__ import annotations

import os
import sys

import pytest
import torch
from compiled_cases import TOLERANCE, assert_same, by_loop, everything, inputs

from chronode import kernels
from chronode.compiler import _compiled
from chronode.compiler import triton as gpu

needs_triton = pytest.mark.skipif(not gpu.installed(), reason="triton is not installed: use `make test-gpu`")
"""Beside the mark `gpu`, which leaves a test out of `make test`."""
ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
MODELS = [
    *("unicornn", "indrnn", "dense-indrnn", "sru", "decay-gru", "mingru", "minlstm"),
    *("linoss", "d-linoss", "lru", "s5", "s4d"),
]
"""The models whose loop is element-wise."""


@pytest.fixture(scope="module")
def interpreter():
    """Turns on Triton's interpreter, which must be on when triton is first imported and off for the compiler."""
    if not ON_GPU:
        on = os.environ.get("TRITON_INTERPRET") == "1"
        assert on or "triton" not in sys.modules, "triton was imported before: run these tests by `make test-gpu`"
        os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def gpu_kernels(interpreter, monkeypatch):
    """Layers run what they run on a GPU; chunks of time are short, so that short sequences have several."""
    monkeypatch.setenv("CHRONODE_COMPILE", "auto")
    monkeypatch.setattr(gpu, "CHUNK", 2)
    if ON_GPU:
        return
    monkeypatch.setattr(gpu, "TILE", 128)  # the interpreter's time goes by programs, not by their elements
    monkeypatch.setattr(gpu, "takes", lambda x: True)
    monkeypatch.setattr(kernels, "find", lambda cell, x: None)
    monkeypatch.setattr(_compiled, "check", lambda *_: None)  # the tests compare more, and it takes as long as they do


def by_gpu(cell, x, state, dt, plan):
    """The kernel for a GPU."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return _compiled.gpu_kernel_of(cell, dtype).run(cell, x, state, dt, plan)


def moved(x, state, dt, plan):
    """The arguments of a call, on the device of the tests."""
    x, dt, *state = (one.detach().to(DEVICE).requires_grad_() for one in (x, dt, *state))
    lengths = None if plan.lengths is None else plan.lengths.to(DEVICE)
    return x, tuple(state), dt, plan._replace(lengths=lengths)


def check_on_gpu(cell, case, dtype=torch.float64):
    """A cell by kernel against the loop: outputs, last states and all gradients."""
    arguments = moved(*inputs(cell, case, dtype))
    cell.to(DEVICE)
    found = everything(by_gpu, cell, *arguments)
    assert_same(everything(by_loop, cell, *arguments), found, TOLERANCE[dtype])
    return found
