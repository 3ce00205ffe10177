"""Runs the GPU's kernels in tests: on a GPU if there is one, else on CPU tensors by Triton's interpreter."""

from __future__ import annotations

import os
import sys

import pytest
import torch

from chronode import kernels
from chronode.kernels import elementwise as _elementwise
from chronode.kernels import triton as gpu
from chronode.kernels import unicornn as _unicornn

needs_triton = pytest.mark.skipif(not gpu.installed(), reason="triton is not installed: use `make test-gpu`")
"""Beside the mark `gpu`, which leaves a test out of `make test`."""
ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
MODELS = ["unicornn-fast", "unicornn-auto", "unicornn-low", "indrnn", "dense-indrnn", "sru"]
"""The cases of kernel_cases.py that have a kernel for a GPU."""
_OPERATORS = (
    _unicornn.unicornn_forward,
    _unicornn.unicornn_backward,
    _elementwise.elementwise_forward,
    _elementwise.elementwise_backward,
)


@pytest.fixture(scope="module")
def interpreter():
    """Turns on Triton's interpreter, which must be on when triton is first imported and off for the compiler."""
    if not ON_GPU:
        on = os.environ.get("TRITON_INTERPRET") == "1"
        assert on or "triton" not in sys.modules, "triton was imported before: run these tests by `make test-gpu`"
        os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def gpu_kernels(interpreter, monkeypatch):
    """The operators run what they run on a GPU; chunks of time are short, so that short sequences have several."""
    monkeypatch.setattr(gpu, "CHUNK", 2)
    monkeypatch.setattr(gpu, "SEGMENT", 4)
    if ON_GPU:
        return
    monkeypatch.setattr(gpu, "TILE", 128)  # the interpreter's time goes by programs, not by their elements
    for operator in _OPERATORS:
        monkeypatch.setitem(operator.kernels, "cpu", operator.kernels["cuda"])
    monkeypatch.setattr(gpu, "takes", lambda x: True)
    monkeypatch.setattr(kernels, "why_not", lambda x, gpu: None)  # 16-bit numbers, which the CPU's kernels do not take
