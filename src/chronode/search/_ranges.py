"""Search spaces: a range for every setting of a model, and the sources of the ranges."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..nn import Layer, find_model
from ..runs import Config, ModelConfig
from ..settings import near, setting_named
from ..training import Settings

SAME_FOR_ALL = ("epochs", "steps", "seed", "metric")
"""Training settings that must be equal for all trials."""
_SIZES = {"hidden_size": 64, "num_layers": 1}
_OF_LAYERS = ("dropout", "bidirectional", "residual", "memory")


@dataclass(frozen=True)
class Between:
    """Numbers from `low` to `high`; whole numbers if both are ints; on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"a range must go from a smaller to a larger number, got {self.low}:{self.high}.")
        if self.log and self.low <= 0:
            raise ValueError(f"a log range must start above 0, got {self.low}:{self.high}:log.")

    @property
    def ends(self) -> tuple[Any, ...]:
        """Returns the limits, which must be valid values."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}" + (":log" if self.log else "")


@dataclass(frozen=True)
class OneOf:
    """List of values."""

    choices: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        """Returns all values."""
        return self.choices

    def __str__(self) -> str:
        return ",".join(map(str, self.choices))


Range = Between | OneOf
"""Values to search: an interval or a list."""


@dataclass(frozen=True)
class Space:
    """Ranges by setting, with their source."""

    ranges: Mapping[str, Range]
    source: str


GENERAL = Space(
    {
        "learning_rate": Between(1e-4, 3e-2, log=True),
        "batch_size": OneOf((32, 64, 128)),
        "hidden_size": OneOf((32, 64, 128)),
        "dropout": Between(0.0, 0.5),
    },
    "common values for recurrent networks",
)

_STEP_SIZE = {"eta": Between(1e-3, 1e-1, log=True), "learning_rate": Between(1e-3, 3e-2, log=True)}
_EQUILIBRIUM = "a grid search (its points are not given) around learning rate and η 0.01, batches of 128"

PAPERS = {
    "unicornn": Space(
        {
            "learning_rate": Between(1e-4, 3.2e-2, log=True),
            "batch_size": OneOf((8, 16, 32, 64)),
            "dropout": Between(0.0, 0.65),
            "num_layers": OneOf((2, 3)),
            "delta_t": Between(1e-2, 0.5, log=True),
            "alpha": Between(0.0, 31.0),
        },
        "random search of the paper: its ranges are not given, these include all best values of its Table 6",
    ),
    "mmrnn": Space(
        {
            "learning_rate": Between(5e-4, 2e-2, log=True),
            "batch_size": OneOf((64, 128, 256)),
            "optimizer": OneOf(("adam", "rmsprop")),
        },
        "around Table 8 of the paper (RMSprop, 5e-3, batches of 256) and its code (5e-4, 128)",
    ),
    "ltc": Space(
        {
            "learning_rate": Between(1e-3, 2e-2, log=True),
            "batch_size": OneOf((16, 32, 64)),
            "hidden_size": OneOf((16, 32, 64)),
        },
        "around the settings in the code of the paper (32 units, batches of 16, learning rates 1e-3 to 1e-2)",
    ),
    "irnn": Space({**_STEP_SIZE, "K": OneOf((1, 3, 5))}, f"{_EQUILIBRIUM}; K of its tables"),
    "sirnn": Space(_STEP_SIZE, _EQUILIBRIUM),
    "ernn": Space({**_STEP_SIZE, "K": OneOf((1, 2, 3, 5))}, f"{_EQUILIBRIUM}; K of its tables"),
}


def ranges_for(model: str) -> dict[str, Range]:
    """Returns the default ranges of a model: those of its paper, and general ones for other settings.

    Example:
        >>> ranges_for("unicornn")["delta_t"], sorted(ranges_for("lstm"))
        (Between(low=0.01, high=0.5, log=True), ['batch_size', 'dropout', 'hidden_size', 'learning_rate'])
    """
    find_model(model)
    special = PAPERS[model].ranges if model in PAPERS else {}
    return {**GENERAL.ranges, **special}


def source_of_ranges(model: str) -> str:
    """Describes the source of the ranges."""
    return PAPERS[model].source if model in PAPERS else GENERAL.source


def read_range(text: str, model: str) -> tuple[str, Range]:
    """Parses a setting and its range from `NAME=LOW:HIGH[:log]` or `NAME=a,b,c`.

    Example:
        >>> read_range("delta_t=0.01:1:log", "unicornn"), read_range("K=1,2", "irnn")
        (('delta_t', Between(low=0.01, high=1.0, log=True)), ('K', OneOf(choices=(1, 2))))
    """
    name, values = _split(text, "--range", "learning_rate=1e-4:1e-2:log or hidden_size=32,64")
    default = _default(name, model)
    try:
        if ":" not in values:
            return name, OneOf(tuple(_like(default, part.strip()) for part in values.split(",")))
        low, high, *log = values.split(":")
        if log not in ([], ["log"]) or isinstance(default, bool | str):
            raise ValueError("a range must be LOW:HIGH or LOW:HIGH:log with numbers.")
        return name, Between(_number(default, low), _number(default, high), log=bool(log))
    except ValueError as error:
        raise ValueError(f"--range {text}: {error}") from error


def read_fixed(text: str, model: str) -> tuple[str, Any]:
    """Parses a setting and its value from `NAME=VALUE`.

    Example:
        >>> read_fixed("alpha=0", "unicornn")
        ('alpha', 0.0)
    """
    name, values = _split(text, "--fix", "hidden_size=64")
    try:
        return name, _like(_default(name, model), values)
    except ValueError as error:
        raise ValueError(f"--fix {text}: {error}") from error


def applied(config: Config, values: Mapping[str, Any]) -> Config:
    """Returns the config with these values in their sections.

    Example:
        >>> config = applied(Config(), {"hidden_size": 8, "learning_rate": 0.1, "dropout": 0.2})
        >>> config.model.hidden_size, config.training.learning_rate, config.model.settings
        (8, 0.1, {'dropout': 0.2})
    """
    values = {setting_named(setting_named(name, ModelConfig), Settings): value for name, value in values.items()}
    training = {field.name for field in fields(Settings)}
    model_names = {field.name for field in fields(ModelConfig)}
    settings = {name: value for name, value in values.items() if name not in training | model_names}
    model = {name: value for name, value in values.items() if name in model_names}
    return config.with_values(
        {
            "model": {**model, "settings": {**config.model.settings, **settings}},
            "training": {name: value for name, value in values.items() if name in training},
        }
    )


def _split(text: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise ValueError(f"{flag} {text!r} must be NAME=..., such as {example}.")
    name = name.strip().removeprefix("--").replace("-", "_")
    return setting_named(setting_named(name, ModelConfig), Settings), values.strip()


def _default(name: str, model: str) -> Any:
    """Returns the default value of a setting, which determines its type."""
    training = Settings().completed(0).as_dict()
    defaults: dict[str, Any] = {name: value for name, value in training.items() if name not in SAME_FOR_ALL} | _SIZES
    defaults |= _defaults(Layer, _OF_LAYERS)
    cell = inspect.signature(find_model(model).cell).parameters
    defaults |= _defaults(
        find_model(model).cell, [setting for setting in cell if setting not in ("input_size", "hidden_size")]
    )
    if name in SAME_FOR_ALL:
        raise ValueError(f"{name} must be the same for all trials: pass it as --{name}.")
    if name not in defaults:
        raise ValueError(f"{model} and its training have no setting {name!r}.{near(name, defaults)}")
    return defaults[name]


def _defaults(thing: Any, names: Iterable[str]) -> dict[str, Any]:
    parameters = inspect.signature(thing).parameters
    return {name: parameters[name].default for name in names}


def _like(default: Any, text: str) -> Any:
    """Converts text to the type of the default; without a default, as JSON or text."""
    if isinstance(default, str):
        return text
    if isinstance(default, int | float) and not isinstance(default, bool):
        return _number(default, text)
    try:
        value = json.loads(text.lower())
    except ValueError:
        value = text
    if isinstance(default, bool) and not isinstance(value, bool):
        raise ValueError(f"{text!r} must be true or false.")
    return value


def _number(default: Any, text: str) -> float:
    whole = isinstance(default, int)
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a {'whole ' if whole else ''}number.") from None
