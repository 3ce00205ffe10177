"""How a run reads series: kept with the model, so that a later file is read with the same meaning or refused."""

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

# Beyond these a file is more likely in another unit than far from training.
_MOST_DEVIATIONS = 10.0
_MOST_TIMES_THE_GAP = 100.0

_READ_AS = {"time_unit": "unit"}
_ROLES = ("id", "time", "group", "channel", "value")
_TO_READ = (*_ROLES, "columns", "ignore", "time_unit", "time_format", "duplicates", "categorical", "empty", "kind")
_TO_READ += ("per_step", "order", "lengths", "delimiter", "decimal", "thousands", "encoding", "comment", "sheet")
_TO_READ += ("missing_values", "row_per_series")


@dataclass(frozen=True)
class Reading:
    """What makes a new file mean the same as that of training.

    Attributes:
        options: of `chronode.data.read`, with the channels, units and classes of training; without the target.
        target: the target columns; empty for a forecast.
        channels: of training, in order.
        unit: the clock's; "step" without times.
        unit_size: the clock's scale.
        dates: the times are dates.
        gap: the median gap of training; None without times.
        missing: training knew missing values.
        horizon: steps to forecast; 0 for a target.
        forecast_channels: what is forecast.
        window: steps; 0 for whole series.
        stride: of windows.
        per_step: an answer at every step.
        scaler: what the values go through; None if they stay as they are.
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
                raise ValueError(f"options.{name} is not known.{near(name, kinds)}")
            parse(kinds[name], value, f"options.{name}")
        for name in ("horizon", "window", "stride"):
            whole(name, getattr(self, name), at_least=0)
        if self.scaler is not None and self.scaler.channels != self.channels:
            raise ValueError(
                f"the scaler is of {listed(self.scaler.channels)}, the channels are {listed(self.channels)}."
            )

    @classmethod
    def of(cls, config: DataConfig, s: Sequences, *, missing: bool, per_step: bool, scaler: Scaler | None) -> Reading:
        """What `read_source(config)` did when it gave `s`."""
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
        """The series of a file, as the model takes them.

        Args:
            path: the file.
            labelled: with the target, to compare with.
            anyway: even if times or values look like other units.

        Raises:
            ValueError: the file has other columns or units; the message says what differs, a line each.
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
        """For JSON."""
        return {**asdict(self), "scaler": None if self.scaler is None else self.scaler.as_dict()}

    def _check_columns(self, path: Path, columns: list[str] | None, targets: list[str]) -> list[str]:
        """Refuses a table that lacks columns; returns a note on those it has besides."""
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
            lines = [f"- {name}: lacks here.{related(name, extra)}" for name in gone]
            lines += [f"+ {name}: not used by the model" for name in extra]
            raise ValueError(_refusal(path, lines))
        return [f"columns that the model does not use are ignored: {listed(extra)}."] if extra else []

    def _check_meaning(self, path: Path, s: Sequences, anyway: bool) -> None:
        """Refuses other channels, other kinds of times, and what looks like another unit."""
        lines = []
        if s.channels != self.channels:
            lines.append(f"channels: {listed(s.channels)} here, {listed(self.channels)} in training")
        elif (s.clock.dates, s.clock.unit, s.clock.scale) != (self.dates, self.unit, self.unit_size):
            lines.append(f"time: {_times(s.clock.dates, s.clock.unit_text())} here, {self._told_times()} in training")
        if s.has_missing and not self.missing:
            lines.append("values are missing here, in training none was: train with --allow-missing to allow it")
        if not lines and not anyway:
            lines = [*self._other_gap(s), *self._far_values(s)]
            lines += ["if that is right: --anyway"] if lines else []
        if lines:
            raise ValueError(_refusal(path, lines))

    def _told_times(self) -> str:
        return _times(self.dates, self.unit if self.unit.endswith("s") else f"{self.unit}s")

    def _other_gap(self, s: Sequences) -> list[str]:
        gap = s.median_gap()
        if not gap or not self.gap or 1 / _MOST_TIMES_THE_GAP < gap / self.gap < _MOST_TIMES_THE_GAP:
            return []
        return [f"time: the median gap is {gap:.3g} here, {self.gap:.3g} in training (another unit?)"]

    def _far_values(self, s: Sequences) -> list[str]:
        if self.scaler is None or s.base_values.dtype.kind != "f":
            return []
        lines = []
        for column, name, mean, std in zip(s.values.T, s.channels, self.scaler.mean, self.scaler.std, strict=True):
            seen = column[~np.isnan(column)]
            # A deviation of exactly 1 is that of a constant or a 0/1 channel, which says nothing of its spread.
            if std == 1.0 or not len(seen):
                continue
            middle = float(np.median(seen))
            if abs(middle - mean) > _MOST_DEVIATIONS * std:
                lines.append(f"{name}: about {middle:.3g} here, {mean:.3g} ± {std:.3g} in training (another unit?)")
        return lines


def read_source(config: DataConfig) -> Sequences:
    """The series of the config's file, with the target, as they came."""
    return read(config.source, **_asked(config), **({"target": _one(config.target)} if config.target else {}))


def _asked(config: DataConfig) -> dict[str, Any]:
    """The options of `read` that differ from its own defaults."""
    plain, told = DataConfig(), {}
    for name in _TO_READ:
        value = getattr(config, name)
        if value != getattr(plain, name):
            told[_READ_AS.get(name, name)] = list(value) if isinstance(value, tuple) else value
    return told


def _like(config: DataConfig, s: Sequences) -> dict[str, Any]:
    """The options that give another file the channels, units and classes of `s`."""
    asked, like = _asked(config), options_like(s)
    if Path(config.source).suffix == ".npz":
        known = ("unit", "kind", "per_step", "classes", "dtype") if config.order else ()
        like = {name: value for name, value in like.items() if name in known and value is not None}
        return {**asked, **like}
    asked.pop("ignore", None)
    asked.pop("group", None)  # groups matter for the split alone
    if "channel" in asked:
        like.pop("categorical", None)
    return {**asked, **like}


@lru_cache
def _option_kinds() -> dict[str, Any]:
    """The types of all options that `_like` gives, by name."""
    hints = get_type_hints(DataConfig)
    asked = {_READ_AS.get(name, name): hints[name] for name in _TO_READ}
    return {**asked, **get_type_hints(LikeOptions)}


def _target_columns(config: DataConfig, s: Sequences) -> tuple[str, ...]:
    """The target columns; a name that holds commas came in pieces from the command line."""
    found = config.target if s.target is None else s.target.names
    return found if len(found) < len(config.target) else config.target


def _one(names: Sequence[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _times(dates: bool, unit: str) -> str:
    return f"dates in {unit}" if dates else unit


def _refusal(path: Path, lines: list[str]) -> str:
    return "\n  ".join([f"{path} does not fit what the model was trained on:", *lines])
