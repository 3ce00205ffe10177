"""chronode: recurrent networks that keep time.

>>> import torch, chronode
>>> layer = chronode.create("ltc", input_size=7, hidden_size=16)
>>> x, dt = torch.randn(4, 20, 7), torch.rand(4, 20)
>>> y, state = layer(x, dt=dt, lengths=[20, 11, 5, 20])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import compiler, nn
    from .kernels import backend
    from .nn.registry import Model, create, models, register

__all__ = ["Model", "__version__", "backend", "compiler", "create", "models", "nn", "register"]

_MODULES = ("analysis", "compiler", "data", "estimators", "nn", "tasks", "testing", "training")
_HOMES = {"backend": "kernels"}
_HOMES |= dict.fromkeys(("Model", "create", "models", "register"), "nn.registry")
_HOMES |= dict.fromkeys(("SequenceClassifier", "SequenceForecaster", "SequenceRegressor"), "estimators")


def __getattr__(name: str) -> Any:
    """Everything is imported when it is first used, so that the command line can answer before torch is there."""
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module 'chronode' has no attribute {name!r}")
