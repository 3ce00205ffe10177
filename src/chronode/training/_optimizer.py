"""The optimizer that the settings describe."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..system import without_compiler
from ._settings import Settings


def make_optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Returns the optimizer of the trained parameters; the model must already be on its device."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    options: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer in ("sgd", "rmsprop"):
        options["momentum"] = settings.momentum
    if settings.optimizer == "rmsprop":
        options["alpha"] = settings.smoothing
    makers = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    makers |= {"sgd": torch.optim.SGD, "rmsprop": torch.optim.RMSprop}
    return without_compiler(makers[settings.optimizer])(parameters, **options)
