"""Reading options stored with a model: later files are read with the same meaning, or rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from .._checks import near, whole
from .._schema import parse
from ..data import Scaler, Sequences, forecast, forecast_windows, options_like, read, recent, windows
from ..data._files import LikeOptions
from ..data._names import listed, related
from ..data._pipe import as_file
from ..data._table_files import column_names
from ._config import DataConfig

# Beyond these factors, a different unit is more likely than unusual values.
_MOST_DEVIATIONS = 10.0
_MOST_TIMES_THE_GAP = 100.0

_READ_AS = {"time_unit": "unit"}
_ROLES = ("id", "time", "group", "channel", "value")
_TO_READ = (*_ROLES, "columns", "ignore", "time_unit", "time_format", "duplicates", "categorical", "empty", "kind")
_TO_READ += ("per_step", "order", "lengths", "delimiter", "decimal", "thousands", "encoding", "comment", "sheet")
_TO_READ += ("missing_values", "row_per_series")


@dataclass(frozen=True)
class Reading:
    """Options that give new files the meaning of the training file.

    Attributes:
        options: Options of `chronode.data.read`, with the channels, units and classes of training; without the target.
        target: Target columns; empty for a forecast.
        channels: Channels of training, in order.
        unit: Unit of the clock; "step" without times.
        unit_size: Scale of the clock.
        dates: Whether the times are dates.
        gap: Median gap of training; None without times.
        missing: Whether training had missing values.
        horizon: Number of steps to forecast; 0 for a target.
        forecast_channels: Channels to forecast.
        window: Steps of a window; 0 for whole series.
        stride: Stride of windows.
        per_step: Whether there is a prediction at every step.
        scaler: Scaler of the values; None if they are not scaled.
    """

    options: dict[str, Any]
    target: tuple[str, ...]
    channels: tuple[str, ...]
    unit: str
    unit_size: float
    dates: bool
    gap: float | None
    missing: bool
    horizon: int = 0
    forecast_channels: tuple[str, ...] = ()
    window: int = 0
    stride: int = 0
    per_step: bool = False
    scaler: Scaler | None = None

    def __post_init__(self) -> None:
        kinds = _option_kinds()
        for name, value in self.options.items():
            if name not in kinds:
                raise ValueError(f"options.{name} is not a known option.{near(name, kinds)}")
            parse(kinds[name], value, f"options.{name}")
        for name in ("horizon", "window", "stride"):
            whole(name, getattr(self, name), at_least=0)
        if self.scaler is not None and self.scaler.channels != self.channels:
            raise ValueError(
                f"the scaler has the channels {listed(self.scaler.channels)}, but the model has "
                f"{listed(self.channels)}."
            )

    @classmethod
    def of(cls, config: DataConfig, s: Sequences, *, missing: bool, per_step: bool, scaler: Scaler | None) -> Reading:
        """Returns the options with which `read_source(config)` read `s`."""
        clock = s.clock
        return cls(
            options=_like(config, s),
            target=_target_columns(config, s),
            channels=s.channels,
            unit=clock.unit,
            unit_size=clock.scale,
            dates=clock.dates,
            gap=s.median_gap(),
            missing=missing,
            horizon=config.forecast,
            forecast_channels=config.channels or (s.channels if config.forecast else ()),
            window=config.window,
            stride=config.stride,
            per_step=per_step,
            scaler=scaler,
        )

    def read(self, path: str | Path, *, labelled: bool, anyway: bool = False) -> Sequences:
        """Reads the series of a file as inputs of the model.

        Args:
            path: The file.
            labelled: Whether to read the target too, for comparison.
            anyway: Whether to accept times or values that seem to be in other units.

        Raises:
            ValueError: The file has other columns or units; the message lists the differences.
        """
        with as_file(path) as file:
            return self._read(file, labelled, anyway)

    def _read(self, path: Path, labelled: bool, anyway: bool) -> Sequences:
        wanted = {"target": _one(self.target)} if labelled and self.target else {}
        columns = column_names(path, self.options) if path.is_file() else None
        notes = self._check_columns(path, columns, [*self.target] if labelled else [])
        s = read(path, **self.options, **wanted)
        self._check_meaning(path, s, anyway)
        if self.horizon and not self.per_step:
            s = self._windows(s, labelled)
        elif labelled and self.horizon:
            s = forecast(s, self.horizon, self.forecast_channels)
        elif self.window and not self.per_step:
            s = windows(s, self.window, self.stride or None, rest="keep")
        scaled = s if self.scaler is None else self.scaler.transform(s)
        return scaled.with_notes(*notes)

    def _windows(self, s: Sequences, labelled: bool) -> Sequences:
        """What a forecast looks back at: of every step that enough steps follow, or of the end of each series."""
        if labelled:
            return forecast_windows(s, self.horizon, self.forecast_channels, window=self.window)
        return recent(s, self.window)

    @property
    def relative(self) -> tuple[int, ...] | None:
        """The numbers of the channels that windows continue; None for other targets."""
        if not self.horizon or self.per_step:
            return None
        return tuple(self.channels.index(name) for name in self.forecast_channels)

    def as_dict(self) -> dict[str, Any]:
        """Returns the options as plain data for JSON."""
        return {**asdict(self), "scaler": None if self.scaler is None else self.scaler.as_dict()}

    def _check_columns(self, path: Path, columns: list[str] | None, targets: list[str]) -> list[str]:
        """Rejects a table with missing columns; returns a note on additional ones."""
        if columns is None:
            return []
        rows = "channel" in self.options or "row_per_series" in self.options
        values = [] if rows else self.options.get("columns", [])
        roles = [self.options[role] for role in _ROLES if role in self.options]
        wanted = [*roles, *targets, *values]
        here, used = set(columns), {*wanted, *self.target}
        gone = [name for name in wanted if name not in here]
        extra = [name for name in columns if name not in used]
        if gone:
            lines = [f"- {name}: missing from this file.{related(name, extra)}" for name in gone]
            lines += [f"+ {name}: not used by the model" for name in extra]
            raise ValueError(_refusal(path, lines))
        return [f"columns ignored because the model does not use them: {listed(extra)}."] if extra else []

    def _check_meaning(self, path: Path, s: Sequences, anyway: bool) -> None:
        """Rejects other channels, other kinds of times, and apparently different units."""
        lines = []
        if s.channels != self.channels:
            lines.append(f"channels: {listed(s.channels)} in this file, {listed(self.channels)} in training")
        elif (s.clock.dates, s.clock.unit, s.clock.scale) != (self.dates, self.unit, self.unit_size):
            lines.append(
                f"time: {_times(s.clock.dates, s.clock.unit_text())} in this file, {self._training_times()} in training"
            )
        if s.has_missing and not self.missing:
            lines.append("values are missing, but none were missing in training: train with --allow-missing")
        if not lines and not anyway:
            lines = [*self._other_gap(s), *self._far_values(s)]
            lines += ["if this is correct, use --anyway"] if lines else []
        if lines:
            raise ValueError(_refusal(path, lines))

    def _training_times(self) -> str:
        return _times(self.dates, self.unit if self.unit.endswith("s") else f"{self.unit}s")

    def _other_gap(self, s: Sequences) -> list[str]:
        gap = s.median_gap()
        if not gap or not self.gap or 1 / _MOST_TIMES_THE_GAP < gap / self.gap < _MOST_TIMES_THE_GAP:
            return []
        return [f"time: the median gap is {gap:.3g} in this file, {self.gap:.3g} in training (another unit?)"]

    def _far_values(self, s: Sequences) -> list[str]:
        if self.scaler is None or s.base_values.dtype.kind != "f":
            return []
        lines = []
        for column, name, mean, std in zip(s.values.T, s.channels, self.scaler.mean, self.scaler.std, strict=True):
            seen = column[~np.isnan(column)]
            # A standard deviation of exactly 1 belongs to a constant or a 0/1 channel and is not informative.
            if std == 1.0 or not len(seen):
                continue
            middle = float(np.median(seen))
            if abs(middle - mean) > _MOST_DEVIATIONS * std:
                lines.append(
                    f"{name}: about {middle:.3g} in this file, {mean:.3g} ± {std:.3g} in training (another unit?)"
                )
        return lines


def read_source(config: DataConfig) -> Sequences:
    """Reads the unscaled series of the file of the config, with the target."""
    return read(config.source, **_asked(config), **({"target": _one(config.target)} if config.target else {}))


def _asked(config: DataConfig) -> dict[str, Any]:
    """Returns the options of `read` that differ from its defaults."""
    plain, options = DataConfig(), {}
    for name in _TO_READ:
        value = getattr(config, name)
        if value != getattr(plain, name):
            options[_READ_AS.get(name, name)] = list(value) if isinstance(value, tuple) else value
    return options


def _like(config: DataConfig, s: Sequences) -> dict[str, Any]:
    """Returns the options that give another file the channels, units and classes of `s`."""
    asked, like = _asked(config), options_like(s)
    if Path(config.source).suffix == ".npz":
        known = ("unit", "kind", "per_step", "classes", "dtype") if config.order else ()
        like = {name: value for name, value in like.items() if name in known and value is not None}
        return {**asked, **like}
    asked.pop("ignore", None)
    asked.pop("group", None)  # groups only matter for the split
    if "channel" in asked:
        like.pop("categorical", None)
    return {**asked, **like}


@lru_cache
def _option_kinds() -> dict[str, Any]:
    """Returns the types of all options of `_like`, by name."""
    hints = get_type_hints(DataConfig)
    asked = {_READ_AS.get(name, name): hints[name] for name in _TO_READ}
    return {**asked, **get_type_hints(LikeOptions)}


def _target_columns(config: DataConfig, s: Sequences) -> tuple[str, ...]:
    """Returns the target columns; the command line splits names that contain commas."""
    found = config.target if s.target is None else s.target.names
    return found if len(found) < len(config.target) else config.target


def _one(names: Sequence[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _times(dates: bool, unit: str) -> str:
    return f"dates in {unit}" if dates else unit


def _refusal(path: Path, lines: list[str]) -> str:
    return "\n  ".join([f"{path} does not match the training data of the model:", *lines])
