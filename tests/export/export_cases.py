"""Models ready to be exported: of every kind, with scaling, missing values and gaps."""

from __future__ import annotations

from typing import Any

import torch

import chronode
from chronode import ModelSpec, SequenceModel
from chronode.data import Scaler
from chronode.export._pipeline import Deployment

MODELS = sorted(chronode.models())
SCALER = Scaler(("pulse", "temp", "spO2"), (70.0, 36.6, 0.96), (12.0, 0.5, 0.02), dt=2.0)
CLASSES = ("well", "ill", "very ill", 'the "rest" ?')


def built(name: str, hidden: int = 8, **settings: Any) -> SequenceModel:
    """A model with noise on its weights, so that no parameter hides behind an initial 0."""
    torch.manual_seed(0)
    spec = ModelSpec(name, len(SCALER.channels), len(CLASSES), hidden_size=hidden, **{"missing": True, **settings})
    model = SequenceModel.build(spec).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def deployed(name: str, hidden: int = 8, **settings: Any) -> Deployment:
    """A classifier with everything around it."""
    return Deployment.of_model(built(name, hidden, **settings), classes=CLASSES, scaler=SCALER, unit="minute")
