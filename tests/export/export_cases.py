"""Models ready to be exported: of every kind, with scaling, missing values and gaps."""

from __future__ import annotations

from typing import Any

import torch

import chronode
from chronode import ModelSpec, SequenceModel
from chronode.data import Scaler
from chronode.export._deployment import Deployment

MODELS = sorted(chronode.models())
SCALER = Scaler(("pulse", "temp", "spO2"), (70.0, 36.6, 0.96), (12.0, 0.5, 0.02), dt=2.0)
CLASSES = ("well", "ill", "very ill", 'the "rest" ?')


def built(name: str, hidden: int = 8, **settings: Any) -> SequenceModel:
    """A model with noise on its weights, so that no parameter hides behind an initial 0."""
    torch.manual_seed(0)
    options = {"num_outputs": len(CLASSES), "missing": True, **settings}
    spec = ModelSpec(name, len(SCALER.channels), hidden_size=hidden, **options)
    model = SequenceModel.build(spec).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def started(name: str, outputs: int = len(CLASSES), seed: int = 0, **settings: Any) -> SequenceModel:
    """A model with a linear start, whose numbers are at random around those of series like `irregular` draws."""
    size = len(SCALER.channels)
    model = built(name, start={"kind": "summaries", "channels": size}, num_outputs=outputs, **settings)
    assert model.start is not None
    rng = torch.Generator().manual_seed(seed)
    x, dt = torch.randn(50, 80, size, generator=rng), torch.rand(50, 80, generator=rng)
    features = model.start.features(x, dt=dt, observed=torch.rand(50, 80, size, generator=rng) > 0.3)
    mean, std = features.mean(0), features.std(0).clamp(min=0.1)
    weight = 0.1 * torch.randn(len(mean), outputs, generator=rng, dtype=torch.float64)
    bias = torch.randn(outputs, generator=rng, dtype=torch.float64)
    numbers = {
        "mean": mean,
        "std": std,
        "low": mean - 50 * std,
        "high": mean + 50 * std,
        "weight": weight,
        "bias": bias,
    }
    for key, value in numbers.items():
        model.start.get_buffer(key).copy_(value)
    return model


def deployed(name: str, hidden: int = 8, **settings: Any) -> Deployment:
    """A classifier with everything around it."""
    return Deployment.of_model(built(name, hidden, **settings), classes=CLASSES, scaler=SCALER, unit="minute")
