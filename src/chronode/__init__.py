"""chronode: recurrent networks that keep time.

>>> import torch, chronode
>>> layer = chronode.create("ltc", input_size=7, hidden_size=16)
>>> x, dt = torch.randn(4, 20, 7), torch.rand(4, 20)
>>> y, state = layer(x, dt=dt, lengths=[20, 11, 5, 20])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__
from .system._lazy import lazy

if TYPE_CHECKING:
    from . import compiler, data, estimators, hub, nn, runs, search, stream, testing, training
    from . import judge as baselines
    from .estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor
    from .export import export
    from .kernels import backend
    from .lab import analysis, tasks
    from .model._model import SequenceModel
    from .model._spec import ModelSpec
    from .nn._registry import Model, create, models, register
    from .runs._trained import load
    from .stream import Stream

__all__ = [
    "Model",
    "ModelSpec",
    "SequenceClassifier",
    "SequenceForecaster",
    "SequenceModel",
    "SequenceRegressor",
    "Stream",
    "__version__",
    "analysis",
    "backend",
    "baselines",
    "compiler",
    "create",
    "data",
    "estimators",
    "export",
    "hub",
    "load",
    "models",
    "nn",
    "register",
    "runs",
    "search",
    "stream",
    "tasks",
    "testing",
    "training",
]

_MODULES = ("analysis", "baselines", "compiler", "data", "export", "nn", "runs", "search", "tasks", "testing")
__getattr__, __dir__ = lazy(
    __name__,
    {
        **dict.fromkeys((*_MODULES, "hub", "training"), ""),
        "_model": "SequenceModel",
        "_spec": "ModelSpec",
        "estimators": "estimators SequenceClassifier SequenceForecaster SequenceRegressor",
        "kernels": "backend",
        "nn._registry": "Model create models register",
        "runs._trained": "load",
        "stream": "stream Stream",
    },
)
