"""The kernels that run on a GPU, written in Triton: UnICORNN's layers and the element-wise recurrences.

They stand behind the operators of `_unicornn.py` and `_elementwise.py`, for CUDA tensors (and
those of ROCm, which torch calls by the same name). The modules beside this one need the package triton; this one does
not.
"""

from __future__ import annotations

import importlib.util

from torch import Tensor

TILE = 32
"""Elements that a program takes: one for each thread of a warp, and one warp, because B x H elements are few."""
CHUNK = 8
"""Steps that a kernel unrolls: UnICORNN's states are kept that often if the forces are."""
SEGMENT = 128
"""Steps of UnICORNN, whole chunks, between two kept states if the forces are not kept."""
INSTALL = "pip install 'chronode[gpu]'"
"""What installs triton."""


def takes(x: Tensor) -> bool:
    """Returns whether `x` is where these kernels run; ROCm's devices are called the same."""
    return x.device.type == "cuda"


def installed() -> bool:
    """Returns whether the package triton is there."""
    return importlib.util.find_spec("triton") is not None
