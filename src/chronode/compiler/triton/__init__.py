"""Kernels for a GPU, emitted as Triton: element-wise loops over time and their backward passes.

`_emit` needs no triton; the other modules of this package do.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from torch import Tensor

from ...system import lazy

if TYPE_CHECKING:
    from ._emit import Source, emit
    from ._launch import OnGpu, tiles
    from ._resources import TARGETS, compile_for, variants

TILE = 32
"""Elements per program: one warp with one element per thread, because there are only B x U elements."""
CHUNK = 8
"""Steps that a kernel unrolls, if it has few loads."""
INSTALL = "pip install 'chronode[gpu]'"
"""Command that installs triton."""


def takes(x: Tensor) -> bool:
    """Returns whether `x` is on a device that these kernels support; ROCm devices have the same name."""
    return x.device.type == "cuda"


def installed() -> bool:
    """Returns whether the package triton is installed."""
    return importlib.util.find_spec("triton") is not None


__getattr__, __dir__, __all__ = lazy(__name__)
__all__ += ["CHUNK", "INSTALL", "TILE", "installed", "takes"]
