"""Estimators saved by earlier versions of chronode."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..data import Clock, LikeOptions, Reading, Scaler
from ..model import SequenceModel
from ..storage import parse


@dataclass(frozen=True)
class _Parts:
    """Fields that earlier versions stored instead of a Reading; channels and window are those of a forecast."""

    scaler: Scaler
    options: LikeOptions
    roles: dict[str, str]
    clock: Clock
    channels: tuple[str, ...] = ()
    window: int = 0


def upgraded(facts: dict[str, Any], model: SequenceModel) -> dict[str, Any]:
    """Returns the content of an estimator.json as this version writes it."""
    if "reading" in facts or "scaler" not in facts:
        return facts
    names = {field.name for field in fields(_Parts)}
    parts: _Parts = parse(_Parts, {name: value for name, value in facts.items() if name in names})
    assert model.spec is not None
    if parts.channels and model.spec.relative is None:
        raise ValueError(
            "this forecaster was saved by an earlier version of chronode, which learned changes from step to step: "
            "fit it again."
        )
    reading = Reading(
        options={**parts.options, **parts.roles},
        target=(),
        channels=parts.scaler.channels,
        unit=parts.clock.unit,
        unit_size=parts.clock.scale,
        dates=parts.clock.dates,
        gap=None,
        missing=model.spec.missing,
        horizon=len(parts.scaler.targets) // len(parts.channels) if parts.channels else 0,
        forecast_channels=parts.channels,
        window=parts.window,
        scaler=parts.scaler,
    )
    return {**{name: value for name, value in facts.items() if name not in names}, "reading": reading.as_dict()}
