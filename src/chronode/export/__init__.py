"""Export of trained models: C99, ONNX and torch.export.

The package is callable: `chronode.export(model, folder, ...)` calls `export`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ._deployment import Graph, Series
from ._export import Exported, Exporter, check_options, export, register_exporter

__all__ = ["Exported", "Exporter", "Graph", "Series", "check_options", "export", "register_exporter"]


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Exported:
        return export(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
