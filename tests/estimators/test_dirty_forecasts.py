"""Forecasts of series with empty cells, sparse beginnings and outages, and of series that a model cannot predict."""

from dataclasses import replace

import numpy as np
import pytest

from chronode import ModelSpec
from chronode.data import Scaler, forecast, forecast_windows, from_list
from chronode.data._windows import usable_windows
from chronode.estimators import SequenceForecaster
from chronode.judge import fit_forecast
from chronode.model._relative import Relative
from chronode.model.start._forecast_start import naive_forecasts
from chronode.training import Settings, fit
from chronode.training._objective import Objective
from chronode.training._start import not_worse_than_naive
from chronode.training._task import Parts

SMALL = {"hidden_size": 4, "random_state": 0}


@pytest.fixture(scope="module")
def cities():
    """Sales of 16 cities of different size over 8 years, with missing values, sparse beginnings and an outage."""
    rng, steps = np.random.default_rng(0), np.arange(96)
    found = []
    for city in range(16):
        size = 10 ** rng.uniform(1, 3.5)
        year = 1 + 0.2 * np.sin(2 * np.pi * steps / 12 + 0.2 * rng.normal())
        values = size * (year * (1 + 0.002 * steps) + 0.05 * rng.normal(size=96))
        values[rng.random(96) < 0.05] = np.nan
        if city % 4 == 0:
            values[:40] = np.nan
            values[[3, 11, 12]] = size * np.array([1.0, 1.0001, 0.9999])
        if city == 5:
            values[50:70] = size * 1.1
        found.append(values)
    return np.array(found)


@pytest.fixture(scope="module")
def meter():
    """Hourly values with a weak day and an outage of 116 hours, as times and values."""
    rng = np.random.default_rng(0)
    steps = np.arange(700)
    values = 100 + np.sin(2 * np.pi * steps / 24) + 0.3 * rng.normal(size=700)
    values[300:416] = 24.0
    return np.datetime64("2024-01-01T00", "h") + steps, values


def test_a_few_sparse_windows_do_not_decide_over_a_panel(cities):
    times = np.datetime64("2000-01", "M") + np.arange(96)
    past, true = cities[:, :-12], cities[:, -12:]
    stamps = [times[:-12].astype("M8[D]")] * 16
    forecaster = SequenceForecaster(horizon=12, epochs=1, **SMALL).fit(list(past), times=stamps)
    assert forecaster.history_[0].loss < 3  # in squared spreads of a window
    assert any("windows with too few values" in note for note in forecaster.notes_)
    found = forecaster.predict(list(past), times=stamps)[..., 0]
    gaps, season = np.abs(found - true), np.abs(past[:, -12:] - true)
    assert np.nanmean(gaps / np.nanstd(past, axis=1, keepdims=True)) < 0.4
    known = ~(np.isnan(gaps) | np.isnan(season))
    assert gaps[known].mean() < season[known].mean()


@pytest.mark.parametrize("outage", ["flat", "zero", "missing"])
def test_an_outage_of_a_meter_does_not_wreck_its_forecast(meter, outage):
    times, values = meter
    values = values.copy()
    values[300:416] = {"flat": 24.0, "zero": 0.0, "missing": np.nan}[outage]
    forecaster = SequenceForecaster(horizon=24, epochs=1, **SMALL).fit([values[:600]], times=[times[:600]])
    assert forecaster.window_ == 72
    errors, last = [], []
    for end in range(600, 676, 12):
        found = forecaster.predict([values[:end]], times=[times[:end]])[0, :, 0]
        errors.append(found - values[end : end + 24])
        last.append(values[end - 1] - values[end : end + 24])
    assert np.abs(errors).mean() < 0.6 * np.abs(last).mean()
    assert np.square(errors).mean() < 0.5 * values[600:].var()


def test_windows_in_an_outage_at_its_edges_and_of_few_values_are_left_out():
    rng = np.random.default_rng(0)
    values = rng.normal(size=200)
    values[:30] = np.nan
    values[[2, 20]] = 0.5
    values[120:150] = -80.0
    w = forecast_windows(from_list([values]), 2, window=20, least=20)
    kept = usable_windows([w], [0])[0]
    spans = [(start, start + 20) for start in kept.starts.tolist()]
    assert not any(start < 150 and end > 121 for start, end in spans)  # more than one value of the outage
    assert not any(end < 33 for _, end in spans)
    assert {end for _, end in spans} >= {*range(60, 120), *range(171, 198)}
    clean = forecast_windows(from_list([rng.normal(size=200).cumsum()]), 2, window=20)
    assert len(usable_windows([clean], [0])[0]) == len(clean)


def test_what_follows_does_not_make_a_window_flat():
    rng = np.random.default_rng(1)
    quiet = forecast_windows(from_list([0.01 * rng.normal(size=100)]), 1, window=10, least=10)
    louder = np.concatenate([quiet.base_values[:, 0], 5 * rng.normal(size=300)])
    found = usable_windows([forecast_windows(from_list([louder]), 1, window=10, least=10)], [0])[0]
    assert (found.starts + found.lengths <= 95).sum() == 86


def test_the_floor_of_the_scale_is_a_share_of_the_usual_spread_of_small_series():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=300) * size for size in (1.0, 100.0)]
    floors = []
    for own in (series[:1], series[1:], series):
        relative = Relative([0])
        relative.fit_floor(forecast_windows(from_list(own), 1, window=50, least=50))
        floors.append(float(relative.floor))
    assert floors[0] == pytest.approx(0.25, rel=0.4) and floors[1] == pytest.approx(25, rel=0.4)
    assert floors[2] < 25


def turning(rng):
    """A rise that ends where the validation part begins: what continues it is worse than the last value."""
    steps = np.arange(300)
    return np.where(steps < 240, 2.0 * steps, 480.0) + 0.3 * rng.normal(size=300)


def test_a_model_that_is_worse_than_the_last_value_is_not_handed_out():
    values = turning(np.random.default_rng(0))
    forecaster = SequenceForecaster(horizon=20, window=30, epochs=1, validation=0.2, **SMALL).fit(values[None])
    note = next(note for note in forecaster.notes_ if "repeats the last value" in note)
    better, worse = (float(part.split(":")[-1].strip(" ).")) for part in note.split(";")[:2])
    assert better < worse
    some = np.random.default_rng(1).normal(size=(3, 40)).cumsum(1)
    np.testing.assert_allclose(forecaster.predict(some)[..., 0], np.repeat(some[:, -1:], 20, axis=1), atol=1e-4)
    assert (np.diff(forecaster.predict_intervals(some)[95], axis=-1) > 0).all()


def trained(train, valid):
    spec = ModelSpec.for_data(train, "gru", hidden_size=4, relative=(0,), missing=False)
    return fit(train, spec, Settings(epochs=1), valid=valid, start="linear")


def test_every_result_is_at_least_as_good_as_the_naive_forecasts_on_the_validation_part():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        values = turning(rng) if seed % 2 else rng.normal(size=200).cumsum()
        w = forecast_windows(from_list([values]), 4, window=16)
        cut = int(0.8 * len(w))
        train, valid = w[:cut], w[cut:]
        fitted = fit(
            train,
            ModelSpec.for_data(train, "gru", hidden_size=4, relative=(0,), missing=False),
            Settings(epochs=1),
            valid=valid,
            start="linear",
        )
        naive = naive_forecasts(train, fitted.model.relative, 1)["last value"].outputs(valid).numpy()
        own = np.stack(fitted.predict(valid).values)
        truth = valid.target.values
        # The linear part is fitted once more with the validation part, which is not what was judged.
        assert np.abs(own - truth).mean() < 1.02 * np.abs(naive - truth).mean()


def test_a_network_worse_than_its_linear_start_is_replaced_by_it():
    values = np.sin(0.3 * np.arange(200)) + 0.05 * np.random.default_rng(0).normal(size=200)
    w = forecast_windows(from_list([values]), 3, window=16)
    train, valid = w[:150], w[150:]
    fitted = fit(
        train,
        ModelSpec.for_data(train, "gru", hidden_size=4, relative=(0,), missing=False),
        Settings(epochs=1),
        valid=valid,
        start="linear",
    )
    linear = fit_forecast(train, valid, [0])
    fitted.model.head.bias.data.fill_(50.0)
    bad = replace(fitted, record=replace(fitted.record, best_epoch=1), objective=Objective.for_data(train))
    found, kept = not_worse_than_naive(bad, Parts(train, valid, valid), linear)
    assert (
        found.best_epoch == 0
        and kept is linear
        and not found.record.baseline
        and len(found.notes) == len(bad.notes) + 1
    )
    assert float(found.model.head.bias.detach().abs().max()) == 0


def test_a_network_alone_that_is_worse_than_the_last_value_is_replaced_by_it():
    values = turning(np.random.default_rng(0))
    forecaster = SequenceForecaster("gru", horizon=20, window=30, epochs=1, start="none", validation=0.2, **SMALL)
    forecaster.fit(values[None])
    assert forecaster.model_.title == "baseline: last value"
    assert any("repeats the last value, which is better than the network" in note for note in forecaster.notes_)
    np.testing.assert_allclose(forecaster.predict(values[None]).ravel(), values[-1], rtol=1e-5)
    assert np.ptp(forecaster.predict_intervals(values[None])[80], axis=-1).min() > 0


@pytest.mark.parametrize("scaled", [False, True])
def test_a_forecast_at_every_step_that_is_worse_than_the_last_value_is_replaced_by_it(scaled):
    rng = np.random.default_rng(0)
    walks = 100 + rng.normal(size=(12, 60, 2)).cumsum(1) * [1.0, 30.0]
    walks[rng.random(walks.shape) < 0.1] = np.nan
    s = forecast(from_list(list(walks), channels=["a", "b"]), 2)
    scaler = Scaler.fit(s) if scaled else None
    train, valid = (part if scaler is None else scaler.transform(part) for part in (s[:9], s[9:]))
    spec, settings = ModelSpec.for_data(train, "gru", hidden_size=2, missing=True), Settings(epochs=1)
    fitted = fit(train, spec, settings, valid=valid, scaler=scaler)
    assert fitted.record.baseline == "last value" and fitted.model.title == "baseline: last value"
    for series, prediction in zip(s[9:], fitted.predict(valid).values, strict=True):
        values = series.values.copy()
        for step in range(1, len(values)):
            values[step] = np.where(np.isnan(values[step]), values[step - 1], values[step])
        known = ~np.isnan(values)
        np.testing.assert_allclose(prediction[:, :2][known], values[known], rtol=1e-4)
        np.testing.assert_allclose(prediction[:, 2:][known], values[known], rtol=1e-4)


def test_targets_of_tasks_at_every_step_keep_their_network():
    s = forecast(from_list(list(np.random.default_rng(0).normal(size=(12, 30)).cumsum(1)), channels=["x"]), 1)
    fitted = fit(Parts(s[:9], s[9:], s[9:]), "gru", Settings(epochs=1, learning_rate=1e-6))
    assert not fitted.record.baseline and fitted.model.start is None
