"""Forecasts, as the command line and the estimator make them: windows, parts and scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Scaler, Sequences, counted, forecast_windows, future_times, is_irregular, split, usable_windows
from ..model.start import is_short, season_of
from ..settings import SettingError, named

_MOST_WINDOWS = 20_000
_MOST_TIMES = 4_000_000
_LEAST_PANEL, _LEAST_HORIZONS = 200, 8
_LEAST_WINDOW, _USUAL_WINDOW, _LONG_WINDOW, _MOST_WINDOW = 8, 32, 156, 400


def default_window(
    s: Sequences,
    horizon: int,
    channels: Sequence[str],
    shares: Sequence[float] = (1.0,),
    *,
    by_time: bool = False,
    seed: int = 0,
) -> int:
    """Returns how many steps a forecast looks back: three seasons, twice the horizon, or 32 steps, whichever is more.

    Of long seasons, such as the 168 hours of a week, it is one with a seventh of the next. Half of the median
    length of the series is the most, so that enough windows remain to learn from. Of a single short series, of which
    only a linear model is fitted, it is the whole length. The season is that of the training part: the other
    arguments are those of `forecast_parts`.

    Example:
        >>> from chronode.data import from_list
        >>> year = np.sin(2 * np.pi * np.arange(600) / 52)
        >>> [default_window(from_list([own], channels=["x"]), 4, ["x"]) for own in (year, year[:200])]
        [156, 200]
    """
    if is_short(s) and s.num_channels == 1 and not s.has_missing:
        return max(int(s.lengths.max()), _LEAST_WINDOW)
    if by_time:
        s = s.sample
    train = _training_series(s, horizon, [share for share in shares if share > 0], by_time, seed)
    season = season_of(train.sample, [s.channels.index(name) for name in channels])
    seasonal = min(3 * season, max(_LONG_WINDOW, 8 * season // 7))
    wanted = min(max(seasonal, 2 * horizon, _USUAL_WINDOW), _MOST_WINDOW)
    most = float(np.median(s.lengths)) // 2
    return int(max(min(wanted, most), _LEAST_WINDOW))


def is_panel(s: Sequences, horizon: int) -> bool:
    """Returns whether these are several series whose own past says much about their future: regular ones of which most
    are long. They are then divided by time, and each may have a linear map of its own.

    Example:
        >>> from chronode.data import from_list
        >>> [is_panel(from_list([np.zeros(steps)] * 3), 5) for steps in (60, 300)]
        [False, True]
    """
    if len(s) < 2 or s.is_stored or is_irregular(s) or len(np.unique(s.groups)) < len(s):
        return False
    return float(np.median(s.lengths)) >= max(_LEAST_PANEL, _LEAST_HORIZONS * horizon)


def _training_series(s: Sequences, horizon: int, shares: Sequence[float], by_time: bool, seed: int) -> Sequences:
    """Returns the series of the training part, or of each series the steps that belong to it."""
    if len(shares) < 2:
        return s
    if not by_time:
        return split(s, shares, seed=seed)[0]
    s = s if s.base_times is not None else _counted_back(s)
    end = _cuts(s, horizon, np.asarray(shares, dtype=np.float64))[0][1]
    lengths = np.add.reduceat(s.times < end, np.cumsum(s.lengths) - s.lengths, dtype=np.int64)
    kept = lengths > 0
    return replace(s[kept], lengths=lengths[kept])


def _counted_back(s: Sequences) -> Sequences:
    """Returns series without times with the steps to their ends as times: they may begin at different ones."""
    if s.is_stored or len(s) == 1:
        return s
    times = np.zeros(len(s.base_values))
    for start, length in zip(s.starts.tolist(), s.lengths.tolist(), strict=True):
        times[start : start + length] = np.arange(-length, 0)
    return replace(s, base_times=times)


def forecast_parts(
    s: Sequences,
    horizon: int,
    channels: Sequence[str],
    shares: Sequence[float],
    *,
    window: int,
    stride: int = 0,
    by_time: bool,
    seed: int = 0,
) -> list[Sequences]:
    """Divides series into parts of windows with what follows them as target.

    Args:
        s: Series without a target.
        horizon: Number of steps ahead.
        channels: Channels to forecast.
        shares: Shares of the parts, training first; a part with share 0 is empty.
        window: Number of steps that a forecast looks back.
        stride: Steps from one window to the next; 0 for 1, or more where there are very many windows.
        by_time: Whether a later part comes later in time; its windows look back into the parts before. Otherwise every
            part has series of its own.
        seed: Random seed of the division into series.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([np.arange(100.0)], channels=["x"])
        >>> parts = forecast_parts(s, 5, ["x"], (0.7, 0.15, 0.15), window=20, by_time=True)
        >>> [(len(part), int(part.target.values.min()), int(part.target.values.max())) for part in parts]
        [(46, 20, 69), (11, 70, 84), (11, 85, 99)]
    """
    options = {"window": window, "stride": stride or max(1, int(s.lengths.sum()) // _MOST_WINDOWS)}
    given = [share for share in shares if share > 0]
    timed = s.base_times is not None
    if by_time:
        s = s if timed else _counted_back(s)
        sources = [(s, cut) for cut in _cuts(s, horizon, np.asarray(given, dtype=np.float64))]
    else:
        sources = [(part, None) for part in (split(s, given, seed=seed) if len(given) > 1 else [s])]
    parts = _parts_of_windows(sources, horizon, channels, shares, options)
    if by_time and not timed:
        parts = [replace(part, base_times=None) for part in parts]
    if s.is_stored:  # the samples of the parts are windows in the same values, which are in memory
        groups = s.sample.groups
        few = [(s.sample[np.isin(groups, part.groups)], cut) for part, cut in sources]
        with suppress(SettingError):  # a part has no window among these series: it is sampled by itself
            for part, own in zip(parts, _parts_of_windows(few, horizon, channels, shares, options), strict=True):
                part.__dict__["sample"] = own
    return parts


def _parts_of_windows(
    sources: Sequence[tuple[Sequences, tuple[float, float] | None]],
    horizon: int,
    channels: Sequence[str],
    shares: Sequence[float],
    options: Mapping[str, int],
) -> list[Sequences]:
    """Returns the windows of each part: of its series, or of all series with targets between two times."""
    made = [forecast_windows(part, horizon, channels, **options, between=between) for part, between in sources]
    found = iter(made)
    parts = [next(found) if share > 0 else made[0][:0] for share in shares]
    # The test part is left as it is: nothing is learned from it.
    return [*usable_windows(parts[:2], [made[0].channels.index(name) for name in channels]), *parts[2:]]


def forecast_scaler(train: Sequences, channels: Sequence[str], **options: Any) -> Scaler:
    """Fits a scaler that treats every target as the channel that it continues; the options are those of `Scaler.fit`.

    Example:
        >>> from chronode.data import from_list
        >>> w = forecast_windows(from_list([[1.0, 3.0, 1.0, 3.0]], channels=["x"]), 2, window=2)
        >>> scaler = forecast_scaler(w, ["x"])
        >>> scaler.targets, scaler.target_mean == scaler.mean * 2
        (('x+1', 'x+2'), True)
    """
    assert train.target is not None
    options["target"] = False
    scaler = Scaler.fit(train, **options)
    at = [train.channels.index(name) for name in channels] * (len(train.target.names) // len(channels))
    mean, std = (tuple(numbers[i] for i in at) for numbers in (scaler.mean, scaler.std))
    shapes = tuple(scaler.shapes[i] for i in at) if scaler.shapes else ()
    return replace(scaler, targets=train.target.names, target_mean=mean, target_std=std, target_shapes=shapes)


def forecast_at(
    path: NDArray[np.float64], last: NDArray[np.float64], s: Sequences, wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns forecasts at given times, `(N, times, C)`: on straight lines between the steps of a forecast.

    Args:
        path: `(N, horizon, C)` forecasts of the next steps.
        last: `(N, C)` values at the last step of each series.
        s: The series.
        wanted: Times on the clock of `s`.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0]], times=[[0.0, 2.0]])
        >>> forecast_at(np.array([[[4.0], [8.0]]]), np.array([[2.0]]), s, np.array([3.0, 6.0])).ravel().tolist()
        [3.0, 8.0]
    """
    future = future_times(s, path.shape[1])
    ends = s.times[np.cumsum(s.lengths) - 1]
    forecasts = np.empty((len(s), len(wanted), path.shape[2]))
    for row, (end, times) in enumerate(zip(ends, future, strict=True)):
        late = wanted[(wanted <= end) | (wanted > times[-1] + 1e-9)]
        if len(late):
            first, most, wrong = s.clock.written(np.array([end, times[-1], late[0]]))
            raise SettingError(
                f"{named('at', wrong)} cannot be forecast for series {s.ids[row]!s}: its last step is at {first}, and "
                f"{counted(path.shape[1], 'step')} ahead reach to {most}. Train with a larger {named('horizon')}.",
                argument="at",
            )
        for channel in range(path.shape[2]):
            values = np.concatenate([last[row, channel : channel + 1], path[row, :, channel]])
            forecasts[row, :, channel] = np.interp(wanted, np.concatenate([[end], times]), values)
    return forecasts


def _distinct_times(s: Sequences) -> NDArray[np.float64]:
    """Returns the times of all series, each once; if a store has very many, those of its sample."""
    times = np.zeros(0)
    for part in s.chunks() if s.is_stored else [s]:
        times = np.union1d(times, part.times)
        if s.is_stored and len(times) > _MOST_TIMES:
            return np.unique(s.sample.times)
    return times


def _cuts(s: Sequences, horizon: int, shares: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Returns the first time of each part and that after it; every part is at least as long as the horizon."""
    times = _distinct_times(s)
    sizes = np.maximum(np.round(shares * len(times)).astype(np.int64), np.where(shares > 0, horizon, 0))
    sizes[0] = len(times) - sizes[1:].sum()
    if sizes[0] < horizon + 2:
        raise SettingError(
            f"{counted(len(times), 'step')} cannot train and test {named('horizon', horizon)}: it needs at least "
            f"{len(times) - int(sizes[0]) + horizon + 2} steps; use a shorter horizon or longer series.",
            argument="horizon",
        )
    ends = np.cumsum(sizes)
    bounds = [-np.inf, *(float(times[end]) if end < len(times) else np.inf for end in ends[:-1]), np.inf]
    return list(pairwise(bounds))
