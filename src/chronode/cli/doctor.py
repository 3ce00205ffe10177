"""`chronode doctor`: what is in use, and why."""

from __future__ import annotations

import platform
import sys

import torch
from rich.console import Console

from .. import __version__
from ..kernels._backend import chosen
from ..kernels._library import available_isas, status
from ..nn._registry import models


def run_doctor() -> None:
    """Prints versions, the kernels in use, and which settings of which models have one."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"chronode {__version__}, Python {sys.version.split()[0]}, torch {torch.__version__}")
    console.print(f"machine: {platform.machine()}, {torch.get_num_threads()} threads")
    console.print(status())
    built = ", ".join(available_isas()) or "none"
    console.print(f"backend: {chosen()} (CHRONODE_BACKEND or chronode.backend); kernels this CPU can run: {built}")
    console.print("native kernels, float32 and float64 on the CPU; everything else runs on torch:")
    for name, model in models().items():
        if settings := model.kernel():
            console.print(f"  {name}: {settings}")
