"""The average of classical methods for short series, against a plain implementation in NumPy."""

import numpy as np
import pytest
import torch

from chronode import SequenceForecaster
from chronode.model.start._classical import classical_family, has_season, prefers_logarithm

LEVELS = [0.02, *np.arange(0.05, 0.96, 0.05), 0.99]
TRENDS = [
    (a, b, p) for a in (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9) for b in (0.02, 0.05, 0.1, 0.2, 0.4) for p in (0.8, 0.9)
]


def smoothed(y, a, b, p):
    """Level, slope and mean squared error one step ahead of a damped trend."""
    first = min(4, len(y) - 1)
    level, slope, errors = y[0], (y[first] - y[0]) / first, []
    for value in y[1:]:
        expected = level + p * slope
        errors.append(value - expected)
        level, slope = expected + a * errors[-1], p * slope + b * a * errors[-1]
    return level, slope, np.mean(np.square(errors))


def recurrence(e, lags, horizon, walk):
    rows = np.stack([e[lags - 1 - j : len(e) - 1 - j] for j in range(lags)], axis=1)
    goal = e[lags:] - walk * e[lags - 1 : -1]
    ridge = np.mean(np.square(np.diff(e) if walk else e))
    w = np.linalg.solve(rows.T @ rows + ridge * np.eye(lags), rows.T @ goal)
    w[0] += walk
    path = list(e)
    for _ in range(horizon):
        path.append(w @ path[: -lags - 1 : -1])
    return np.array(path[-horizon:])


def component(z, season):
    """Seasonal component of each phase, counted back from the last step."""
    weight = np.ones(season + 1) / season
    weight[[0, -1]] /= 2
    half = season // 2
    at = np.arange(half, len(z) - half)
    deviation = z[at] - np.convolve(z, weight, "valid")
    back = len(z) - 1 - at
    phases = [
        np.average(deviation[back % season == phase], weights=0.8 ** (back[back % season == phase] // season))
        for phase in range(season)
    ]
    return np.array(phases) - np.mean(phases)


def reference(z, season, horizon):
    n, ahead = len(z), np.arange(1, horizon + 1)
    part, later = np.zeros(n), np.zeros(horizon)
    if season > 1:
        phases = component(z, season)
        part, later = phases[(n - 1 - np.arange(n)) % season], phases[-ahead % season]
    y, at = z - part, np.arange(n) - (n - 1) / 2
    slope = at @ y / (at @ at)
    level, _, a = min(((smoothed(y, a, 0, 0)[0], smoothed(y, a, 0, 0)[2], a) for a in LEVELS), key=lambda own: own[1])
    theta = level + slope / 2 * (ahead - 1 + (1 - (1 - a) ** n) / a)
    found = [smoothed(y, *own) for own in TRENDS]
    likely = np.array([error for *_, error in found]) ** (-n / 2.0)
    paths = [lv + sl * np.cumsum(p**ahead) for (lv, sl, _), (*_, p) in zip(found, TRENDS, strict=True)]
    share = np.clip((n - 20) / 40, 0, 1)
    line = y.mean() + slope * ((n - 1) / 2 + ahead) + recurrence(y - y.mean() - slope * at, 4, horizon, 1.0)
    forecasts = [theta + later, np.average(paths, axis=0, weights=likely) + later, line + later]
    shares = [1, 1, share]
    if season > 1:
        change = z[season:] - z[:-season]
        path = list(z)
        for move in recurrence(change - change.mean(), 2, horizon, 0.0) + change.mean():
            path.append(path[-season] + move)
        forecasts, shares = [*forecasts, np.array(path[n:])], [*shares, share]
    return np.average(forecasts, axis=0, weights=shares)


@pytest.mark.parametrize(("steps", "season"), [(18, 1), (45, 1), (44, 4), (90, 12)])
def test_the_map_is_the_average_of_the_methods(steps, season):
    rng = np.random.default_rng(steps)
    z = rng.normal(0.02, 0.2, steps).cumsum() + (season > 1) * np.resize(rng.normal(0, 2, season), steps)
    family = classical_family(z, [season] if season > 1 else [], steps, 9)
    assert has_season(z, season) == (season > 1)
    np.testing.assert_allclose(torch.tensor(z) @ family.base[0], reference(z, season, 9), rtol=1e-8, atol=1e-8)


def test_the_forecaster_uses_it_on_logarithms():
    rng = np.random.default_rng(3)
    z = 3 + 0.5 * np.sin(2 * np.pi * np.arange(96) / 12) + rng.normal(0, 0.1, 96).cumsum()
    months = [(np.datetime64("1990-01") + np.arange(96)).astype("datetime64[D]")]
    fitted = SequenceForecaster(horizon=6, random_state=0).fit([np.exp(z)], times=months)
    assert any("logarithm" in note for note in fitted.notes_)
    np.testing.assert_allclose(fitted.predict([np.exp(z)], months)[0, :, 0], np.exp(reference(z, 12, 6)), rtol=1e-3)
    plain = SequenceForecaster(horizon=6, random_state=0, log="none").fit([np.exp(z)], times=months)
    assert not plain.scaler_.shapes and not any("logarithm" in note for note in plain.notes_)


@pytest.mark.parametrize("values", [np.sin(np.arange(80) / 3), 3 + 0.5 * np.arange(60.0), np.arange(70.0) % 7])
def test_series_without_noise_are_left_to_other_maps(values):
    assert classical_family(values, [], len(values), 5) is None


def test_series_with_zeros_or_even_changes_are_not_logarithms():
    steps = np.arange(60.0)
    noise = np.random.default_rng(0).normal(size=60)
    assert not prefers_logarithm(np.maximum(noise, 0), [])
    assert not prefers_logarithm(3 + steps + noise, [])
    assert prefers_logarithm(np.exp(noise.cumsum() / 4), [])
