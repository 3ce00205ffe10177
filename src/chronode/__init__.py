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
    from . import analysis, baselines, compiler, data, estimators, nn, runs, search, tasks, testing, training
    from ._model import ModelSpec, SequenceModel
    from .estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor
    from .kernels import backend
    from .nn._registry import Model, create, models, register

_MODULES = (
    "analysis",
    "baselines",
    "compiler",
    "data",
    "estimators",
    "nn",
    "runs",
    "search",
    "tasks",
    "testing",
    "training",
)
_HOMES = {
    **dict.fromkeys(("Model", "create", "models", "register"), "nn._registry"),
    **dict.fromkeys(("ModelSpec", "SequenceModel"), "_model"),
    **dict.fromkeys(("SequenceClassifier", "SequenceForecaster", "SequenceRegressor"), "estimators"),
    "backend": "kernels",
}

__all__ = [
    "Model",
    "ModelSpec",
    "SequenceClassifier",
    "SequenceForecaster",
    "SequenceModel",
    "SequenceRegressor",
    "__version__",
    "analysis",
    "backend",
    "baselines",
    "compiler",
    "create",
    "data",
    "estimators",
    "models",
    "nn",
    "register",
    "runs",
    "search",
    "tasks",
    "testing",
    "training",
]


def __getattr__(name: str) -> Any:
    """Everything is imported when it is first used, so that the command line can answer before torch is there."""
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module 'chronode' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
