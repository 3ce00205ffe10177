"""Estimators from run folders and packed models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .._version import __version__
from ..data import Reading, Scaler
from ..training import Trained

_BY_KIND = {"class": "SequenceClassifier", "value": "SequenceRegressor"}


def as_estimator(trained: Trained, estimator: str) -> Trained:
    """Returns a trained model with the facts of an estimator; those of a run are completed.

    Args:
        trained: The model.
        estimator: Name of the class of the estimator.

    Raises:
        ValueError: The model is not that of such an estimator.
    """
    reading, objective = trained.reading, trained.objective
    if reading is None or objective.per_step or (reading.window and not reading.horizon):
        raise ValueError("the model does not make one prediction per series of a file: use chronode.load.")
    kind = "SequenceForecaster" if reading.horizon else _BY_KIND[objective.kind]
    stored = trained.facts.get("estimator", {"estimator": kind})
    if isinstance(stored, dict) and isinstance(name := stored.get("estimator"), str) and name != estimator:
        raise ValueError(f"this is a {name}: use {name}.load.")
    if "estimator" in trained.facts:
        return trained
    scaler = _scaler(trained, reading)
    objective, reading = replace(objective, scaler=scaler), replace(reading, scaler=scaler)
    facts = {**trained.facts, "estimator": _facts_of(trained, reading, estimator)}
    return replace(trained, objective=objective, reading=reading, facts=facts)


def _facts_of(trained: Trained, reading: Reading, estimator: str) -> dict[str, Any]:
    """Returns the facts that an estimator with the model of a run would save."""
    objective, spec = trained.objective, trained.spec
    assert spec is not None
    arguments = {"model": spec.model, "hidden_size": spec.hidden_size, "num_layers": spec.num_layers}
    arguments |= {"missing": spec.missing, "settings": dict(spec.settings) or None}
    facts = {"estimator": estimator, "chronode": __version__, "arguments": arguments}
    facts |= {"history": [], "best_epoch": 0, "notes": []}
    if reading.horizon:
        names = {"horizon": reading.horizon, "channels": reading.forecast_channels, "window": reading.window}
        names |= {"known": reading.known or None, "calendar": bool(reading.calendar)}
        levels = {"intervals": trained.levels()} if trained.levels() else {}
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
