"""The machine that numbers were measured on."""

from __future__ import annotations

import platform
from pathlib import Path


def cpu_model() -> str:
    """Returns the name of the CPU as given by its manufacturer, or else the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
