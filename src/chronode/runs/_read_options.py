"""Options of `read` that a config has; nothing here needs torch."""

from __future__ import annotations

from typing import Any, get_type_hints

from ..data import ReadOptions
from ._config import DataConfig

READ_AS = {"time_unit": "unit"}
_TO_READ = [name for name in DataConfig.__dataclass_fields__ if READ_AS.get(name, name) in get_type_hints(ReadOptions)]


def reading_fields() -> list[str]:
    """Returns the names of the fields of a config that are options of `read`, and that of the target."""
    return ["target", *_TO_READ]


def asked_of(config: DataConfig) -> dict[str, Any]:
    """Returns the options of `read`, besides the target, that differ from its defaults."""
    plain, options = DataConfig(), {}
    for name in _TO_READ:
        value = getattr(config, name)
        if value != getattr(plain, name):
            options[READ_AS.get(name, name)] = list(value) if isinstance(value, tuple) else value
    return options
