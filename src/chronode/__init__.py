"""chronode: recurrent networks that keep time.

>>> import torch, chronode
>>> layer = chronode.create("ltc", input_size=7, hidden_size=16)
>>> x, dt = torch.randn(4, 20, 7), torch.rand(4, 20)
>>> y, state = layer(x, dt=dt, lengths=[20, 11, 5, 20])
"""

import importlib
from types import ModuleType

from . import nn
from ._version import __version__
from .kernels import backend
from .nn.registry import Model, create, models, register

__all__ = ["Model", "__version__", "backend", "create", "models", "nn", "register"]


def __getattr__(name: str) -> ModuleType:
    """The larger parts are imported when they are first used."""
    if name in ("analysis", "data", "tasks", "testing", "training"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'chronode' has no attribute {name!r}")
