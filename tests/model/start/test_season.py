"""Naive forecasts and nearest neighbors against loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.data import from_list
from chronode.judge import (
    autoregression,
    drift,
    find_season,
    last_value,
    nearest_by_warping,
    seasonal_naive,
    warping_distances,
)
from chronode.model.start._season import calendar_seasons, possible_seasons, season_of


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), season=st.integers(1, 5), horizon=st.integers(1, 12))
def test_naive_forecasts_are_those_of_a_loop(seed, season, horizon):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(6, 10, size=3)
    x = rng.normal(size=(3, 9, 2))
    args = torch.tensor(x), torch.tensor(lengths), horizon
    for row, length in enumerate(lengths):
        history = list(x[row, :length])
        rise = (history[-1] - history[0]) / (length - 1)
        for ahead in range(horizon):
            np.testing.assert_allclose(last_value(*args)[row, ahead], history[length - 1])
            np.testing.assert_allclose(drift(*args)[row, ahead], history[length - 1] + (ahead + 1) * rise)
            history.append(history[len(history) - season])
            np.testing.assert_allclose(seasonal_naive(*args, season)[row, ahead], history[-1])


@pytest.mark.parametrize("season", [4, 7, 12, 52])
def test_a_season_is_found_under_trend_noise_and_holes(season):
    rng = np.random.default_rng(season)
    steps = np.arange(8 * season)
    values = np.sin(2 * np.pi * steps / season) + 0.02 * steps + 0.2 * rng.normal(size=len(steps))
    values[rng.integers(0, len(steps), len(steps) // 10)] = np.nan
    assert abs(find_season(values) - season) <= 1


def test_noise_and_short_series_have_no_season():
    assert find_season(np.random.default_rng(0).normal(size=400)) == 1
    assert find_season(np.array([1.0, 2.0, 1.0])) == 1
    assert find_season(np.full(50, 3.0)) == 1


def _without_season(rng, kind, steps):
    noise = rng.normal(size=steps)
    if kind.startswith("autoregression"):
        one, two = {"autoregression": (0.8, 0.0), "autoregression of a cycle": (1.4, -0.7)}[kind]
        values = np.zeros(steps + 50)
        for i, shock in enumerate(rng.normal(size=steps + 48), 2):
            values[i] = one * values[i - 1] + two * values[i - 2] + shock
        return values[50:]
    line = np.arange(steps) / steps
    plain = {"noise": noise, "walk": noise.cumsum(), "line": 5 * line + noise, "bend": 20 * line**2 + noise}
    return {**plain, "drift": (noise + 0.3).cumsum()}[kind]


def test_at_most_5_percent_of_series_without_a_season_have_one():
    kinds = ("noise", "walk", "line", "bend", "drift", "autoregression", "autoregression of a cycle")
    shares = {}
    for kind in kinds:
        series = [_without_season(np.random.default_rng(seed), kind, (40, 75, 120)[seed % 3]) for seed in range(60)]
        shares[kind] = np.mean([find_season(values) > 1 for values in series])
    assert np.mean(list(shares.values())) <= 0.05, shares
    assert max(shares.values()) <= 0.1, shares  # 60 series each


@pytest.mark.parametrize(("season", "steps"), [(4, 80), (7, 140), (12, 120), (24, 240)])
@pytest.mark.parametrize("rest", ["noise", "walk", "line"])
def test_a_season_as_large_as_the_noise_is_found(season, steps, rest):
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        pattern = rng.normal(size=season)
        pattern = (pattern - pattern.mean()) / pattern.std()
        noise = _without_season(rng, rest, steps) * (0.5 if rest == "walk" else 1.0)
        found.append(find_season(np.resize(pattern, steps) + noise))
    assert np.mean([own == season for own in found]) >= 0.8, found


def _dated(values, gap, start="2024-01-01T00:00"):
    times = np.datetime64(start, "m") + np.arange(len(values)) * np.timedelta64(gap, "m")
    return from_list([values], times=[times], channels=["x"])


@pytest.mark.parametrize(
    ("minutes", "seasons"),
    [(60, (24, 168)), (30, (48, 336)), (15, (96,)), (1440, (7,)), (10080, (52,)), (43829, (12,))],
)
def test_the_seasons_of_the_calendar_are_those_of_the_steps(minutes, seasons):
    assert calendar_seasons(_dated(np.zeros(50), minutes)) == seasons
    assert calendar_seasons(from_list([np.zeros(50)])) == ()


def test_months_and_quarters_have_their_seasons():
    months = np.arange("2010-01", "2014-01", dtype="M8[M]").astype("M8[D]")
    assert calendar_seasons(from_list([np.zeros(48)], times=[months])) == (12,)
    assert calendar_seasons(from_list([np.zeros(16)], times=[months[::3]])) == (4,)


def test_a_weak_day_is_found_by_the_calendar_across_an_outage_and_missing_rows():
    rng = np.random.default_rng(0)
    steps = np.arange(1000)
    values = 100 + 0.4 * np.sin(2 * np.pi * steps / 24) + 0.3 * rng.normal(size=1000).cumsum() * 0.2
    values[400:516] = 24.0  # 116 hours
    s = _dated(values, 60)
    gone = np.r_[0:300, 345:1000]
    s = from_list([values[gone]], times=[s.times[gone] * 3600 * np.timedelta64(1, "s") + np.datetime64("2024-01-01")])
    assert season_of(s, [0]) == 24


def warped(a, b, reach):
    table = np.full((len(a) + 1, len(b) + 1), np.inf)
    table[0, 0] = 0
    for i in range(len(a)):
        for j in range(len(b)):
            if abs(i - j) <= reach:
                best = min(table[i, j + 1], table[i + 1, j], table[i, j])
                table[i + 1, j + 1] = best + ((a[i] - b[j]) ** 2).sum()
    return table[-1, -1]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("band", [0.1, 0.5, 1.0])
def test_distances_are_those_of_the_table(channels, band):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 8, channels)), rng.normal(size=(4, 6, channels))
    a_lengths, b_lengths = [8, 5, 2], [6, 3, 1, 5]
    found = warping_distances(*map(torch.tensor, (a, a_lengths, b, b_lengths)), band=band)
    for i, n in enumerate(a_lengths):
        for j, m in enumerate(b_lengths):
            reach = abs(n - m) + max(1, round(band * 8))
            assert found[i, j].item() == pytest.approx(warped(a[i, :n], b[j, :m], reach), rel=1e-5)


def test_a_series_is_its_own_nearest_neighbor():
    rng = np.random.default_rng(0)
    s = from_list([rng.normal(size=(n, 2)) for n in (5, 9, 7, 12)])
    assert nearest_by_warping(s, s).tolist() == [0, 1, 2, 3]


def test_what_would_take_too_long_is_left_out():
    s = from_list([np.zeros(3000)] * 40)
    assert nearest_by_warping(s, s) is None


def test_rounded_lines_have_no_season():
    for steps in (40, 60, 200):
        line = (0.1 * np.arange(steps)).astype(np.float32)
        assert find_season(line) == 1 and possible_seasons(line) == []


@pytest.mark.parametrize("seed", range(3))
def test_an_autoregression_is_that_of_statsmodels(seed):
    models = pytest.importorskip("statsmodels.tsa.ar_model")
    rng = np.random.default_rng(seed)
    values = np.zeros(90)
    for i in range(2, 90):
        values[i] = 3 + 1.2 * values[i - 1] - 0.5 * values[i - 2] + rng.normal()
    lags = models.ar_select_order(values, maxlag=30, ic="aic").ar_lags
    expected = models.AutoReg(values, lags=lags).fit().predict(90, 97)
    found = autoregression(torch.tensor(values)[None, :, None], torch.tensor([90]), 8)
    np.testing.assert_allclose(found[0, :, 0].numpy(), expected, rtol=1e-6)


def test_an_autoregression_repeats_a_constant():
    history = torch.full((2, 9, 1), 7.0)
    assert autoregression(history, torch.tensor([9, 1]), 3).unique().tolist() == [7.0]
