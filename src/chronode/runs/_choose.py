"""Configs that leave the model or the number of epochs to a race, completed with its result."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, replace
from typing import Any

from ..judge import Candidate, Race, auto_settings, can_race, candidates_for, pools_for, race
from ..training import AUTO, Event, Settings, forecast_settings
from ._config import Config, ModelConfig
from ._prepare import Prepared, prepared_for

FALLBACK = "mmrnn"
"""Model where a race is not possible: forecasts, targets at every step, symbols, very few series."""


def leaves_choice(config: Config) -> bool:
    """Returns whether a race has to complete the config."""
    return config.model.model == AUTO or bool(config.training.refit)


def with_named_model(config: Config) -> Config:
    """Returns the config with the usual model if it leaves the choice open: for searches over the settings of one."""
    return config.with_values({"model": {"model": FALLBACK}}) if config.model.model == AUTO else config


def with_forecast_defaults(config: Config, free: Collection[str], prepared: Prepared | None = None) -> Config:
    """Returns the config of a forecast from windows with the defaults of forecasts; other configs are not changed.

    Args:
        config: The config.
        free: Names of settings that the user did not give, which may be changed.
        prepared: Its series; None: `prepared_for` it.
    """
    if not config.data.forecast or config.data.per_step:
        return config
    train = (prepared or prepared_for(with_named_model(config))).parts.train
    return replace(config, training=forecast_settings(config.training, free, len(train)))


def free_names(config: Config) -> set[str]:
    """Returns the settings of model and training that have their defaults, which a race may change.

    Example:
        >>> {"hidden", "epochs"} & free_names(Config.from_dict({"training": {"epochs": 3}}))
        {'hidden'}
    """
    pairs = ((config.model, ModelConfig()), (config.training, Settings()))
    return {f.name for own, usual in pairs for f in fields(own) if getattr(own, f.name) == getattr(usual, f.name)}


def choose(
    config: Config,
    prepared: Prepared,
    *,
    free: Collection[str] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> tuple[Config, Race | None]:
    """Returns the config with a model and settings, and the race that chose them; None if there was none.

    Args:
        config: A config with the model "auto", or with `refit`.
        prepared: Its series.
        free: Names of settings that the user did not give; by default those with default values.
        on_event: Called with a Note for each candidate.

    Example:
        >>> from chronode.runs._prepare import prepare
        >>> few = {"train": 64, "valid": 16, "test": 16}
        >>> asked = Config.from_dict({"data": {"source": "bitstream", "options": few}, "training": {"epochs": 1}})
        >>> chosen, found = choose(asked, prepare(asked))
        >>> chosen.model.model in [entry.name.split()[0] for entry in found.entries]
        True
    """
    free = free_names(config) if free is None else free
    parts, auto = prepared.parts, config.model.model == AUTO
    windows = prepared.reading is not None and bool(prepared.reading.horizon)
    if windows or not leaves_choice(config) or not can_race(parts.train, parts.valid):
        return _without_race(with_forecast_defaults(config, free, prepared), prepared), None
    network = {"hidden_size": config.model.hidden} if "hidden" not in free or not auto else {}
    network |= {"num_layers": config.model.layers} if "layers" not in free or not auto else {}
    network |= config.model.settings
    settings, start = config.training, config.model.start or ("linear" if auto else "none")
    if auto:
        settings = auto_settings(settings, free, len(parts.train) + len(parts.valid))
    candidates = [Candidate(config.model.model, network)]
    if auto:
        candidates = candidates_for(parts.train, network, small=bool(settings.refit))
    missing = config.model.missing if prepared.reading is None else prepared.reading.missing
    options: dict[str, Any] = {"budget": config.model.budget, "missing": missing, "on_event": on_event}
    options["pools"] = pools_for(network) if auto else ()
    found = race(parts, prepared.objective, settings, candidates, start=start, free=free, **options)
    return _with_winner(config, found, start), found


def _with_winner(config: Config, found: Race, start: str) -> Config:
    own = dict(found.winner.network)
    size = {"hidden": own.pop("hidden_size", config.model.hidden), "layers": own.pop("num_layers", config.model.layers)}
    model = {"model": found.winner.model, **size, "settings": own, "start": start}
    return config.with_values({"model": model, "training": found.settings.as_dict()})


def _without_race(config: Config, prepared: Prepared) -> Config:
    """The usual model, with a linear start if the series are numbers; in pieces, only targets per step have one."""
    if config.model.model != AUTO:
        return config
    train, start = prepared.parts.train, config.model.start
    numbers = train.base_values.dtype.kind == "f"
    suits = numbers and (prepared.objective.per_step or not config.training.tbptt)
    if start is None and suits and not config.data.forecast:  # a forecast has a start of its own
        start = "linear"
    return config.with_values({"model": {"model": FALLBACK, "start": start}})
