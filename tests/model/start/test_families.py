"""Smoothing and seasonal adjustment as linear maps: against loops, and on series that they continue exactly."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.model.start._families import smoothing_maps


def window(steps, seed):
    return np.random.default_rng(seed).normal(size=steps).cumsum()


def maps_of(*sizes):
    return {name: weight for (name, _), weight in smoothing_maps(*sizes).items()}


def applied(weight, values):
    return (torch.tensor(values) @ weight).numpy()


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), steps=st.integers(2, 30), share=st.sampled_from([0.05, 0.15, 0.3, 0.5, 0.75, 1.0]))
def test_levels_are_simple_exponential_smoothing(seed, steps, share):
    values = window(steps, seed)
    level = values[0]
    for value in values[1:]:
        level += share * (value - level)
    found = applied(maps_of(steps, 3, [])[f"level {share:g}"], values)
    np.testing.assert_allclose(found, [level] * 3, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 1000),
    steps=st.integers(2, 30),
    share=st.sampled_from([0.2, 0.5, 0.9]),
    slope_share=st.sampled_from([0.05, 0.3]),
    damping=st.sampled_from([1.0, 0.95, 0.85]),
)
def test_trends_are_damped_smoothing_of_level_and_slope(seed, steps, share, slope_share, damping):
    values, first = window(steps, seed), min(4, steps - 1)
    level, slope = values[0], (values[first] - values[0]) / first
    for value in values[1:]:
        expected = level + damping * slope
        new = expected + share * (value - expected)
        slope = damping * slope + slope_share * (new - level - damping * slope)
        level = new
    path = []
    for ahead in range(1, 5):
        path.append(level + slope * sum(damping**power for power in range(1, ahead + 1)))
    found = applied(maps_of(steps, 4, [])[f"trend {share:g}, {slope_share:g}, damping {damping:g}"], values)
    np.testing.assert_allclose(found, path, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("season", [2, 3, 4, 7, 12])
@pytest.mark.parametrize("memory", ["0.7", "1"])
def test_a_line_with_a_season_is_continued_exactly(season, memory):
    rng, steps, horizon = np.random.default_rng(season), 4 * season + 3, season + 2
    pattern = rng.normal(size=season)
    values = 0.7 * np.arange(steps + horizon) + np.resize(pattern, steps + horizon) + 3
    maps = maps_of(steps, horizon, [season])
    for drift in [name for name in maps if name.startswith("drift") and "damping 1, season" in name]:
        if f"memory {memory}" in drift:
            np.testing.assert_allclose(applied(maps[drift], values[:steps]), values[steps:], atol=1e-9)


def test_every_map_repeats_a_constant():
    for name, weight in maps_of(20, 5, [4]).items():
        np.testing.assert_allclose(applied(weight, np.full(20, 3.0)), 3.0, atol=1e-9, err_msg=name)


def test_short_windows_have_no_season():
    assert not any("season" in name for name in maps_of(13, 2, [12]))
    assert any("season" in name for name in maps_of(14, 2, [12]))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), steps=st.integers(3, 30), share=st.sampled_from([0.05, 0.3, 1.0]))
def test_theta_is_the_mean_of_the_line_and_of_a_smoothed_line_of_double_curvature(seed, steps, share):
    values, places, horizon = window(steps, seed), np.arange(steps), 4
    slope, start = np.polyfit(places, values, 1)
    line = start + slope * np.arange(steps + horizon)
    curved = 2 * values - line[:steps]  # theta = 2
    level = curved[0]
    for value in curved[1:]:
        level += share * (value - level)
    found = applied(maps_of(steps, horizon, [])[f"theta {share:g}"], values)
    # Both differ by the drift that the smoothed line of curvature 2 lacks at the start (Hyndman and Billah 2003).
    first = curved[0] - (2 * values[0] - line[0])
    expected = (line[steps:] + level) / 2 + first
    smoothed = values[0]
    for value in values[1:]:
        smoothed += share * (value - smoothed)
    drift = 0.5 * slope * (np.arange(horizon) + (1 - (1 - share) ** steps) / share)
    np.testing.assert_allclose(found, smoothed + drift, rtol=1e-9, atol=1e-9)
    gap = np.ptp(found - expected)
    assert gap < 1e-9  # the same slope, and a constant difference from the start of the smoothing
