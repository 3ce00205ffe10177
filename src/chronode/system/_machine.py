"""The machine: the CPU that numbers were measured on, and the devices that torch sees."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from ..settings import SettingError, named, one_of


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
    found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if accelerator == "gpu" and found == "cpu":
        raise SettingError(
            f"{named('accelerator', 'gpu')}: torch cannot find a GPU on this machine. Use "
            f"{named('accelerator', 'cpu')} or 'auto', or install a "
            "build of torch for your GPU.",
            argument="accelerator",
        )
    return torch.device("cpu" if accelerator == "cpu" else found)
