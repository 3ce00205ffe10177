"""Times of observations: conversion of numbers or instants to float64 in a suitable unit."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named, near, number

NUMBER = "number"
"""Format of times that are plain numbers."""
QUARTER, WEEK, ELAPSED = "quarter", "week", "elapsed"
EPOCHS = {"epoch s": 1.0, "epoch ms": 1e3, "epoch us": 1e6, "epoch ns": 1e9}
"""Formats of times since 1970, with the number of their units in a second."""
NAMED = (NUMBER, *EPOCHS, QUARTER, WEEK, ELAPSED)
"""Formats besides those of `strptime`: plain numbers, time since 1970, "1970 Q1", "2024-W05", "36:05" (h:mm)."""

QUARTER_TEXT = re.compile(
    r"(?P<year>\d{4})[ -]?Q(?P<quarter>[1-4])|Q(?P<quarter_>[1-4])[ -]?(?P<year_>\d{4})", re.IGNORECASE
)
ELAPSED_TEXT = re.compile(r"(?:(\d+) days? )?(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
MINUTES_TEXT = re.compile(r"(\d+):([0-5]\d\.\d+)")
WEEK_TEXT = re.compile(r"(\d{4})[ -]?W(\d{2})", re.IGNORECASE)
# pandas reads these as the current time.
_NOT_DATES = ("now", "today")
SECONDS = {
    "nanosecond": 1e-9,
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 7 * 86400.0,
    "year": 365.25 * 86400.0,
}
_SHORT = {"ns": "nanosecond", "us": "microsecond", "µs": "microsecond", "ms": "millisecond", "s": "second"}
_SHORT |= {"sec": "second", "min": "minute", "h": "hour", "hr": "hour", "d": "day", "w": "week", "y": "year"}
# A median gap within this range needs no multiple of a unit.
_LEAST, _MOST = 0.1, 10.0


class Moments(NamedTuple):
    """Times exactly as given.

    Attributes:
        ticks: `(rows,)` int64 or float64.
        rate: Ticks per second; None where the times are plain numbers.
        instants: Whether the ticks count from 1970-01-01 (dates) instead of an arbitrary origin.
        zoned: Whether the instants had a time zone and are UTC.
        format: Format of dates that are not ISO 8601; see `NAMED`.
        notes: Interpretation of the times, if there was a choice.
    """

    ticks: NDArray[Any]
    rate: float | None = None
    instants: bool = False
    zoned: bool = False
    format: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clock:
    """Meaning of the times of `Sequences`: `time = origin + t * scale`.

    Attributes:
        unit: Name of the unit: "hour", "10 milliseconds", "100000" (plain numbers), "step" (no times).
        scale: Size of the unit: in seconds for dates and durations, otherwise in the given numbers.
        origin: Meaning of t = 0: an ISO date (with Z if UTC), or a number.
        format: Format in which dates that are not ISO 8601 were read: a `strptime` format, or "epoch s", "quarter",
            ...; "elapsed" for durations as text.

    Example:
        >>> Clock("hour", 3600.0, "2024-01-31T12:00:00Z").at(36.0)
        '2024-02-02T00:00:00.000Z'
    """

    unit: str = "step"
    scale: float = 1.0
    origin: str | int = 0
    format: str = ""

    def __post_init__(self) -> None:
        number("scale", self.scale, above=0)

    @property
    def dates(self) -> bool:
        """Whether the times are calendar dates."""
        return isinstance(self.origin, str)

    def at(self, t: float) -> str | float:
        """Returns the original time of `t`: an ISO date (to the millisecond) or a number."""
        if not isinstance(self.origin, str):
            return self.origin + t * self.scale
        instant = _instant(self.origin) + np.timedelta64(round(t * self.scale * 1e6), "us")
        return f"{np.datetime_as_string(instant, 'ms')}{'Z' if self.origin.endswith('Z') else ''}"

    def written(self, times: NDArray[np.float64]) -> list[Any]:
        """Formats times as in the source: numbers, ISO dates to the second or millisecond, or in the source's own
        format.

        Example:
            >>> Clock("hour", 3600.0, "2024-01-31T12:00:00Z").written(np.array([0.0, 1.5]))
            ['2024-01-31T12:00:00Z', '2024-01-31T13:30:00Z']
        """
        if not isinstance(self.origin, str) and self.format:
            return write_elapsed(self.origin + times * self.scale)
        if not isinstance(self.origin, str):
            # The last digit is an artifact of the division by the unit.
            return [float(f"{self.origin + t * self.scale:.15g}") for t in times.tolist()]
        instants = _instant(self.origin).astype("M8[us]") + np.round(times * self.scale * 1e6).astype("m8[us]")
        if self.format:
            return write_dates(instants, self.format)
        whole = (instants == instants.astype("M8[s]")).all()
        zone = "Z" if self.origin.endswith("Z") else ""
        return [f"{text}{zone}" for text in np.datetime_as_string(instants, "s" if whole else "ms").tolist()]

    def parsed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Returns times that are written as in the source; the inverse of `written`.

        Example:
            >>> Clock("hour", 3600.0, "2024-01-31T12:00:00").parsed(["2024-01-31T13:30", "2024-02-01"]).tolist()
            [1.5, 12.0]
        """
        try:
            if not isinstance(self.origin, str):
                numbers = parse_elapsed(texts) / 1e6 if self.format else np.array([float(text) for text in texts])
                return (numbers - self.origin) / self.scale
            if self.format:
                if self.format in EPOCHS:
                    ticks, rate = np.array([float(text) for text in texts]), EPOCHS[self.format]
                else:
                    ticks, rate, _ = parse_dates(texts, self.format)
                instants = np.round(ticks / (rate / 1e6)).astype(np.int64).astype("M8[us]")
            else:
                instants = np.array([_instant(text) for text in texts]).astype("M8[us]")
            return (instants - _instant(self.origin)) / np.timedelta64(1, "us") * 1e-6 / self.scale
        except ValueError as error:
            example = str(self.written(np.zeros(1))[0]).removesuffix("T00:00:00")
            given = ",".join(texts)
            raise SettingError(
                f"{named('at', given)}: times must be written as in the data, such as {example}.", argument="at"
            ) from error

    def offset(self, other: Clock) -> tuple[float, float]:
        """Returns (factor, shift) that convert times of `other` to this clock: `t * factor + shift`."""
        if self.dates != other.dates or (self.unit == "step") != (other.unit == "step"):
            raise ValueError(
                f"different kinds of times cannot be combined: {self.unit_text()} and {other.unit_text()}."
            )
        if isinstance(self.origin, str) and isinstance(other.origin, str):
            if self.origin.endswith("Z") != other.origin.endswith("Z"):
                raise ValueError("dates with a time zone cannot be combined with dates without one.")
            between = (_instant(other.origin) - _instant(self.origin)) / np.timedelta64(1, "us") * 1e-6
            return other.scale / self.scale, float(between) / self.scale
        return other.scale / self.scale, float(int(other.origin) - int(self.origin)) / self.scale

    def unit_text(self) -> str:
        """Describes the unit: "hours", "1e+05 of the given numbers"."""
        if self.unit == "step":
            return "steps"
        if is_number(self.unit):
            return "the given numbers" if self.scale == 1 else f"{self.scale:g} of the given numbers"
        return self.unit if self.unit.endswith("s") else f"{self.unit}s"


STEPS = Clock()


# ---- text in one format ------------------------------------------------------------------------------------


def parse_dates(texts: Sequence[str], text_format: str) -> tuple[NDArray[np.int64], float, bool]:
    """Returns (ticks since 1970, ticks per second, whether they had a zone and are UTC) for texts in one `strptime`
    format, or "quarter" or "week"; a ValueError if a text does not match it, or if it is invalid.
    """
    import pandas

    if text_format == QUARTER:
        parts = [
            (m["year"] or m["year_"], m["quarter"] or m["quarter_"]) for m in _matched(QUARTER_TEXT, texts, "quarter")
        ]
        texts, text_format = [f"{year}-{3 * int(quarter) - 2}" for year, quarter in parts], "%Y-%m"
    elif text_format == WEEK:
        texts, text_format = [f"{m[1]}-{m[2]}-1" for m in _matched(WEEK_TEXT, texts, "week")], "%G-%V-%u"
    elif "%" not in text_format:
        raise ValueError(f"{text_format!r} has no directive such as %Y")
    zoned = "%z" in text_format.lower()
    dates = pandas.to_datetime(list(texts), format=text_format, utc=zoned)
    if dates.hasnans or any(text.lower() in _NOT_DATES for text in texts):
        raise ValueError("a text is not a date")
    dates = dates.tz_localize(None) if zoned else dates
    unit, rate = ("ns", 1e9) if dates.unit == "ns" else ("us", 1e6)
    return dates.to_numpy().astype(f"M8[{unit}]").astype(np.int64), rate, zoned


def _matched(pattern: re.Pattern[str], texts: Sequence[str], what: str) -> list[re.Match[str]]:
    matches = [match for text in texts if (match := pattern.fullmatch(text))]
    if len(matches) < len(texts):
        wrong = next(text for text in texts if not pattern.fullmatch(text))
        raise ValueError(f"{wrong!r} is not a {what}")
    return matches


def parse_elapsed(texts: Sequence[str]) -> NDArray[np.int64]:
    """Returns the microseconds of "36:05" (hours and minutes), "36:05:07.5" (with seconds), "1 days 12:05:07" (as
    pandas writes durations), or of texts that are all such as "05:07.5" (minutes and seconds).

    Example:
        >>> parse_elapsed(["36:05", "0:00:07.5", "1 days 12:05:00"]).tolist(), parse_elapsed(["00:07.5"]).tolist()
        ([129900000000, 7500000, 129900000000], [7500000])
    """
    if all(MINUTES_TEXT.fullmatch(text) for text in texts):
        seconds = [60 * int(m[1]) + float(m[2]) for m in _matched(MINUTES_TEXT, texts, "time")]
    else:
        matches = _matched(ELAPSED_TEXT, texts, "time such as 36:05 or 36:05:07")
        seconds = [86400 * int(m[1] or 0) + 3600 * int(m[2]) + 60 * int(m[3]) + float(m[4] or 0) for m in matches]
    return np.round(np.array(seconds) * 1e6).astype(np.int64)


def write_elapsed(seconds: NDArray[np.float64]) -> list[str]:
    """Formats seconds as "36:05:07".

    Example:
        >>> write_elapsed(np.array([129907.0, 7.5]))
        ['36:05:07', '0:00:07.5']
    """
    whole = np.round(seconds * 1e6).astype(np.int64)
    parts = [(tick // 3_600_000_000, tick // 60_000_000 % 60, tick % 60_000_000 / 1e6) for tick in whole.tolist()]
    return [f"{hour}:{minute:02d}:{'0' if second < 10 else ''}{second:g}" for hour, minute, second in parts]


def write_dates(instants: NDArray[np.datetime64], text_format: str) -> list[Any]:
    """Formats instants in the format in which they were read; epochs are numbers.

    Example:
        >>> write_dates(np.array(["2024-01-31T12:00:00"], "M8[us]"), "%d.%m.%Y %H:%M")
        ['31.01.2024 12:00']
    """
    import pandas

    if text_format in EPOCHS:
        ticks = instants.astype("M8[us]").astype(np.int64) * (EPOCHS[text_format] / 1e6)
        whole = (ticks == np.round(ticks)).all()
        return ticks.astype(np.int64).tolist() if whole else ticks.tolist()
    dates = pandas.DatetimeIndex(instants)
    if text_format == QUARTER:
        return [f"{date.year}-Q{date.quarter}" for date in dates]
    if text_format == WEEK:
        text_format = "%G-W%V"
    return dates.strftime(text_format).tolist()


# ---- units -------------------------------------------------------------------------------------------------


def seconds_of(unit: str) -> tuple[str, float]:
    """Returns the full name and the length in seconds of a unit such as "hours", "h", "100 ms".

    Example:
        >>> seconds_of("100 ms")
        ('100 milliseconds', 0.1)
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*(?:e[+-]?\d+)?)?\s*([a-zµ]+)\s*", str(unit).lower())
    word = match[2] if match else ""
    name = _SHORT.get(word) or next((full for full in SECONDS if word in (full, full + "s")), None)
    if not match or name is None:
        raise SettingError(
            f"{named('unit', unit)} is not a unit of time; use e.g. {', '.join(SECONDS)}.{near(word, SECONDS)}",
            argument="unit",
        )
    count = float(match[1]) if match[1] else 1.0
    if not (math.isfinite(count) and count > 0):
        raise SettingError(f"{named('unit', unit)} must be greater than 0.", argument="unit")
    return (name if count == 1 else f"{count:g} {name}s"), count * SECONDS[name]


def to_clock(
    moments: Moments, gap: float | None, unit: str | float | None = None, origin: str | float | None = None
) -> tuple[NDArray[np.float64], Clock]:
    """Converts times to float64 in `unit`, or in a unit in which the median gap is about 1.

    Args:
        moments: The times as given.
        gap: Median gap in ticks; None if there is none.
        unit: A name such as "hours" or "100 ms" for dates and durations; for plain numbers a size (a name then
            only describes the numbers).
        origin: Time that counts as 0, as in a clock; by default the first date, and for numbers 0 unless they are huge.

    Example:
        >>> days = np.array(["2024-01-01T00:00", "2024-01-01T00:47"], "datetime64[ns]").astype(np.int64)
        >>> times, clock = to_clock(Moments(days, 1e9, instants=True), gap=47 * 60e9)
        >>> clock.unit, times.round(3).tolist()
        ('hour', [0.0, 0.783])
    """
    clock = replace(_pick(moments, gap, unit), format=moments.format)
    ticks = moments.ticks
    if ticks.dtype == np.int64 and len(ticks):
        low, high = int(ticks.min()), int(ticks.max())
        if high - low >= 2**63:
            raise ValueError("the range of the times exceeds 64-bit numbers.")
        if moments.instants:
            low = low if origin is None else _tick(str(origin), moments)
            clock = replace(clock, origin=_iso(low, moments))
            ticks = ticks - low
        elif origin:
            clock = replace(clock, origin=int(origin))
            ticks = ticks - int(origin)
        elif max(-low, high) > 2**53:  # beyond this, float64 cannot represent all whole numbers
            clock = replace(clock, origin=low)
            ticks = ticks - low
    times = ticks.astype(np.float64)
    times /= clock.scale * (1.0 if moments.rate is None else moments.rate)
    return times, clock


def median_gap(ticks: NDArray[Any], lengths: NDArray[np.int64]) -> float | None:
    """Returns the median of the positive gaps within consecutive series in `ticks`."""
    gaps = np.diff(ticks)
    if not len(gaps):
        return None
    ends = np.cumsum(lengths)[:-1]
    gaps[ends[(ends > 0) & (ends < len(ticks))] - 1] = 0
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else None


def _pick(moments: Moments, gap: float | None, unit: str | float | None) -> Clock:
    """Returns a clock with the requested unit, or with one that suits the median gap."""
    if moments.rate is None:
        if isinstance(unit, str) and not is_number(unit):
            return Clock(seconds_of(unit)[0], 1.0)
        if unit is not None:
            scale = float(unit)
            if not (math.isfinite(scale) and scale > 0):
                raise SettingError(
                    f"{named('unit', unit)} must be a number greater than 0, or a name such as 'hours'.",
                    argument="unit",
                )
        else:
            scale = 1.0 if gap is None or _LEAST <= gap <= _MOST else 10.0 ** round(math.log10(gap))
        return Clock(f"{scale:g}", scale)
    if unit is not None:
        if isinstance(unit, (int, float)) or is_number(unit):
            raise SettingError(
                f"{named('unit', unit)} is a number, but the times are dates or durations; use e.g. 'hours'.",
                argument="unit",
            )
        return Clock(*seconds_of(unit))
    seconds = 1.0 if gap is None else gap / moments.rate
    name = min(SECONDS, key=lambda name: abs(math.log(seconds / SECONDS[name])))
    ratio = seconds / SECONDS[name]
    if _LEAST <= ratio <= _MOST:
        return Clock(name, SECONDS[name])
    count = 10.0 ** round(math.log10(ratio))
    return Clock(f"{count:g} {name}s", count * SECONDS[name])


def _iso(tick: int, moments: Moments) -> str:
    text = str(np.array(tick, dtype=_type(moments)))
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}{'Z' if moments.zoned else ''}"


def _tick(text: str, moments: Moments) -> int:
    return int(_instant(text).astype(_type(moments)).astype(np.int64))


def _type(moments: Moments) -> str:
    """Returns the numpy type of dates with these ticks."""
    unit = {1e9: "ns", 1e6: "us", 1e3: "ms"}.get(moments.rate or 1.0, "s")
    return f"M8[{unit}]"


def _instant(text: str) -> np.datetime64:
    return np.datetime64(text.rstrip("Z"))


def is_number(text: str) -> bool:
    """Returns whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
