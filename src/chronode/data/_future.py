"""Inputs that are known over the horizon of a forecast: columns of the file, and features of the calendar."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named
from ._names import counted, known_columns, listed
from ._sequences import Sequences
from ._times import Clock

_ENOUGH = 400  # dates that show whether they follow a calendar
_USUAL = 0.8  # share of the steps between weekdays that are one weekday long; the others skip holidays


def future_times(s: Sequences, horizon: int) -> NDArray[np.float64]:
    """Returns the times of the next `horizon` steps of each series, `(N, horizon)`.

    They follow at the median gap of the series. Dates that are whole months apart, ends of months included, continue in
    whole months, and those from Monday to Friday on weekdays.

    Example:
        >>> from chronode.data import from_list
        >>> future_times(from_list([[1.0, 2.0, 3.0]], times=[[0.0, 2.0, 4.0]]), 2).tolist()
        [[6.0, 8.0]]
    """
    usual, times = s.median_gap() or 1.0, []
    for series in s:
        later = _by_calendar(s.clock, series.times, horizon)
        if later is None:
            gaps = np.diff(series.times)
            gap = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else usual
            later = series.times[-1] + gap * np.arange(1, horizon + 1)
        times.append(later)
    return np.array(times)


def instants(clock: Clock, times: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Returns times as dates."""
    origin = np.datetime64(str(clock.origin).rstrip("Z"), "us")
    return origin + np.round(times * clock.scale * 1e6).astype("m8[us]")


def _by_calendar(clock: Clock, times: NDArray[np.float64], horizon: int) -> NDArray[np.float64] | None:
    """Returns the next times of dates that follow a calendar; None for others."""
    if not clock.dates or len(times) < 2:
        return None
    moments = instants(clock, times[-_ENOUGH:])
    days = moments.astype("M8[D]")
    if ((moments - days) != moments[0] - days[0]).any():  # at another time of the day
        return None
    later = _later_days(days, np.arange(1, horizon + 1))
    return None if later is None else times[-1] + (later - days[-1]) / np.timedelta64(1, "s") / clock.scale


def _later_days(days: NDArray[np.datetime64], ahead: NDArray[np.int64]) -> NDArray[np.datetime64] | None:
    """Returns the days this many steps after the last one: same days or ends of months, or weekdays."""
    months = days.astype("M8[M]")
    steps, within = np.diff(months).astype(np.int64), days - months.astype("M8[D]")
    if steps[0] > 0 and (steps == steps[0]).all():
        later = months[-1] + (steps[0] * ahead).astype("m8[M]")
        if (within == within[0]).all():
            return later.astype("M8[D]") + within[0]
        if ((days + 1).astype("M8[M]") > months).all():
            return (later + 1).astype("M8[D]") - 1
    weekends_are_skipped = np.is_busday(days).all() and (np.diff(days) == np.timedelta64(3, "D")).any()
    if weekends_are_skipped and (np.busday_count(days[:-1], days[1:]) == 1).mean() >= _USUAL:
        return np.busday_offset(days[-1], ahead)
    return None


_DAY = 86400.0
_PERIODS = {"hour": _DAY, "weekday": 7 * _DAY, "yearday": 365.25 * _DAY}
_HOLIDAY = "holiday "
_NEAR = 4  # days
_CYCLES = 2  # of a period must be seen, so that it is not confused with a trend


def future_names(known: Sequence[str], horizon: int) -> tuple[str, ...]:
    """Returns the names of the static values of a window that hold known inputs: "price+1", "price+2", ...

    Example:
        >>> future_names(["price", "holiday"], 2)
        ('price+1', 'holiday+1', 'price+2', 'holiday+2')
    """
    return tuple(f"{name}+{ahead}" for ahead in range(1, horizon + 1) for name in known)


def forecast_channels(s: Sequences, channels: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Returns the channels to forecast: those asked for, or all whose future is not known.

    Example:
        >>> from chronode.data import from_list
        >>> forecast_channels(from_list([[[1.0, 5.0]]], channels=["units", "price"]), [], ["price"])
        ('units',)
    """
    inputs = known_columns(known, s.channels, "known")
    targets = tuple(known_columns(channels, s.channels, "channels"))
    targets = targets or tuple(name for name in s.channels if name not in inputs)
    if both := set(targets) & set(inputs):
        raise ValueError(f"known contains {listed(sorted(both))}, which is to be forecast: name it in one of both.")
    if not targets:
        raise ValueError("all channels are known: there is nothing left to forecast.")
    return targets


def calendar_periods(s: Sequences) -> tuple[str, ...]:
    """Returns the periods of the calendar that the steps of these series resolve, and of which they cover two.

    Example:
        >>> from chronode.data import from_list
        >>> days = [np.datetime64("2024-01-01") + np.arange(60)]
        >>> calendar_periods(from_list([np.zeros(60)], times=days))
        ('weekday',)
    """
    gap = s.median_gap()
    if not s.clock.dates or gap is None or s.base_times is None:
        raise SettingError(
            f"{named('calendar')} needs dates, but the times are "
            f"{'missing' if s.base_times is None else s.clock.unit_text()}: pass a column of dates, "
            f"{named('time', ...)}, or omit calendar.",
            argument="calendar",
        )
    used = s.sample.times
    span, step = float(np.ptp(used)) * s.clock.scale, gap * s.clock.scale
    periods = tuple(name for name, period in _PERIODS.items() if span >= _CYCLES * period and step <= period / 3)
    if not periods:
        raise ValueError("calendar has no effect: the dates cover less than two days, weeks or years; omit calendar.")
    return periods


def holiday_periods(s: Sequences, place: str) -> tuple[str, ...]:
    """Returns the period of the calendar that holds public holidays, after checking that the dates resolve them.

    Args:
        s: Series.
        place: Country, or country and subdivision, such as "US" or "US-CA".
    """
    gap, shown = s.median_gap(), named("holidays", place)
    if not s.clock.dates or gap is None or s.base_times is None:
        raise SettingError(f"{shown} needs dates: pass a column of dates, {named('time', ...)}.", argument="holidays")
    if gap * s.clock.scale > _DAY:
        raise SettingError(
            f"{shown} needs steps of a day or less, here they are {gap:.3g} {s.clock.unit_text()}: omit it.",
            argument="holidays",
        )
    period = f"{_HOLIDAY}{place.upper()}"
    if not _waves(s, s.sample.times, [period])[..., 0].any():
        raise SettingError(f"{shown}: no date of the series is a holiday there: omit it.", argument="holidays")
    return (period,)


def holiday_place(periods: Sequence[str]) -> str | None:
    """Returns the place whose holidays are among periods of the calendar; None if there are none.

    Example:
        >>> holiday_place(["weekday", "holiday US-CA"])
        'US-CA'
    """
    return next((name.removeprefix(_HOLIDAY) for name in periods if name.startswith(_HOLIDAY)), None)


@functools.lru_cache(maxsize=16)
def _holidays(place: str, first: int, last: int) -> NDArray[np.datetime64]:
    """Returns the public holidays of a country or subdivision from one year to another, sorted."""
    try:
        holidays = importlib.import_module("holidays")
    except ModuleNotFoundError:
        raise ImportError(
            f"{named('holidays', place)} needs the package holidays: pip install 'chronode[holidays]'"
        ) from None
    country, _, part = place.partition("-")
    try:
        days = holidays.country_holidays(country, subdiv=part or None, years=range(first, last + 1))
    except (NotImplementedError, AttributeError) as error:
        known = holidays.list_supported_countries()
        which = known.get(country, ()) if part else known
        names = ", ".join(f"{country}-{name}" if part else name for name in list(which)[:8])
        raise SettingError(
            f"{named('holidays', place)} is not known to the package holidays",
            argument="holidays",
            cure=f"pass one of its places, such as {names}",
        ) from error
    return np.sort(np.array(list(days), dtype="M8[D]"))


def _of_holidays(place: str, days: NDArray[np.datetime64]) -> list[NDArray[np.float64]]:
    """Returns whether days are holidays, and how near the next or last one is: 1 on it, 0 from 4 days on."""
    if not days.size:
        return [np.zeros(days.shape)] * 2
    years = [int(str(end.astype("M8[Y]"))) for end in (days.min() - _NEAR, days.max() + _NEAR)]
    free = _holidays(place, *years)
    after = np.clip(np.searchsorted(free, days), 0, max(len(free) - 1, 0))
    if not len(free):
        return [np.zeros(days.shape)] * 2
    apart = [np.abs((free[at] - days).astype(np.int64)) for at in (after, np.maximum(after - 1, 0))]
    distance = np.minimum(*apart)
    return [(distance == 0).astype(np.float64), np.clip(1 - distance / _NEAR, 0, 1)]


def with_calendar(s: Sequences, periods: Sequence[str]) -> Sequences:
    """Returns series with a sine and a cosine of each period as additional channels."""
    if not periods:
        return s
    base = np.zeros(len(s.base_values)) if s.base_times is None else s.base_times
    values = np.concatenate([s.base_values, _waves(s, base, periods).astype(s.base_values.dtype)], axis=1)
    return replace(s, base_values=values, channels=(*s.channels, *calendar_names(periods)))


def calendar_names(periods: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the channels of `with_calendar`.

    Example:
        >>> calendar_names(["weekday", "holiday US"])
        ('weekday sin', 'weekday cos', 'holiday US', 'near holiday US')
    """
    names: list[str] = []
    for name in periods:
        names += [name, f"near {name}"] if name.startswith(_HOLIDAY) else [f"{name} sin", f"{name} cos"]
    return tuple(names)


def _waves(s: Sequences, times: NDArray[np.float64], periods: Sequence[str]) -> NDArray[np.float64]:
    """Returns `(..., 2 P)` sines and cosines at these times; of holidays, whether it is one, and how near one is."""
    moments = instants(s.clock, times)
    days = (moments - moments.astype("M8[D]")) / np.timedelta64(1, "D")
    phases = {
        "hour": days,
        "weekday": ((moments.astype("M8[D]").astype(np.int64) + 3) % 7 + days) / 7,  # 1970-01-01 was a Thursday
        "yearday": (moments - moments.astype("M8[Y]")) / np.timedelta64(1, "D") / 365.25,
    }
    columns: list[NDArray[np.float64]] = []
    for name in periods:
        if name.startswith(_HOLIDAY):
            columns += _of_holidays(name.removeprefix(_HOLIDAY), moments.astype("M8[D]"))
        else:
            columns += [wave(2 * np.pi * phases[name]) for wave in (np.sin, np.cos)]
    return np.stack(columns, axis=-1)


def with_future(
    s: Sequences, horizon: int, targets: Sequence[str], known: Sequence[str], periods: Sequence[str]
) -> Sequences:
    """Returns series that end with the last value to forecast; known inputs after it become static values.

    Args:
        s: Series with the channels of `with_calendar`, if there are periods. Rows after the last target hold known
            inputs.
        horizon: Number of steps ahead.
        targets: Channels to forecast.
        known: Columns whose future values are known; NaN where there is no row or no value.
        periods: Periods of the calendar.
    """
    names = future_names([*known, *calendar_names(periods)], horizon)
    if not names or set(names) <= set(s.static_names):
        return s
    short = without_future(s, targets)
    later = s.lengths - short.lengths  # rows of the future
    rows = (short.starts + short.lengths)[:, None] + np.arange(horizon)
    inside = np.arange(horizon) < later[:, None]
    rows = np.where(inside, rows, 0)
    inputs = s.base_values[rows][..., [s.channels.index(name) for name in known]].astype(np.float64)
    inputs[~inside] = np.nan
    if periods:
        times = future_times(short, horizon)
        if s.base_times is not None:
            times = np.where(inside, s.base_times[rows], times)
        inputs = np.concatenate([inputs, _waves(s, times, periods)], axis=-1)
    return _add_static(short, inputs.reshape(len(s), -1), names)


def without_future(s: Sequences, targets: Sequence[str]) -> Sequences:
    """Returns series that end with the last value of a channel to forecast.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[[1.0, 5.0], [np.nan, 6.0]]], channels=["units", "price"])
        >>> without_future(s, ["units"]).lengths.tolist()
        [1]
    """
    at = [s.channels.index(name) for name in targets]
    return replace(s, lengths=np.array([_known_steps(series.values[:, at]) for series in s]))


def followed(s: Sequences, horizon: int) -> Sequences:
    """Returns shortened series with known inputs from the rows that follow them in their base arrays."""
    rows = (s.starts + s.lengths)[:, None] + np.arange(horizon)
    return s if s.static is None else replace(s, static=filled_future(s.static, s.static_names, s, rows))


def filled_future(static: NDArray[Any], names: Sequence[str], s: Sequences, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Returns static values `(N, S)` of windows whose known inputs are those of the base rows `(N, horizon)`."""
    filled = np.array(static)
    for column, name in enumerate(names):
        channel, ahead = future_place(name, s.channels)
        if channel is not None and ahead <= rows.shape[1]:
            filled[:, column] = s.base_values[rows[:, ahead - 1], channel]
    return filled


def future_place(name: str, channels: Sequence[str]) -> tuple[int | None, int]:
    """Returns the channel whose known value a static value holds, and how many steps ahead; (None, 0) for others."""
    channel, plus, ahead = name.rpartition("+")
    return (channels.index(channel), int(ahead)) if plus and ahead.isdigit() and channel in channels else (None, 0)


def known_channels(s: Sequences) -> tuple[int, ...]:
    """Returns the channels whose values over the horizon are among the static values of windows."""
    places = [future_place(name, s.channels) for name in s.static_names]
    return tuple(channel for channel, ahead in places if channel is not None and ahead == 1)


def check_future(s: Sequences, horizon: int, known: Sequence[str]) -> None:
    """Rejects series to forecast from whose known inputs are not given for the whole horizon."""
    names = future_names(known, horizon)
    if not names:
        return
    assert s.static is not None
    static = s.static[:, [s.static_names.index(name) for name in names]].reshape(len(s), horizon, -1)
    gone: NDArray[np.bool_] = np.asarray(np.isnan(static).any(-1))
    if not gone.any():
        return
    row = int(gone.any(1).argmax())
    step = int(gone[row].argmax())
    end = s.times[np.cumsum(s.lengths)[row] - 1]
    first, wanted, last = s.clock.written(np.array([end, *future_times(s[[row]], horizon)[0, [step, -1]]]))
    missing = [name for name, value in zip(known, static[row, step], strict=True) if np.isnan(value)]
    raise SettingError(
        f"series {s.ids[row]!s} ends at {first}; a forecast of {counted(horizon, 'step')} needs rows until {last} with "
        f"the known inputs {listed(known)} and empty cells to forecast, but {listed(missing)} has no value at "
        f"{wanted}. Add these rows, or train without {named('known', ...)}",
        argument="known",
    )


def _known_steps(values: NDArray[Any]) -> int:
    """Returns the number of steps up to the last one with a value."""
    steps = np.flatnonzero(~np.isnan(values).all(1))
    return int(steps[-1]) + 1 if len(steps) else len(values)


def _add_static(s: Sequences, values: NDArray[Any], names: Sequence[str]) -> Sequences:
    values = values.astype(s.base_values.dtype)
    static = values if s.static is None else np.concatenate([s.static.astype(values.dtype), values], axis=1)
    return replace(s, static=static, static_names=(*s.static_names, *names))
