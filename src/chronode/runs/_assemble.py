"""The training that a config describes."""

from __future__ import annotations

from typing import Any

from ..judge import Race
from ..model import ModelSpec
from ..settings import SettingError, SettingTypeError, error_at, named
from ..training import Assembly, assemble, spec_for
from ._config import Config
from ._prepare import Prepared


def spec_of(config: Config, prepared: Prepared, model: str) -> ModelSpec:
    """Returns the spec of the configured model, or of another model (a baseline) of the same size."""
    own = config.model
    fields: dict[str, Any] = {"hidden_size": own.hidden, "num_layers": own.layers}
    if model == own.model:
        fields |= own.settings
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
