"""The kernels that run on a GPU, written in Triton: UnICORNN's layers and the element-wise recurrences.

They implement the operators of `_unicornn.py` and `_elementwise.py` for CUDA tensors (and ROCm tensors, which have the
same device name in torch). The other modules of this package need triton; this one does not.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from torch import Tensor

from ...system import lazy

if TYPE_CHECKING:
    from ._compile import TARGETS, compile_for, variants
    from ._steps import tiles

TILE = 32
"""Elements per program: one warp with one element per thread, because there are only B x H elements."""
CHUNK = 8
"""Steps that a kernel unrolls; if UnICORNN's forces are kept, so are its states at this interval."""
SEGMENT = 128
"""Steps between two kept states of UnICORNN if the forces are not kept; a multiple of the chunk."""
INSTALL = "pip install 'chronode[gpu]'"
"""Command that installs triton."""


def takes(x: Tensor) -> bool:
    """Returns whether `x` is on a device that these kernels support; ROCm devices have the same name."""
    return x.device.type == "cuda"


def installed() -> bool:
    """Returns whether the package triton is installed."""
    return importlib.util.find_spec("triton") is not None


__getattr__, __dir__, __all__ = lazy(__name__)
__all__ += ["CHUNK", "INSTALL", "SEGMENT", "TILE", "installed", "takes"]
