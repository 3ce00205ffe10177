"""Reading: what the data of training mean, so that later files and frames are read the same way, or rejected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..settings import named, number, whole
from ..storage import parse
from ._columns import frame_names, is_frame
from ._describe import Ranges, notes_on_ranges
from ._future import calendar_names, check_future, with_calendar, with_future
from ._names import listed, related
from ._opening import as_file
from ._readers import column_names, read, read_frame
from ._scaling import Scaler
from ._sequences import Sequences
from ._settings import ReadOptions
from ._times import Clock, is_number
from ._windows import forecast, forecast_windows, recent, windows

# Beyond these factors, a different unit is more likely than unusual values.
_MOST_DEVIATIONS = 10.0
_MOST_TIMES_THE_GAP = 100.0

_MOST_STEPS = 2**31 - 1

_ROLES = ("id", "time", "channel", "value")


@dataclass(frozen=True)
class Reading:
    """Schema of the training data: reads later data in the same way or rejects them.

    Attributes:
        options: Options of `chronode.data.read`, with the channels, units and classes of training; without the target.
        target: Target columns; empty for a forecast.
        channels: Channels of training, in order.
        unit: Unit of the clock; "step" without times.
        unit_size: Scale of the clock.
        dates: Whether the times are dates.
        gap: Median gap of training; None without times.
        missing: Whether values may be missing.
        horizon: Number of steps to forecast; 0 for a target.
        forecast_channels: Channels to forecast.
        window: Steps of a window; 0 for whole series.
        stride: Stride of windows.
        per_step: Whether there is a prediction at every step.
        scaler: Scaler of the values; None if they are not scaled.
        static: Names of the static values of training.
        static_columns: For tables with one reading per row, the static values that are columns rather than channels.
        known: Columns whose values are known over the horizon.
        calendar: Periods of the calendar that are inputs, such as "weekday".
        ranges: Range of nearly all values of each channel in training; empty if it is not known.
        zoned: Whether dates have a time zone.
        weight: Column with the weights of series; "" for equal weights.
        reference: Features of all series of the file of training, its test part included, with which live data are
            compared, as by `chronode check`; None if they are not known.

    Example:
        >>> from chronode.data import from_long, options_like
        >>> train = from_long({"hour": [0, 1, 2], "hr": [80, 82, 81]}, time="hour")
        >>> reading = Reading.of(train, options={"time": "hour", **options_like(train)}, target=(), missing=False)
        >>> later = reading.read({"hour": [0, 2], "hr": [79, 81], "bp": [120, 121]}, labeled=False)
        >>> later.channels, later.notes
        (('hr',), ("columns ignored because the model does not use them: 'bp'.",))
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
    static: tuple[str, ...] = ()
    static_columns: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    calendar: tuple[str, ...] = ()
    ranges: Ranges = ()
    zoned: bool = False
    weight: str = ""
    reference: Reference | None = None

    def __post_init__(self) -> None:
        parse(ReadOptions, self.options, "options")
        for name in ("horizon", "window", "stride"):
            whole(name, getattr(self, name), at_least=0, at_most=_MOST_STEPS)
        number("unit_size", self.unit_size, above=0)
        if self.gap is not None:
            number("gap", self.gap, at_least=0)
        if len(self.ranges) not in (0, len(self.channels)) or any(len(ends) not in (0, 2) for ends in self.ranges):
            raise ValueError("ranges must have two ends, or none, for each channel.")
        if self.scaler is not None and self.scaler.channels != self.channels:
            raise ValueError(
                f"the scaler has the channels {listed(self.scaler.channels)}, but the model has "
                f"{listed(self.channels)}."
            )

    @classmethod
    def of(cls, s: Sequences, *, options: dict[str, Any], **fields: Any) -> Reading:
        """Returns the reading that gives other data the meaning of `s`.

        Args:
            s: The series of training, unscaled.
            options: Options of `read`: those of `options_like(s)`, and the columns of ids and times.
            fields: Attributes that do not follow from the series.
        """
        clock = {"unit": s.clock.unit, "unit_size": s.clock.scale, "dates": s.clock.dates, "gap": s.median_gap()}
        clock["zoned"] = s.clock.dates and str(s.clock.origin).endswith("Z")
        return cls(options=options, channels=s.channels, static=s.static_names, **clock, **fields)

    @property
    def clock(self) -> Clock:
        """Unit and kind of the times; the origin is arbitrary."""
        return Clock(self.unit, self.unit_size, "1970-01-01T00:00:00" if self.dates else 0)

    @property
    def relative(self) -> tuple[int, ...] | None:
        """The numbers of the channels that windows continue; None for other targets."""
        if not self.horizon or self.per_step:
            return None
        return tuple(self.channels.index(name) for name in self.forecast_channels)

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes as plain data for JSON."""
        return {**asdict(self), "scaler": None if self.scaler is None else self.scaler.as_dict()}

    # ---- reading ----------------------------------------------------------------------------------------

    def read(self, source: Any, *, labeled: bool, anyway: bool = False, labels: Any = None) -> Sequences:
        """Reads a file or a frame as inputs of the model, scaled and in windows as in training.

        Args:
            source: The file, or a frame of pandas or polars, an Arrow table or a mapping of columns.
            labeled: Whether to read the target too, for comparison.
            anyway: Whether to accept times or values that seem to be in other units.
            labels: Second file or frame, with the target of each id.

        Raises:
            ValueError: The file has other columns or units; the message lists the differences.
        """
        return self.inputs(self.matched(source, labeled=labeled, anyway=anyway, labels=labels), labeled=labeled)

    def matched(self, source: Any, *, labeled: bool, anyway: bool = False, labels: Any = None) -> Sequences:
        """Reads whole series with the columns, units and classes of training, not scaled; arguments as for `read`."""
        with nullcontext(source) if is_frame(source) else as_file(Path(source)) as data:
            # Files of arrays have one target, by its name.
            target = self.target[0] if len(self.target) == 1 else list(self.target)
            wanted: dict[str, Any] = {"target": target, "labels": labels} if labeled and target else {}
            origin = "the frame" if is_frame(data) else str(data)
            unused, ignored = self._check_columns(data, origin, self.target if labeled and labels is None else ())
            if wanted and self.weight and self.weight in self._columns(data, labels):
                wanted["weight"] = self.weight
            if "channel" in self.options or "row_per_series" in self.options:  # they have no list of columns
                wanted["ignore"] = ignored
            s = self.matching(self.extended(self.series(data, **wanted)), origin, anyway=anyway)
        notes = [f"columns ignored because the model does not use them: {listed(unused)}."] if unused else []
        return s.with_notes(*notes)

    def series(self, source: Any, **options: Any) -> Sequences:
        """Reads a file or a frame with the options of training and `options`, without checks and scaling."""
        return (read_frame if is_frame(source) else read)(source, **{**self.options, **options})

    def extended(self, s: Sequences) -> Sequences:
        """Returns series with the features of the calendar, and without the rows after the last value to forecast,
        whose known inputs become static values.
        """
        if not self.known and not self.calendar:
            return s
        measured = tuple(name for name in self.channels if name not in calendar_names(self.calendar))
        if s.channels != self.channels:
            if s.num_channels != len(measured):
                return s  # `matching` rejects them
            s = with_calendar(replace(s, channels=measured), self.calendar)
        return with_future(s, self.horizon, self.forecast_channels, self.known, self.calendar)

    def matching(self, s: Sequences, origin: str, *, anyway: bool = False) -> Sequences:
        """Returns series with the channels and the unit of time of training; rejects series that differ from it.

        Args:
            s: Unscaled series. Channels of arrays have no names (x0, x1, ...): only their number counts.
            origin: Source of the series, for messages.
            anyway: Whether to accept times or values that seem to be in other units.
        """
        lines = [*self._other_channels(s), *self._other_times(s)]
        if s.has_missing and not self.missing:
            lines.append(f"values are missing, but none were missing in training: train with {named('missing', True)}")
            lines += [note for note in s.notes if "did not occur in training" in note]
        if not lines and not anyway:
            lines = [*self._other_gap(s), *self._far_values(s)]
            lines += [f"if this is correct, use {named('anyway', True)}"] if lines else []
        if lines:
            raise ValueError(_refusal(origin, lines))
        factor = s.clock.scale / self.unit_size
        if s.base_times is not None and factor != 1:
            lead = None if s.lead is None else s.lead * factor
            clock = replace(s.clock, unit=self.unit, scale=self.unit_size)
            times = s.base_times * factor
            if not np.isfinite(times[:1] if s.is_stored else times).all():
                raise ValueError(f"{origin}: the unit of time {self.unit_size:g} of training gives no finite times.")
            s = replace(s, base_times=times, lead=lead, clock=clock)
        s = replace(s, channels=self.channels, static_names=self.static)
        return s.with_notes(*notes_on_ranges(s, self.ranges))

    def inputs(self, s: Sequences, *, labeled: bool = False) -> Sequences:
        """Returns what the model takes of `matching` series: the windows of training, scaled."""
        if self.horizon and not self.per_step:
            # Of every step that enough steps follow, or of the end of each series.
            looked = {"horizon": self.horizon, "channels": self.forecast_channels, "window": self.window}
            if not labeled:
                check_future(s, self.horizon, self.known)
            s = forecast_windows(s, **looked) if labeled else recent(s, self.window)
        elif labeled and self.horizon:
            s = forecast(s, self.horizon, self.forecast_channels)
        elif self.window and not self.per_step:
            s = windows(s, self.window, self.stride or None, rest="keep")
        return s if self.scaler is None else self.scaler.transform(s)

    def _columns(self, *sources: Any) -> list[str]:
        """Returns the columns of files and frames; none of a file that is not a table."""
        names: list[str] = []
        for source in sources:
            if is_frame(source):
                names += frame_names(source)
            elif source is not None and Path(source).is_file():
                names += column_names(Path(source), self.options) or ()
        return names

    # ---- checks -----------------------------------------------------------------------------------------

    def _check_columns(self, source: Any, origin: str, targets: Sequence[str]) -> tuple[list[str], list[str]]:
        """Rejects a table with missing columns; returns additional ones, and all that are not read."""
        columns = self._columns(source)
        if not columns:
            return [], []
        rows = "channel" in self.options or "row_per_series" in self.options
        values = [] if rows else self.options.get("columns", [])
        roles = [self.options[role] for role in _ROLES if role in self.options]
        static = self.static_columns if rows else self.options.get("static", [])
        wanted = [*roles, *targets, *values, *static]
        here, used = set(columns), {*wanted, *self.target, self.weight}
        gone = [name for name in wanted if name not in here]
        extra = [name for name in columns if name not in used]
        if gone:
            lines = [f"- {name}: missing from this table.{related(name, extra)}" for name in gone]
            lines += [f"+ {name}: not used by the model" for name in extra]
            if {*gone} <= {*targets}:
                lines.append(f"if the target is in a second file, pass it as {named('labels', ...)}")
            raise ValueError(_refusal(origin, lines))
        if "row_per_series" in self.options:  # all columns without another role are steps
            extra = [name for name in extra if name in self.options.get("ignore", ())]
        others = [name for name in (*self.target, self.weight) if name in here and name not in targets]
        return extra, [*extra, *others]

    def _other_channels(self, s: Sequences) -> list[str]:
        unnamed = tuple(f"x{i}" for i in range(len(self.channels)))
        if s.channels == self.channels or (
            s.num_channels == len(self.channels) and unnamed in (s.channels, self.channels)
        ):
            return self._other_static(s)
        return [f"channels: {listed(s.channels)} here, {listed(self.channels)} in training"]

    def _other_static(self, s: Sequences) -> list[str]:
        unnamed = tuple(f"static{i}" for i in range(len(self.static)))
        if s.static_names in (self.static, unnamed):
            return []
        return [f"static values: {listed(s.static_names) or 'none'} here, {listed(self.static) or 'none'} in training"]

    def _other_times(self, s: Sequences) -> list[str]:
        (kind, text), (kind_then, text_then) = _times(s.clock), _times(self.clock)
        return [] if kind == kind_then else [f"time: {text} here, {text_then} in training"]

    def _other_gap(self, s: Sequences) -> list[str]:
        gap = s.median_gap()
        if not gap or not self.gap or 1 / _MOST_TIMES_THE_GAP < gap / self.gap < _MOST_TIMES_THE_GAP:
            return []
        return [f"time: the median gap is {gap:.3g} here, {self.gap:.3g} in training (another unit?)"]

    def _far_values(self, s: Sequences) -> list[str]:
        if self.scaler is None or s.base_values.dtype.kind != "f":
            return []
        lines = []
        moments = zip(s.sample.values.T, s.channels, self.scaler.mean, self.scaler.std, strict=True)
        for channel, (column, name, mean, std) in enumerate(moments):
            values = column[~np.isnan(column)]
            # A standard deviation of exactly 1 belongs to a constant or a 0/1 channel and is not informative.
            if std == 1.0 or not len(values):
                continue
            middle, shape = float(np.median(values)), self.scaler.shapes[channel] if self.scaler.shapes else None
            if shape is not None and shape.offset is not None:
                middle, name = math.log(max(middle + shape.offset, 1e-30)), f"logarithm of {name}"
            if abs(middle - mean) > _MOST_DEVIATIONS * std:
                lines.append(f"{name}: about {middle:.3g} here, {mean:.3g} ± {std:.3g} in training (another unit?)")
        return lines


def _times(clock: Clock) -> tuple[str, str]:
    """Returns the kind of the times, and their description."""
    text = clock.unit_text()
    if clock.dates:
        return "dates", f"dates in {text}"
    return "steps" if clock.unit == "step" else "numbers" if is_number(clock.unit) else "durations", text


def _refusal(origin: str, lines: list[str]) -> str:
    return "\n  ".join([f"{origin} does not match the training data of the model:", *lines])


@dataclass(frozen=True)
class Reference:
    """Features of some stretches of the training series.

    Attributes:
        steps: Observations of a stretch.
        first: Whether they are the first ones of series; otherwise any.
        few: Whether they are all stretches of a few series; otherwise one of each series.
        stretches: Number of stretches of a series of usual length.
        features: Feature -> a number per stretch, None where it is not known.
    """

    steps: int
    first: bool
    few: bool
    stretches: int
    features: dict[str, tuple[float | None, ...]] = field(repr=False)

    def __post_init__(self) -> None:
        whole("steps", self.steps, at_least=2)
        whole("stretches", self.stretches, at_least=1)
        if len({len(column) for column in self.features.values()}) != 1:
            raise ValueError("the features of a reference must have a number per stretch each.")
