"""How the tests run the GPU's kernels: on a GPU if there is one, else on CPU tensors by Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch

from chronode import kernels
from chronode.kernels import _elementwise, _unicornn
from chronode.kernels import triton as gpu

needs_triton = pytest.mark.skipif(not gpu.installed(), reason="triton is not installed: pip install 'chronode[gpu]'")
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

if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported, which is at their first call


@pytest.fixture
def gpu_kernels(monkeypatch):
    """The operators run what they run on a GPU; chunks of time are short, so that short sequences have several."""
    monkeypatch.setattr(gpu, "CHUNK", 2)
    monkeypatch.setattr(gpu, "SEGMENT", 4)
    if ON_GPU:
        return
    for operator in _OPERATORS:
        monkeypatch.setitem(operator.kernels, "cpu", operator.kernels["cuda"])
    monkeypatch.setattr(gpu, "takes", lambda x: True)
    monkeypatch.setattr(kernels, "why_not", lambda x, gpu: None)  # 16-bit numbers, which the CPU's kernels do not take
