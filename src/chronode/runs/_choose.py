"""From a config to a training: what the user left open is chosen, by a race if need be, and the network is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..judge import AUTO_START, Candidate, Race, can_race, candidates_for, pools_for, race
from ..model import ModelSpec
from ..settings import SettingError, SettingTypeError, error_at, named
from ..training import AUTO, Assembly, Event, Settings, assemble, completed, is_short, spec_for
from ._config import Config
from ._prepare import Prepared

FALLBACK = "mmrnn"
"""Model where a race is not possible: forecasts, targets at every step, symbols, very few series."""
_SIZES = {"hidden_size": 64, "num_layers": 1}


def with_named_model(config: Config) -> Config:
    """Returns the config with the usual model if it leaves the choice open: for searches over the settings of one."""
    return config.with_values({"model": {"model": FALLBACK}}) if config.model.model == AUTO else config


def choose(
    config: Config, prepared: Prepared, *, on_event: Callable[[Event], None] | None = None
) -> tuple[Config, Race | None]:
    """Returns the config with values for all that it left open, and the race that chose them; None if there was none.

    Args:
        config: The config.
        prepared: Its series.
        on_event: Called with a Note for each candidate.

    Example:
        >>> from chronode.runs._prepare import prepare
        >>> few = {"train": 64, "valid": 16, "test": 16}
        >>> asked = Config.from_dict({"data": {"source": "bitstream", "options": few}, "training": {"epochs": 1}})
        >>> chosen, found = choose(asked, prepare(asked))
        >>> chosen.model.model in [entry.name.split()[0] for entry in found.entries]
        True
    """
    parts, own, auto = prepared.parts, config.model, config.model.model == AUTO
    settings = replace(config.training, refit=True) if prepared.refit else config.training
    windows = prepared.reading is not None and bool(prepared.reading.horizon)
    if windows or not (auto or settings.refit) or not can_race(parts.train, parts.valid):
        if windows and auto and own.start != "none" and settings.epochs == Settings().epochs and is_short(parts.train):
            settings = replace(settings, epochs=0)  # the linear start alone
        return _completed(_without_race(config, prepared), prepared, settings), None
    network = {name: size for name in _SIZES if (size := getattr(own, name)) is not None} | own.settings
    candidates = candidates_for(parts.train, network, small=bool(settings.refit)) if auto else []
    start = own.start or (AUTO_START if auto else "none")
    missing = own.missing if prepared.reading is None else prepared.reading.missing
    options: dict[str, Any] = {"budget": own.budget, "missing": missing, "on_event": on_event, "start": start}
    options["pools"] = pools_for(network) if auto else ()
    result = race(parts, prepared.objective, settings, candidates or [Candidate(own.model, network)], **options)
    chosen = dict(result.winner.network)
    sizes = {name: chosen.pop(name, size) for name, size in _SIZES.items()}
    model = {"model": result.winner.model, **sizes, "settings": chosen, "start": start}
    return _completed(config.with_values({"model": model}), prepared, result.settings), result


def _completed(config: Config, prepared: Prepared, settings: Settings) -> Config:
    sizes: dict[str, Any] = {name: getattr(config.model, name) or size for name, size in _SIZES.items()}
    windows = prepared.reading is not None and prepared.reading.relative is not None
    training = completed(settings, prepared.parts, windows=windows)
    training = replace(training, metric=training.metric or prepared.objective.metric)
    return replace(config, model=replace(config.model, **sizes), training=training)


def _without_race(config: Config, prepared: Prepared) -> Config:
    """The usual model, with a linear start if the series are numbers; in pieces, only targets per step have one."""
    if config.model.model != AUTO:
        return config
    train, start = prepared.parts.train, config.model.start
    numbers = train.base_values.dtype.kind == "f"
    suits = numbers and (prepared.objective.per_step or not config.training.tbptt)
    if start is None and suits and not config.data.horizon:  # a forecast has a start of its own
        start = "linear"
    return config.with_values({"model": {"model": FALLBACK, "start": start}})


def spec_of(config: Config, prepared: Prepared, model: str) -> ModelSpec:
    """Returns the spec of the configured model, or of another model (a baseline) of the same size."""
    own = config.model
    fields: dict[str, Any] = {name: getattr(own, name) or size for name, size in _SIZES.items()}
    if model == own.model:
        fields |= {"ensemble": own.ensemble, **own.settings}
    missing = own.missing if prepared.reading is None else prepared.reading.missing
    if missing is not None:
        fields["missing"] = missing
    if prepared.reading is not None and prepared.reading.relative is not None:
        fields["relative"] = prepared.reading.relative
    return spec_for(prepared.parts, model, **fields)


def start_of(config: Config, prepared: Prepared) -> str:
    """Returns the start of the network: the configured one, or a linear model for forecasts from windows."""
    if config.model.start is not None:
        return config.model.start
    windows = prepared.reading is not None and prepared.reading.relative is not None
    return "linear" if windows and not config.training.tbptt else "none"


def assemble_run(config: Config, prepared: Prepared, model: str | None = None, *, race: Race | None = None) -> Assembly:
    """Assembles the training of the config, or that of another model; rejects an invalid configuration.

    The linear start of a race is not fitted again.
    """
    start = race.linear if race is not None and race.linear is not None else start_of(config, prepared)
    forecast = prepared.reading is not None and bool(prepared.reading.forecast_channels)
    options: dict[str, Any] = {"start": start, "objective": prepared.objective, "forecast": forecast}
    try:
        spec = spec_of(config, prepared, model or config.model.model)
        return assemble(prepared.parts, spec, config.training, **options)
    except (SettingError, SettingTypeError) as error:
        if error.argument in config.model.settings:
            raise error_at(named("settings"), error) from error
        raise
