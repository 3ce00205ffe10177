"""From a config to a training: what the user left open is chosen, by a race if need be, and the network is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..judge import AUTO_START, Candidate, Race, can_race, candidates_for, hard_candidates, pools_for, race
from ..model import ModelSpec, SequenceModel, refusal
from ..settings import SettingError, SettingTypeError, error_at, named
from ..training import (
    AUTO,
    Assembly,
    Epoch,
    Event,
    Settings,
    Trained,
    assemble,
    completed,
    evaluate,
    spec_for,
)
from ._config import Config
from ._prepare import Prepared, linear_alone, origin_of

FALLBACK = "mmrnn"
"""Model where a race is not possible: forecasts, targets at every step, symbols, very few series."""
_FURTHER_EPOCHS = 20
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
    whole, prepared = prepared, prepared.sampled
    parts, asked, auto = prepared.parts, config.model, config.model.model == AUTO
    settings = replace(config.training, refit=True) if prepared.refit else config.training
    windows = prepared.reading is not None and bool(prepared.reading.horizon)
    if windows or not (auto or settings.refit) or not can_race(parts.train, parts.valid):
        if windows and linear_alone(config, parts.train):
            settings = replace(settings, epochs=0)
        return _completed(_without_race(config, prepared), whole, settings), None
    network = {name: size for name in _SIZES if (size := getattr(asked, name)) is not None} | asked.settings
    candidates = candidates_for(parts.train, network, small=bool(settings.refit)) if auto else []
    start = asked.start or (_auto_start(config) if auto else "none")
    missing = asked.missing if prepared.reading is None else prepared.reading.missing
    options: dict[str, Any] = {"budget": asked.budget, "missing": missing, "on_event": on_event, "start": start}
    options["pools"] = pools_for(network) if auto else ()
    options["hard"] = hard_candidates(parts.train, network) if auto else ()
    result = race(parts, prepared.objective, settings, candidates or [Candidate(asked.model, network)], **options)
    chosen = dict(result.winner.network)
    sizes = {name: chosen.pop(name, size) for name, size in _SIZES.items()}
    model = {"model": result.winner.model, **sizes, "settings": chosen, "start": start}
    return _completed(config.with_values({"model": model}), whole, result.settings), result


def _auto_start(config: Config) -> str:
    """Returns the start that a race begins with; live data and exports need one that is updated step by step."""
    return AUTO_START if config.model.purpose == "any" else "summaries"


def _check_purpose(config: Config, prepared: Prepared, network: SequenceModel) -> None:
    """Rejects a model that is not fit for the purpose, before it is trained."""
    purposes = {"stream": ("stream",), "export": ("export c", "export onnx", "export pt2")}
    for capability in purposes.get(config.model.purpose, ()):
        if (refused := refusal(capability, network, prepared.reading)) is not None:
            reason = f"{named('purpose', config.model.purpose)}: {refused.reason}"
            raise SettingError(reason, argument=refused.argument, cure=refused.cure)


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
    asked, train, start = config.model, prepared.parts.train, config.model.start
    numbers = train.base_values.dtype.kind == "f"
    suits = numbers and (prepared.objective.per_step or not config.training.tbptt)
    if start is None and suits and not config.data.horizon:  # a forecast has a start of its own
        start = "linear" if asked.purpose == "any" else "summaries"
    return config.with_values({"model": {"model": FALLBACK, "start": start}})


def spec_of(config: Config, prepared: Prepared, model: str) -> ModelSpec:
    """Returns the spec of the configured model, or of another model (a baseline) of the same size."""
    asked = config.model
    fields: dict[str, Any] = {name: getattr(asked, name) or size for name, size in _SIZES.items()}
    if model == asked.model:
        fields |= {"ensemble": asked.ensemble, **asked.settings}
    missing = asked.missing if prepared.reading is None else prepared.reading.missing
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
    origin = origin_of(config).model if config.model.origin and model is None else None
    start = "none" if origin is not None else start
    forecast = prepared.reading is not None and bool(prepared.reading.forecast_channels)
    options: dict[str, Any] = {"start": start, "objective": prepared.objective, "forecast": forecast}
    try:
        spec = origin or spec_of(config, prepared, model or config.model.model)
        if prepared.parts.train.is_stored and start != "none":
            linear = assemble(prepared.sampled.parts, spec, config.training, **options).linear
            # Outputs for the series of a sample, not for those of the training.
            options["start"] = linear and replace(linear, held_out=None, held_out_valid=None)
        assembly = assemble(prepared.parts, spec, config.training, **options)
        if model is None:
            _check_purpose(config, prepared, assembly.network)
        return assembly
    except (SettingError, SettingTypeError) as error:
        if error.argument in config.model.settings:
            raise error_at(named("settings"), error) from error
        raise


def fine_tuning(origin: str | Path, source: str) -> Config:
    """Returns the config that trains the model of a run further on another file, at a third of its learning rate.

    Args:
        origin: The run folder, or a packed model.
        source: The file.
    """
    config = Config().with_values({"model": {"origin": str(origin)}})
    old = origin_of(config)
    before = Config.from_dict(dict(old.facts.get("config", {})))
    data = replace(before.data, source=source, test="", labels=None, positive=old.objective.positive)
    training = replace(before.training, refit=False, epochs=before.training.epochs or _FURTHER_EPOCHS)
    training = replace(training, learning_rate=training.learning_rate / 3, early_stop=training.early_stop or None)
    # The linear start, if there is one, is a part of the model.
    return Config(data, replace(before.model, origin=str(origin), start="none"), training)


def not_worse_than_origin(config: Config, prepared: Prepared, fitted: Trained) -> Trained:
    """Returns the model that was trained further, or with the weights of its origin if those validate better."""
    if not config.model.origin or fitted.model.start is not None:  # with a start, they were the first candidate
        return fitted
    goal, old = fitted.objective, origin_of(config).model
    before, after = (evaluate(model, goal, prepared.parts.valid) for model in (old, fitted.model))
    if goal.better(goal.value_of(after["loss"], after), goal.value_of(before["loss"], before)):
        return fitted
    first = Epoch(0, float("nan"), before.pop("loss"), before, 0.0, 0.0)
    note = f"no epoch was better on the validation part than {config.model.origin}: its weights are kept."
    record = replace(fitted.record, best_epoch=0, start=first, notes=(*fitted.record.notes, note))
    return replace(fitted, model=old, record=record)
