"""The forecast of a single short series: an average of four classical methods, as one linear map of its values.

Too little is known about such a series to choose a method by how well it forecast the past, so all are used: Theta and
damped trends, and on longer series autoregressions, around a line and of the changes since one season ago. Their
parameters are those with the lowest error one step ahead. Chosen on held-out ends of the training parts of all series
of M3 and Tourism (docs/arena.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ._continuations import recursive
from ._families import Family, adjustment, levels_of, thetas, trends

Floats = NDArray[np.float64]

_LEVELS = (0.02, *(round(0.05 * step, 2) for step in range(1, 20)), 0.99)
_TRENDS = tuple(product((0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9), (0.02, 0.05, 0.1, 0.2, 0.4), (0.8, 0.9)))
_SEASON_MEMORY, _FEWEST_CYCLES = 0.8, 3
_LAGS, _SEASONAL_LAGS, _STEPS_PER_LAG = 4, 2, 5
# Length of a series from which autoregressions are used at all, and from which as much as the other methods.
_SOME_STEPS, _MANY_STEPS = 20, 60
_EXPLODES = 2.0
_LIKELIER = 2.0
# Orders of the recurrences that a series without noise may follow, the share of the steps that they are fitted to, and
# the share of the squared error of the classical methods below which one of them is followed.
_ORDERS, _FITTED, _FAR_BETTER = (2, 4, 8, 26), 2 / 3, 0.2


def classical_family(
    values: Floats, seasons: Sequence[int], steps: int, horizon: int, channel: int = 0
) -> Family | None:
    """Returns the family whose only map is the average of the classical methods; None for a series with hardly any
    noise, such as a line or a sine, which other maps continue.

    Args:
        values: `(T,)` the series.
        seasons: Possible numbers of steps of a season; the first that the series shows is used.
        steps: Steps of a window.
        horizon: Number of steps ahead.
        channel: Number of the channel.

    Example:
        >>> walk = torch.tensor(np.random.default_rng(0).normal(0.5, 1, 40).cumsum())
        >>> family = classical_family(walk.numpy(), [], 40, 3)
        >>> [round(float(value), 2) for value in (walk[-1], *(walk @ family.base[0]))]
        [17.58, 17.96, 18.34, 18.62]
    """
    season = next((own for own in seasons if steps >= _FEWEST_CYCLES * own and has_season(values, own)), 1)
    if _follows_recurrence(values, season):
        return None
    nothing = torch.zeros(steps, 0, dtype=torch.float64)
    base = _average(values, season, steps, horizon)
    return Family("classical methods", base[None], nothing, channel, maps=("average",))


def has_season(values: Floats, season: int) -> bool:
    """Returns whether the autocorrelation after one season is larger than one standard error (Bartlett).

    Example:
        >>> has_season(np.sin(np.pi * np.arange(40) / 2), 4), has_season(np.arange(40.0) % 7, 4)
        (True, False)
    """
    if season < 2 or len(values) < _FEWEST_CYCLES * season:
        return False
    rest = values - values.mean()
    power = float(rest @ rest)
    if power <= 0:
        return False
    heights = np.array([float(rest[lag:] @ rest[:-lag]) for lag in range(1, season + 1)]) / power
    return bool(heights[-1] > np.sqrt((1 + 2 * np.square(heights[:-1]).sum()) / len(values)))


def prefers_logarithm(values: NDArray[Any], seasons: Sequence[int]) -> bool:
    """Returns whether a positive series is forecast better as a logarithm: unless the likelihood of its changes is
    clearly higher without, for the best smoothed level one step ahead.

    Example:
        >>> noise = np.random.default_rng(0).normal(0, 0.2, 80)
        >>> prefers_logarithm(np.exp(noise.cumsum()), []), prefers_logarithm(np.arange(1, 81) + noise, [])
        (True, False)
    """
    values = values.astype(np.float64)
    if not len(values) or not values.min() > 0:
        return False
    plain, logs = (_level_error(own, seasons) for own in (values, np.log(values)))
    if not plain > 0 or not logs > 0 or _follows_recurrence(values, 1):
        return False
    return bool(len(values) / 2 * np.log(plain / logs) - np.log(values).sum() > -_LIKELIER)


def _level_error(values: Floats, seasons: Sequence[int]) -> float:
    """Returns the mean squared error of the best level of a series without its season."""
    season = next((own for own in seasons if has_season(values, own)), 1)
    return float(_errors(_adjusted(values, season), [(level, 0.0, 0.0) for level in _LEVELS]).min())


def _adjusted(values: Floats, season: int) -> Floats:
    if season == 1:
        return values
    level = values.mean()
    return level + (values - level) @ adjustment(len(values), 1, season, _SEASON_MEMORY, inner=True)[0].numpy()


def _follows_recurrence(values: Floats, season: int) -> bool:
    """Returns whether a linear recurrence, fitted to the first part of a series, is far better on the rest of it than
    levels and damped trends are one step ahead.
    """
    rest = values - values.mean()
    spread = float(rest.std())
    if not spread > 0:
        return False
    usual = float(_errors(_adjusted(values, season), [*((level, 0.0, 0.0) for level in _LEVELS), *_TRENDS]).min())
    for order in {min(order, len(rest) // 3) for order in _ORDERS} - {0}:
        rows = np.lib.stride_tricks.sliding_window_view(rest, order + 1)
        inputs, goal = np.append(rows[:, :-1], np.full((len(rows), 1), spread), axis=1), rows[:, -1]
        fitted = int(_FITTED * len(rows))
        if fitted < order + 2 or len(rows) - fitted < 3:
            continue
        squares = inputs[:fitted].T @ inputs[:fitted]
        squares += 1e-9 * np.trace(squares) / len(squares) * np.eye(len(squares))
        weight = np.linalg.solve(squares, inputs[:fitted].T @ goal[:fitted])
        if float(np.square(inputs[fitted:] @ weight - goal[fitted:]).mean()) < _FAR_BETTER * usual:
            return True
    return False


def _average(values: Floats, season: int, steps: int, horizon: int) -> Tensor:
    """Returns the map `(K, H)` of a window to the average of the methods."""
    adjusted = _adjusted(values, season)
    within, ahead = torch.eye(steps, dtype=torch.float64), torch.zeros(steps, horizon, dtype=torch.float64)
    if season > 1:
        within, ahead = adjustment(steps, horizon, season, _SEASON_MEMORY, inner=True)
    share = min(max((len(values) - _SOME_STEPS) / (_MANY_STEPS - _SOME_STEPS), 0.0), 1.0)
    methods = [(1.0, _theta(adjusted, steps, horizon)), (1.0, _damped_trend(adjusted, steps, horizon))]
    if share:
        methods.append((share, _around_line(adjusted, steps, horizon)))
    maps = [(own, within @ weight + ahead) for own, weight in methods]
    if share and season > 1:
        maps.append((share, _seasonal_changes(values, season, steps, horizon)))
    total = sum(own for own, _ in maps)
    return torch.stack([own / total * weight for own, weight in maps]).sum(0)


def _errors(values: Floats, settings: Sequence[tuple[float, float, float]]) -> Floats:
    """Returns the mean squared errors one step ahead of trends with these speeds of level and slope and this damping;
    a damping of 0 leaves the level alone.
    """
    share, slope_share, damping = np.array(settings).T
    first = min(4, len(values) - 1)
    level, slope = (
        np.full(len(settings), values[0]),
        np.full(len(settings), (values[first] - values[0]) / max(first, 1)),
    )
    total = np.zeros(len(settings))
    for value in values[1:]:
        expected = level + damping * slope
        error = value - expected
        level, slope = expected + share * error, damping * slope + slope_share * share * error
        total += np.square(error)
    return total / max(len(values) - 1, 1)


def _theta(values: Floats, steps: int, horizon: int) -> Tensor:
    errors = _errors(values, [(level, 0.0, 0.0) for level in _LEVELS])
    level = _LEVELS[int(errors.argmin())]
    return thetas(levels_of(steps, (level,)), horizon)[f"theta {level:g}"]


def _damped_trend(values: Floats, steps: int, horizon: int) -> Tensor:
    """Returns the mean of damped trends, weighted by their likelihoods."""
    errors = _errors(values, _TRENDS)
    likelihood = (max(float(errors.min()), 1e-300) / np.maximum(errors, 1e-300)) ** (len(values) / 2)
    weight = torch.tensor(likelihood / likelihood.sum())
    return torch.tensordot(weight, torch.stack(list(trends(steps, horizon, _TRENDS).values())), dims=1)


def _around_line(values: Floats, steps: int, horizon: int) -> Tensor:
    """Returns an autoregression of the deviations from a line."""
    within, ahead = _line(steps, horizon)
    deviation = values - values @ _line(len(values), 1)[0].numpy()
    rest = torch.eye(steps, dtype=torch.float64) - within
    return ahead + rest @ _autoregression(deviation, _LAGS, steps, horizon, walk=True)


def _seasonal_changes(values: Floats, season: int, steps: int, horizon: int) -> Tensor:
    """Returns an autoregression of the changes since one season ago around their mean, added to the last season."""
    changes = values[season:] - values[:-season]
    value = torch.eye(steps, dtype=torch.float64)
    change = value[:, season:] - value[:, :-season]
    mean = change.mean(1, keepdim=True)
    weight = _autoregression(changes - changes.mean(), _SEASONAL_LAGS, change.shape[1], horizon, walk=False)
    following = (change - mean) @ weight + mean
    found = [value[:, column] for column in range(steps - season, steps)]
    for step in range(horizon):
        found.append(found[step] + following[:, step])
    return torch.stack(found[season:], dim=1)


def _line(steps: int, horizon: int) -> tuple[Tensor, Tensor]:
    """Returns the maps of a window to the line through it, `(K, K)`, and ahead of it, `(K, H)`."""
    at = torch.arange(steps + horizon, dtype=torch.float64) - (steps - 1) / 2
    square = at[:steps].square().sum().clamp(min=1e-12)
    line = 1 / steps + at[:steps, None] * at / square
    return line[:, :steps], line[:, steps:]


def _autoregression(rest: Floats, lags: int, steps: int, horizon: int, *, walk: bool) -> Tensor:
    """Returns the map `(K, H)` of a ridge regression on the last values, shrunk toward the last value (`walk`) or 0;
    that itself if the regression explodes.
    """
    lags = max(min(lags, len(rest) // _STEPS_PER_LAG), 1)
    inputs = np.stack([rest[lags - 1 - lag : len(rest) - 1 - lag] for lag in range(lags)], axis=1)
    last = float(walk)
    penalty = float(np.square(np.diff(rest) if walk else rest).mean()) + 1e-12
    goal = inputs.T @ (rest[lags:] - last * rest[lags - 1 : -1])
    one = np.linalg.solve(inputs.T @ inputs + penalty * np.eye(lags), goal)
    one[0] += last
    most = _EXPLODES * float(np.abs(rest).max()) + 1e-9
    found = recursive(torch.tensor(one[None, ::-1].copy()), horizon, max(len(rest), steps))[0]
    path = torch.tensor(rest) @ found[-len(rest) :]
    if not bool((path.abs() <= most).all()):
        found = torch.zeros_like(found)
        found[-1] = last
    return found[-steps:]
