"""chronode: recurrent networks that keep time.

>>> import torch, chronode
>>> layer = chronode.create("ltc", input_size=7, hidden_size=16)
>>> x, dt = torch.randn(4, 20, 7), torch.rand(4, 20)
>>> y, state = layer(x, dt=dt, lengths=[20, 11, 5, 20])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__
from .system import lazy

if TYPE_CHECKING:
    from . import (
        compiler,
        data,
        estimators,
        hub,
        judge,
        lab,
        mlflow,
        model,
        nn,
        runs,
        search,
        serve,
        stream,
        testing,
        training,
    )
    from .estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor
    from .export import export
    from .kernels import backend
    from .model import ModelSpec, SequenceModel
    from .nn import Model, create, models, register
    from .runs import load, score
    from .stream import Stream

__getattr__, __dir__, __all__ = lazy(__name__)
__all__ += ["__version__"]
