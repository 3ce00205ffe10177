"""Raw observations as inputs of the model, cell by cell: times of the kind, zone and format of the training file."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import EPOCHS, NUMBER, Moments, Reading, is_number, moments_of, seconds_of
from ..storage import parse
from ._values import Errors, Values, shown

_NANO = 10**9
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?)?",
    re.ASCII,
)
"""The usual forms of ISO 8601; Arrow reads all others."""
_UNREADABLE = (ValueError, OverflowError, TypeError, NotImplementedError)
_WITNESSES = 3
_EXACT = 2**53
"""Beyond this, float64 cannot represent all whole numbers."""


class Observations(NamedTuple):
    """Observations in the order of arrival.

    Attributes:
        times: `(N,)` in the model's unit, on one clock for the whole stream; None if there are no times.
        values: `(N, D)` scaled; NaN where missing.
    """

    times: NDArray[np.float64] | None
    values: NDArray[Any]

    def at(self, places: NDArray[np.int64]) -> Observations:
        """Returns some of the observations."""
        return Observations(None if self.times is None else self.times[places], self.values[places])


class Intake:
    """Reads observations, each for itself: what it means does not depend on the others of its batch.

    Attributes:
        columns: Names of the values of an observation.
        times: The times; None if the model was trained without times.
    """

    def __init__(self, reading: Reading):
        self._values = Values(reading)
        self._scaler = reading.scaler
        self.times = None if reading.unit == "step" else Times(reading)
        self.columns = self._values.columns

    def read(self, times: Any, columns: Mapping[str, Any], count: int) -> tuple[Observations, Errors]:
        """Reads `count` observations.

        Args:
            times: One time per observation, as in the training file.
            columns: One value per observation, by name; absent columns are missing values.
            count: Number of observations.

        Returns:
            The observations, and why some of them cannot be used.
        """
        values, errors = self._values.read(columns, count)
        if self.times is None:
            return Observations(None, values), errors
        moments, wrong = self.times.read(times, count)
        return Observations(moments, values), errors | wrong

    def gaps(self, dt: Any) -> Any:
        """Returns gaps between times as the model takes them."""
        scaler = self._scaler
        if scaler is None:
            return dt
        return (dt if scaler.gaps is None else scaler.gaps(dt)) / scaler.dt


def as_columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Turns rows into columns; a name that is absent from a row is a missing value.

    Example:
        >>> as_columns([{"hr": 80}, {"bp": 120, "hr": 81}], ["hr", "bp"])
        {'hr': [80, 81], 'bp': [None, 120]}
    """
    return {name: [row.get(name) for row in rows] for name in names}


class Times:
    """Reads times as numbers in the model's unit, on one clock for the whole stream.

    A time of another kind than those of training is an error of its observation alone: a number among dates, a date
    with a zone among dates without one, a time of day.

    Attributes:
        dates: Whether times are dates.
        origin: Time that counts as 0: nanoseconds since 1970 for dates, otherwise a number; None before the first time.
    """

    def __init__(self, reading: Reading):
        self.dates, self._unit, self._scale = reading.dates, reading.unit, reading.unit_size
        self._zoned = reading.zoned
        self.origin: int | None = None
        self._format, self._unit_option = reading.options.get("time_format"), reading.options.get("unit")
        is_named = not is_number(reading.unit) and reading.unit != "step"
        self._durations = is_named and math.isclose(seconds_of(reading.unit)[1], self._scale)

    def read(self, cells: Any, count: int) -> tuple[NDArray[np.float64], Errors]:
        """Returns (`(count,)` times, NaN where there is an error; the errors)."""
        if cells is None or len(cells) != count:
            given = "none" if cells is None else str(len(cells))
            raise ValueError(f"times: one per observation is expected ({count}), got {given}.")
        errors: Errors = {}
        ticks: list[Any] | None = None if isinstance(cells, (list, tuple)) else self._column(cells)
        if ticks is None:
            ticks = []
            for index, cell in enumerate(cells):
                try:
                    ticks.append(self._tick(cell))
                except _UNREADABLE as error:
                    errors[index] = f"time: {error}"
                    ticks.append(None)
        return np.array([np.nan if tick is None else self._time(tick) for tick in ticks], np.float64), errors

    def now(self) -> float | None:
        """Returns the time of the machine's clock; None if times are not dates, or none was read yet."""
        if not self.dates or self.origin is None:
            return None
        return self._time(int(datetime.now(timezone.utc).timestamp() * 1e6) * 1000)

    def seconds(self, seconds: float) -> float:
        """Returns a duration in the model's unit, for dates."""
        return seconds / self._scale

    def _time(self, tick: float) -> float:
        if self.origin is None:
            self.origin = int(tick) if self.dates or abs(tick) > _EXACT else 0
        return (tick - self.origin) / (self._scale * _NANO if self.dates else self._scale)

    # ---- from cells to ticks: nanoseconds since 1970 for dates, otherwise numbers --------------------------

    def _column(self, cells: Any) -> list[Any] | None:
        """Returns the ticks of an array or a frame's column; None if they have to be read one by one."""
        try:
            return self._ticks(moments_of("time", cells, self._format, self._unit_option))
        except _UNREADABLE:
            return None

    def _tick(self, cell: Any) -> float:
        if cell is None or cell == "" or cell != cell:
            raise ValueError("the time is missing")
        kind = type(cell)
        if kind is str and self.dates and self._format is None and (fields := _ISO.fullmatch(cell)):
            instant = _instant(fields)
            if instant is not None:
                return self._instant(cell, instant, fields[8] is not None)
        if kind is datetime and self.dates:
            naive = cell if cell.tzinfo is None else cell.astimezone(timezone.utc)
            instant = calendar.timegm(naive.timetuple()) * _NANO + naive.microsecond * 1000
            return self._instant(cell, instant, cell.tzinfo is not None)
        if kind in (int, float) and self._format == NUMBER and math.isfinite(cell):
            return cell
        if kind is int and self._format in EPOCHS:
            return self._instant(cell, cell * (_NANO // int(EPOCHS[self._format])), zoned=True)
        if isinstance(cell, bool):
            raise ValueError(f"{cell} is not a time")
        try:
            moments = moments_of("time", [cell], self._format, self._unit_option)
        except _UNREADABLE:
            raise ValueError(f"{shown(cell)} is not a time as in training: {self._expected()}") from None
        return self._ticks(moments, cell)[0]

    def _ticks(self, moments: Moments, cell: Any = "") -> list[Any]:
        other_format = moments.format not in ("", self._format or "")
        if (
            moments.instants != self.dates
            or other_format
            or (moments.rate is not None and not (self.dates or self._durations))
        ):
            raise ValueError(f"{shown(cell)} is not a time as in training: {self._expected()}")
        ticks = moments.ticks.tolist()
        if not self.dates:
            return ticks if moments.rate is None else [tick / moments.rate for tick in ticks]
        factor = _NANO // int(moments.rate or 1)
        return [self._instant(cell, tick * factor, moments.zoned) for tick in ticks]

    def _instant(self, cell: Any, instant: int, zoned: bool) -> int:
        if zoned != self._zoned:
            raise ValueError(f"{shown(cell)} has {'a' if zoned else 'no'} time zone: {self._expected()}")
        return instant

    def _expected(self) -> str:
        form = f" in the form {self._format}" if self._format and self._format != NUMBER else ""
        if not self.dates:
            return f"it has {'times' if form else 'numbers'}{form}"
        zone = "with" if self._zoned else "without"
        return f"it has dates {zone} a time zone{form or ' such as 2024-01-31 12:00'}"

    # ---- files --------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Returns what must be stored with the states, as JSON data."""
        return {"origin": self.origin, "zoned": self._zoned, "dates": self.dates, "unit": self._unit}

    def checked(self, facts: Any) -> int | None:
        """Returns what `restore` takes of facts that `facts` returned; rejects those of other times."""
        given = parse(dict[str, Any], facts, "times")
        if (given.get("dates"), given.get("unit")) != (self.dates, self._unit):
            raise ValueError("times: the times of the states are not of the kind and unit of the model.")
        if parse(bool, given.get("zoned"), "times.zoned") != self._zoned:
            raise ValueError("times.zoned: the times of the states and of the model differ in having a time zone.")
        return parse(int | None, given.get("origin"), "times.origin")

    def restore(self, origin: int | None) -> None:
        """Continues on the clock of states."""
        self.origin = origin


class Newest:
    """The newest time that the ids of a stream agree on.

    A time that is at most `reach` ahead counts at once. Times further ahead count when three ids (all, if there are
    fewer; twice the only one) have sent such times one after another, without an observation of the present in between.

    Args:
        reach: Largest lead of a time that counts at once.

    Attributes:
        time: The newest time; -inf before there are enough observations.

    Example:
        >>> newest = Newest(reach=10)
        >>> for name, time in [("a", 1), ("b", 2), ("c", 2), ("a", 900), ("a", 901), ("b", 3)]:
        ...     newest.see([name], np.array([float(time)]), num_ids=3)
        >>> newest.time
        3.0
        >>> newest.see(["a", "b", "c"], np.array([902.0, 903.0, 905.0]), num_ids=3)
        >>> newest.time
        902.0
    """

    def __init__(self, reach: float):
        self.reach = reach
        self.time = -np.inf
        self._ahead: dict[Hashable, float] = {}  # times of the ids that are ahead

    def see(self, ids: Sequence[str], times: NDArray[np.float64], num_ids: int) -> None:
        """Takes the times of observations in the order of arrival, of a stream with `num_ids` ids."""
        latest = float(times.max())
        if latest <= self.time + self.reach:
            self.time = max(self.time, latest)
            self._ahead.clear()
            return
        needed = min(max(num_ids, 2), _WITNESSES)
        for name, time in zip(ids, times.tolist(), strict=True):
            if time <= self.time + self.reach:
                self.time = max(self.time, time)
                self._ahead.clear()
                continue
            self._ahead[name if num_ids > 1 else len(self._ahead)] = time
            if len(self._ahead) == needed:
                self.time = min(self._ahead.values())
                self._ahead.clear()


def _instant(fields: re.Match[str]) -> int | None:
    """Returns nanoseconds since 1970; None if there is no such date."""
    try:
        date = datetime(*(int(fields[n] or 0) for n in range(1, 7)))  # pyrefly: ignore
    except ValueError:
        return None
    seconds = calendar.timegm(date.timetuple())
    zone = fields[8]
    if zone not in (None, "Z"):
        minutes = 60 * int(zone[1:3]) + int(zone[-2:])
        seconds -= (-60 if zone[0] == "-" else 60) * minutes
    return seconds * _NANO + int((fields[7] or "").ljust(9, "0"))
