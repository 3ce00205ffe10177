"""Windows and parts of forecasts: what is decided before training must not depend on later parts."""

import numpy as np

from chronode.data import from_list
from chronode.estimators import SequenceForecaster
from chronode.training import default_window


def late_season(count=600, begins=0.7, season=60):
    """Noise, followed by a strong season that only the later parts have."""
    steps, rng = np.arange(count), np.random.default_rng(0)
    return rng.normal(size=count) + np.where(steps >= begins * count, 50 * np.sin(2 * np.pi * steps / season), 0.0)


def test_the_window_does_not_depend_on_a_season_of_later_parts():
    s = from_list([late_season()], channels=["x"])
    assert default_window(s, 4, ["x"]) > 32  # it is strong enough to be seen in the whole series
    assert default_window(s, 4, ["x"], (0.7, 0.15, 0.15), by_time=True) == 32


def test_the_window_does_not_depend_on_the_season_of_series_of_other_parts():
    waves = 50 * np.sin(2 * np.pi * np.arange(600) / 60)
    noise = np.random.default_rng(0).normal(size=(2, 500))
    s = from_list([waves, *noise], channels=["x"])
    windows = {seed: default_window(s, 4, ["x"], (0.67, 0.33), seed=seed) for seed in range(8)}
    assert set(windows.values()) == {32, 156}  # the waves are in the training part, or not


def test_the_estimator_looks_for_the_season_before_its_validation_part():
    forecaster = SequenceForecaster("gru", horizon=4, epochs=1, hidden_size=4, validation=0.3, random_state=0)
    assert forecaster.fit([late_season()]).window_ == 32
