"""The season of a series (of the calendar, or the steps after which it repeats itself), and naive forecasts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data import Sequences, is_irregular, step_gap
from ._grid import MOST_TIMES_THE_STEPS, on_grid

Floats = NDArray[np.float64]

_SHORT = 400
_LONGEST_SEASON = 400
_MOST_SERIES, _SHOWN, _SAME = 40, 0.05, 2
_MOST_STEPS = 2_000
_FEWEST_VALUES, _FEWEST_CYCLES, _FEWEST_CALENDAR_CYCLES = 8, 3, 2
_LEAST_CORRELATION = 0.3
# Chance of a season in a series without one, over all lengths that are tried and for each season of the calendar;
# simulated noise, autoregressions, random walks and trends have at most 5%.
_CHANCE, _CALENDAR_CHANCE = 0.005, 0.01
_LAGS = 2
_NEAR_A_WALK = 8.0  # divided by the number of steps: how far from 1 the sum of the coefficients of a random walk may be
_MOST_SPREADS = 5.0
_UNEXPLAINED, _PER_PHASE = 1e-4, 4.0
_DAY, _YEAR = 86400.0, 365.25


def is_short(s: Sequences) -> bool:
    """Returns whether these are a single series, or windows of it, that is too short for a network to learn from.

    On 43 series of M3 and Tourism, no network improved on the linear model.

    Example:
        >>> from chronode.data import from_list
        >>> [is_short(from_list([np.zeros(steps)])) for steps in (120, 800)]
        [True, False]
    """
    rows = int((s.starts + s.lengths).max(initial=0) - s.starts.min(initial=len(s.base_values)))
    return len(np.unique(s.groups)) == 1 and rows < _SHORT


def is_plain(s: Sequences) -> bool:
    """Returns whether the series have a single channel with a known value at every regular step, and nothing else."""
    return s.num_channels == 1 and not s.has_missing and not s.num_static and not is_irregular(s)


def find_season(values: NDArray[Any], calendar: Sequence[int] = ()) -> int:
    """Returns the number of steps after which a regular series repeats itself; 1 if it does not.

    The means of the phases of a season must differ by more than those of a series with a trend and autoregressive
    errors do by chance (an F test of what the autoregression leaves). Of all such seasons it is that with the lowest
    information criterion.

    Args:
        values: `(T,)`, NaN where missing.
        calendar: Seasons of the calendar, such as 24 and 168 for hours: one of them is preferred to all others.

    Example:
        >>> find_season(np.sin(2 * np.pi * np.arange(120) / 12) + 0.1 * np.arange(120))
        12
        >>> find_season(np.arange(50.0))
        1
    """
    filled = _filled(values)
    if filled is None:
        return 1
    usual = [season for season in calendar if len(filled) >= _FEWEST_CALENDAR_CYCLES * season]
    others = range(2, min(len(filled) // _FEWEST_CYCLES, _LONGEST_SEASON) + 1)
    return _best(filled, usual, _CALENDAR_CHANCE) or _best(filled, others, _CHANCE) or 1


def possible_seasons(values: NDArray[Any], calendar: Sequence[int] = ()) -> list[int]:
    """Returns all numbers of steps that may be the season: those of the calendar, that of `find_season`, and the
    highest peak of the autocorrelation of the series or its differences, with the first that is about as high.

    Example:
        >>> possible_seasons(np.sin(2 * np.pi * np.arange(120) / 12) + 0.1 * np.arange(120))
        [12]
    """
    count = int((~np.isnan(values)).sum())
    seasons = {season for season in calendar if count >= _FEWEST_CALENDAR_CYCLES * season}
    seasons |= {find_season(values, calendar)}
    for peaks in _peaks_of_both(values):
        for share in (0.9, 0.999):
            seasons |= {next((lag for lag, height in peaks.items() if height >= share * max(peaks.values())), 1)}
    return sorted(seasons - {1})


def calendar_seasons(s: Sequences) -> tuple[int, ...]:
    """Returns the days, weeks and years of dated series in steps; none without dates, or if they are too long to use.

    Example:
        >>> from chronode.data import from_list
        >>> days = np.datetime64("2024-01-01") + np.arange(9)
        >>> hours = np.datetime64("2024-01-01T00") + np.arange(9)
        >>> weeks = np.datetime64("2024-01-01") + 7 * np.arange(9)
        >>> [calendar_seasons(from_list([np.zeros(9)], times=[times])) for times in (hours, days, weeks)]
        [(24, 168), (7,), (52,)]
    """
    if not s.clock.dates or s.base_times is None:
        return ()
    days = step_gap(s) * s.clock.scale / _DAY
    lengths = [1 / days, 7 / days] if days < 2 else [_YEAR / days]
    whole = [round(length) for length in lengths if abs(length - round(length)) <= 0.02 * length]
    return tuple(length for length in whole if 2 <= length <= _LONGEST_SEASON)


def regular_steps(values: NDArray[Any], times: NDArray[Any] | None, gap: float) -> Floats:
    """Returns values `(T, D)` at steps of equal length `(G, D)`, NaN where there is no row; the last steps of series
    with very long gaps.
    """
    if times is None or not len(values):
        return values.astype(np.float64)
    step = np.round((times - times[-1]) / gap).astype(np.int64)
    inside = step > -MOST_TIMES_THE_STEPS * len(values)
    regular = np.full((1 - int(step[inside][0]), values.shape[1]), np.nan)
    regular[step[inside] - 1] = values[inside]
    return regular


def season_of(s: Sequences, channels: Sequence[int]) -> int:
    """Returns the longest season of these channels; 1 if there is none."""
    return max((season for channel in channels for season in panel_seasons(s, channel)), default=1)


def panel_seasons(s: Sequences, channel: int) -> list[int]:
    """Returns the seasons that at least a twentieth of the series show, the most common first, looking at 40 series at
    most; without those that are nearly the same as a more common one.

    Example:
        >>> from chronode.data import from_list
        >>> at, waves = np.arange(120), lambda season: np.sin(2 * np.pi * np.arange(120) / season)
        >>> panel_seasons(from_list([waves(7) + 0.01 * at, waves(7), waves(12), 0.1 * at]), 0)
        [7, 12]
    """
    rows = np.unique(np.linspace(0, len(s) - 1, min(len(s), _MOST_SERIES)).round().astype(int))
    calendar, gap, shown = calendar_seasons(s), step_gap(s), Counter[int]()
    for row in rows.tolist():
        one = s[row]
        values = regular_steps(one.values, None if s.base_times is None else one.times, gap)
        shown[find_season(values[:, channel], calendar)] += 1
    seasons: list[int] = []
    for season, count in shown.most_common():
        if season > 1 and count >= _SHOWN * len(rows) and all(abs(season - other) > _SAME for other in seasons):
            seasons.append(season)
    return seasons


# ---- the test -------------------------------------------------------------------------------------------------


def _filled(values: NDArray[Any]) -> Floats | None:
    """Returns the last values without gaps and outliers; None if they are too few or lie on a line."""
    values = values[-_MOST_STEPS:].astype(np.float64)
    is_known, steps = ~np.isnan(values), np.arange(len(values))
    if is_known.sum() < _FEWEST_VALUES:
        return None
    filled = np.interp(steps, steps[is_known], values[is_known])
    line = np.polyval(np.polyfit(steps, filled, 1), steps)
    rest = filled - line
    if float(rest @ rest) <= 1e-12 * max(float(filled @ filled), 1e-300):  # less is rounding
        return None
    return _clipped(rest) / rest.std()


def _clipped(values: Floats) -> Floats:
    """Returns values without outliers, such as those of an outage and of its beginning and end."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    if high <= low:
        return values
    return values.clip(middle - _MOST_SPREADS * (high - low), middle + _MOST_SPREADS * (high - low))


def _best(values: Floats, seasons: Sequence[int], chance: float) -> int | None:
    """Returns the season that describes the values best of those that chance does not explain; None if none is left."""
    most = NormalDist().inv_cdf(1 - chance / max(len(seasons), 1))
    tested = [(season, *_tested(values, season)) for season in seasons]
    criteria = {season: criterion for season, score, criterion in tested if score > most}
    return min(criteria, key=lambda season: criteria[season]) if criteria else None


def _tested(values: Floats, season: int, differences: int = 2) -> tuple[float, float]:
    """Returns by how many standard deviations the means of the phases differ more than expected without a season, and
    the information criterion of the season with autoregressive errors.
    """
    line = np.arange(len(values), dtype=np.float64)
    rest = _without_line(*_without_phases(values, line, season))
    weights = _autoregression(rest)
    if differences and 1 - weights.sum() < _NEAR_A_WALK / len(values):
        return _tested(np.diff(values), season, differences - 1)
    left = values[_LAGS:] - sum(w * values[_LAGS - lag : len(values) - lag] for lag, w in enumerate(weights, 1))
    left, line = _clipped(left), line[_LAGS:]
    plain = _without_line(left - left.mean(), line - line.mean())
    seasonal = _without_line(*_without_phases(left, line, season))
    more, rows = season - 1, len(left) - season - 1 - _LAGS
    if rows < _LAGS + 1:
        return -np.inf, np.inf
    before, after = float(plain @ plain), float(seasonal @ seasonal)
    ratio = (before - after) / more / max(after / rows, 1e-15 * before, 1e-300)
    # An autoregression predicts what a part of the season leaves, but does not explain it.
    variance = max(after / len(left) + _UNEXPLAINED * float(rest @ rest) / len(rest), 1e-12)
    criterion = len(left) * np.log(variance) + _PER_PHASE * season
    return _normal_score(max(ratio, 0.0), more, rows), criterion


def _without_phases(values: Floats, line: Floats, season: int) -> tuple[Floats, Floats]:
    """Returns both without the mean of each phase."""
    phase = np.arange(len(values)) % season
    count = np.bincount(phase, minlength=season)
    one, other = (column - (np.bincount(phase, column, minlength=season) / count)[phase] for column in (values, line))
    return one, other


def _without_line(values: Floats, line: Floats) -> Floats:
    square = float(line @ line)
    return values - line * (float(line @ values) / square) if square > 0 else values


def _autoregression(rest: Floats) -> Floats:
    """Returns the weights of the last values, by least squares; zeros if there is nothing but rounding."""
    columns = np.stack([rest[_LAGS - lag : len(rest) - lag] for lag in range(1, _LAGS + 1)], axis=1)
    if float(rest @ rest) <= 1e-16 * len(rest):
        return np.zeros(_LAGS)
    return np.asarray(np.linalg.lstsq(columns, rest[_LAGS:], rcond=None)[0], dtype=np.float64)


def _normal_score(ratio: float, more: int, rows: int) -> float:
    """Returns the standard normal deviate of a ratio of variances (Paulson 1942)."""
    root, one, other = ratio ** (1 / 3), 2 / (9 * more), 2 / (9 * rows)
    return ((1 - other) * root - (1 - one)) / (other * root**2 + one) ** 0.5


# ---- peaks of the autocorrelation -----------------------------------------------------------------------------


def _peaks_of_both(values: NDArray[Any]) -> tuple[dict[int, float], dict[int, float]]:
    """Returns the peaks of the autocorrelations of a series and of its differences, by lag."""
    is_known = ~np.isnan(values)
    if is_known.sum() < _FEWEST_VALUES:
        return {}, {}
    steps = np.arange(len(values))
    filled = np.interp(steps, steps[is_known], values[is_known].astype(np.float64))
    least = 1e-12 * max(float(filled @ filled), 1e-300)  # less is rounding
    return _peaks(filled, least), _peaks(np.diff(filled), least)


def _peaks(values: Floats, least: float) -> dict[int, float]:
    steps = np.arange(len(values))
    rest = values - np.polyval(np.polyfit(steps, values, 1), steps)
    power = float(rest @ rest)
    if power <= least:
        return {}
    longest = min(len(rest) // 3, _LONGEST_SEASON)
    lags = np.arange(longest + 2)
    heights = [float(rest[lag:] @ rest[: len(rest) - lag]) / power * len(rest) / (len(rest) - lag) for lag in lags]
    return {
        lag: heights[lag]
        for lag in range(2, longest + 1)
        if heights[lag] >= _LEAST_CORRELATION and heights[lag - 1] < heights[lag] >= heights[lag + 1]
    }


def last_value(history: Tensor, lengths: Tensor, horizon: int) -> Tensor:
    """Repeats the last value of each channel: `(B, horizon, C)`.

    Example:
        >>> last_value(torch.tensor([[[1.0], [5.0]]]), torch.tensor([2]), 3).flatten().tolist()
        [5.0, 5.0, 5.0]
    """
    return _at(history, lengths, torch.zeros(horizon, dtype=torch.int64))


def seasonal_naive(history: Tensor, lengths: Tensor, horizon: int, season: int) -> Tensor:
    """Repeats the values of the last season: `(B, horizon, C)`.

    Example:
        >>> seasonal_naive(torch.arange(6.0)[None, :, None], torch.tensor([6]), 4, 3).flatten().tolist()
        [3.0, 4.0, 5.0, 3.0]
    """
    return _at(history, lengths, season - 1 - torch.arange(horizon) % season)


def drift(history: Tensor, lengths: Tensor, horizon: int) -> Tensor:
    """Continues the line from the first to the last value: `(B, horizon, C)`.

    Example:
        >>> drift(torch.tensor([[[1.0], [3.0], [5.0]]]), torch.tensor([3]), 2).flatten().tolist()
        [7.0, 9.0]
    """
    last = last_value(history, lengths, horizon)
    rise = (last - history[:, :1]) / (lengths[:, None, None] - 1).clamp(min=1)
    return last + rise * torch.arange(1, horizon + 1)[None, :, None]


def histories(windows: Sequences, channels: list[int], gap: float) -> tuple[Tensor, Tensor]:
    """Returns values `(B, T, C)` of these channels on a regular grid, 0 if a channel has no reading, and lengths."""
    batch = windows.batch()
    observed = None if batch.observed is None else batch.observed[..., channels]
    x, lengths = on_grid(batch.x[..., channels].double(), batch.lengths, batch.dt, observed, gap=gap)
    return x.nan_to_num(nan=0.0), lengths


def _at(history: Tensor, lengths: Tensor, back: Tensor) -> Tensor:
    """Returns the values this many steps before the last; the first value if the history is shorter."""
    at = (lengths[:, None] - 1 - back).clamp(min=0)
    return history.gather(1, at[..., None].expand(*at.shape, history.shape[2]))
