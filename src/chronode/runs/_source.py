"""The file of a configuration: its series, and how later files are read like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data import Reading, Sequences, column_names, options_like, read, source_columns, suffix_of
from ._config import DataConfig

_ARRAY_FILES = (".npz", ".npy")
_ARRAY_OPTIONS = ("unit", "kind", "per_step", "classes", "dtype")
_READ_AS = {"time_unit": "unit"}
_TO_READ = (
    "id",
    "time",
    "group",
    "channel",
    "value",
    "columns",
    "static",
    "ignore",
    "time_unit",
    "time_format",
    "duplicates",
)
_TO_READ += ("categorical", "empty", "kind", "per_step", "order", "lengths", "delimiter", "decimal", "thousands")
_TO_READ += ("encoding", "comment", "sheet", "skip_bad", "names", "missing_values", "row_per_series")


def read_source(config: DataConfig) -> Sequences:
    """Reads the unscaled series of the file of the config, with the target."""
    target = config.target[0] if len(config.target) == 1 else list(config.target) or None
    return read(config.source, **_asked(config), target=target)


def reading_of(config: DataConfig, s: Sequences, *, missing: bool, per_step: bool) -> Reading:
    """Returns how to read files like that of the config, which `read_source` read as `s`."""
    return Reading.of(
        s,
        target=_target_columns(config, s),
        options=_like(config, s),
        missing=missing,
        horizon=config.horizon,
        forecast_channels=config.channels or (s.channels if config.horizon else ()),
        window=config.window,
        stride=config.stride,
        per_step=per_step,
        static_columns=_static_columns(config, s),
    )


def _asked(config: DataConfig) -> dict[str, Any]:
    """Returns the options of `read` that differ from its defaults."""
    plain, options = DataConfig(), {}
    for name in _TO_READ:
        value = getattr(config, name)
        if value != getattr(plain, name):
            options[_READ_AS.get(name, name)] = list(value) if isinstance(value, tuple) else value
    return options


def _like(config: DataConfig, s: Sequences) -> dict[str, Any]:
    """Returns the options that give another file or frame the channels, units and classes of `s`."""
    asked, like = _asked(config), options_like(s)
    if not config.source:
        return like | {name: asked[name] for name in ("id", "time") if name in asked}
    if suffix_of(Path(config.source)) in _ARRAY_FILES:
        known = _ARRAY_OPTIONS if config.order else ()  # series written by `Sequences.save` need no options
        return asked | {name: like[name] for name in known if like.get(name) is not None}
    # The columns are known, except that all others are the steps of series in rows; groups only matter for the split.
    unused = [*asked.pop("ignore", []), *filter(None, [asked.pop("group", None)])]
    if config.row_per_series:
        asked["ignore"] = unused
    if "channel" in asked:
        like.pop("categorical", None)
    return {**asked, **like}


def _static_columns(config: DataConfig, s: Sequences) -> tuple[str, ...]:
    """Returns the static values of a file with one reading per row that are columns rather than channels."""
    if not config.channel or not s.static_names:
        return ()
    columns = column_names(Path(config.source), _asked(config)) or []
    return tuple(name for name in source_columns(s.static_names, s.categories) if name in columns)


def _target_columns(config: DataConfig, s: Sequences) -> tuple[str, ...]:
    """Returns the target columns; the command line splits names that contain commas."""
    found = config.target if s.target is None else s.target.names
    return found if len(found) < len(config.target) else config.target
