"""chronode: recurrent networks that keep time.

>>> import torch, chronode
>>> layer = chronode.create("ltc", input_size=7, hidden_size=16)
>>> x, dt = torch.randn(4, 20, 7), torch.rand(4, 20)
>>> y, state = layer(x, dt=dt, lengths=[20, 11, 5, 20])
"""

import importlib
from typing import Any

from . import nn
from ._version import __version__
from .kernels import backend
from .nn.registry import Model, create, models, register

__all__ = ["Model", "__version__", "backend", "create", "models", "nn", "register"]


_MODULES = ("analysis", "data", "estimators", "tasks", "testing", "training")
_ESTIMATORS = ("SequenceClassifier", "SequenceForecaster", "SequenceRegressor")


def __getattr__(name: str) -> Any:
    """The larger parts are imported when they are first used."""
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _ESTIMATORS:
        return getattr(importlib.import_module(".estimators", __name__), name)
    raise AttributeError(f"module 'chronode' has no attribute {name!r}")
