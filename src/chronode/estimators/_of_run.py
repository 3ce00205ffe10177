"""Estimators from run folders and packed models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from .._version import __version__
from ..data import Reading, Scaler
from ..runs import Trained

_BY_KIND = {"class": "SequenceClassifier", "value": "SequenceRegressor"}


def is_run(path: Path) -> bool:
    """Returns whether `path` is a run folder or a file, rather than a folder written by `save`."""
    return path.is_file() or (path / "run.json").is_file()


def facts_of(trained: Trained, estimator: str) -> dict[str, Any]:
    """Returns the facts that an estimator with this model would save.

    Args:
        trained: The model of a run.
        estimator: Name of the class of the estimator.

    Raises:
        ValueError: The model is not that of such an estimator.
    """
    reading, objective, spec = trained.reading, trained.objective, trained.model.spec
    assert spec is not None
    if reading is None or objective.per_step or (reading.window and not reading.horizon):
        raise ValueError("the model does not make one prediction per series of a file: use chronode.load.")
    own = "SequenceForecaster" if reading.horizon else _BY_KIND[objective.kind]
    if estimator != own:
        raise ValueError(f"this is a {own}: use {own}.load.")
    arguments = {"model": spec.model, "hidden_size": spec.hidden_size, "num_layers": spec.num_layers}
    arguments |= {"missing": spec.missing, "settings": dict(spec.settings) or None}
    facts = {
        "estimator": estimator,
        "chronode": __version__,
        "arguments": arguments,
        "reading": replace(reading, scaler=_scaler(trained, reading)).as_dict(),
        "history": [],
        "best_epoch": 0,
        "notes": [],
    }
    if reading.horizon:
        names = {"horizon": reading.horizon, "channels": reading.forecast_channels, "window": reading.window}
        names |= {"known": reading.known or None, "calendar": bool(reading.calendar)}
        levels = {"intervals": trained.config.data.intervals} if trained.config.data.intervals else {}
        return facts | {"arguments": {**arguments, **names, **levels}}
    if objective.classes is None:
        return facts | {"flat": objective.num_outputs == 1}
    labels = _labels(objective.classes)
    positive = None if objective.positive is None else labels["classes"][objective.positive_number]
    return facts | labels | {"positive": positive}


def _labels(classes: tuple[str, ...]) -> dict[str, Any]:
    """Returns the classes as labels: whole numbers if all of them are, else text."""
    if all(name.removeprefix("-").isdecimal() for name in classes):
        return {"classes": [int(name) for name in classes], "label_type": "<i8"}
    return {"classes": list(classes), "label_type": "U"}


def _scaler(trained: Trained, reading: Reading) -> Scaler:
    """Returns the scaling of channels and targets; without one, values stay as they are."""
    count = len(reading.channels)
    scaler = reading.scaler or Scaler(reading.channels, (0.0,) * count, (1.0,) * count)
    if trained.objective.classes is not None or scaler.targets:
        return scaler
    names = trained.output_names()
    return replace(scaler, targets=names, target_mean=(0.0,) * len(names), target_std=(1.0,) * len(names))
