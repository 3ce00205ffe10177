"""The library for files of weights, which is imported at first use."""

from __future__ import annotations

from typing import Any


def safetensors() -> Any:
    """Imports safetensors, with its functions for torch.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    try:
        import safetensors.torch
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "safetensors":
            raise
        raise ImportError("models in files need safetensors: pip install 'chronode[predict]'") from None
    return safetensors
