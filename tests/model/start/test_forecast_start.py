"""The linear start of a forecast on families of series: never far behind the best naive forecast in hindsight."""

from functools import lru_cache

import numpy as np
import pytest
import torch

from chronode import ModelSpec, SequenceModel
from chronode.data import forecast_windows, from_list, with_calendar, with_future
from chronode.judge import drift, find_season, fit_forecast, last_value, seasonal_naive
from chronode.model.start._forecast_start import _input_groups
from chronode.model.start._season import possible_seasons
from chronode.training import Settings, fit, forecast_parts


def families(seed):
    """Series of 120 steps by name, each with its horizon."""
    rng, steps = np.random.default_rng(seed), np.arange(120)
    noise, year = rng.normal(size=120), np.sin(2 * np.pi * steps / 12)
    regressive = np.zeros(170)
    for i in range(2, 170):
        regressive[i] = 1.2 * regressive[i - 1] - 0.5 * regressive[i - 2] + rng.normal()
    return {
        "trend": (8, 0.3 * steps + noise),
        "season": (12, 2 * year + 0.5 * noise),
        "trend and season": (12, 0.2 * steps + 4 * year + noise),
        "growing season": (12, np.exp(0.01 * steps + 0.2 * year + 0.05 * noise)),
        "random walk": (8, noise.cumsum()),
        "random walk with drift": (8, (noise + 0.4).cumsum()),
        "autoregression": (8, regressive[50:]),
        "noise": (8, 5 + noise),
        "damped trend": (8, 20 * (1 - 0.97**steps) + 0.5 * noise),
        "counts": (8, rng.poisson(4 + 2 * year).astype(float)),
        "level shifts": (8, np.repeat(5 * rng.normal(size=6), 20) + noise),
        "36 months": (6, (0.5 * steps + 2 * noise + 2 * year)[:36]),
    }


def forecast(past, horizon):
    """The linear start, chosen and fitted on these values only."""
    mean, std = past.mean(), past.std()
    w = forecast_windows(from_list([(past - mean) / std]), horizon, window=max(8, min(36, len(past) // 3)))
    cut = int(0.85 * len(w))
    fitted = fit_forecast(w[:cut], w[cut:], [0]).refitted(w[:cut], w[cut:])
    end = forecast_windows(from_list([np.append((past - mean) / std, np.zeros(horizon))]), horizon, window=36)[-1:]
    return fitted.outputs(end)[0].numpy() * std + mean


@lru_cache
def ratio(name, seeds=4, origins=2):
    """Mean absolute error over series and origins, divided by that of the best naive forecast in hindsight."""
    errors: dict[str, list[float]] = {}
    for horizon, values in [families(seed)[name] for seed in range(seeds)]:
        for origin in [len(values) - horizon * (i + 1) for i in range(origins)]:
            past, future = values[:origin], values[origin : origin + horizon]
            history, length = torch.tensor(past)[None, :, None], torch.tensor([origin])
            found = {
                "start": forecast(past, horizon),
                "last": last_value(history, length, horizon).flatten().numpy(),
                "season": seasonal_naive(history, length, horizon, find_season(past)).flatten().numpy(),
                "drift": drift(history, length, horizon).flatten().numpy(),
            }
            for key, own in found.items():
                errors.setdefault(key, []).append(float(np.abs(own - future).mean() / values.std()))
    mean = {key: np.mean(own) for key, own in errors.items()}
    return mean["start"] / min(mean[key] for key in ("last", "season", "drift"))


QUICK = {"36 months", "trend", "level shifts"}
NAMES = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in sorted(families(0))]


@pytest.mark.parametrize("name", NAMES)
def test_the_start_is_never_far_behind_the_best_naive_forecast(name):
    assert ratio(name) < 1.3


@pytest.mark.slow
def test_the_start_is_better_than_the_best_naive_forecast_on_average():
    assert np.mean([ratio(name) for name in families(0)]) < 0.95


def test_the_drift_of_a_line_is_found():
    np.testing.assert_allclose(forecast(3 + 0.5 * np.arange(90.0), 8), 3 + 0.5 * np.arange(90, 98), rtol=0.01)


def test_the_season_of_a_line_with_a_season_is_found():
    values = 0.1 * np.arange(132) + np.resize(np.random.default_rng(0).normal(size=12), 132)
    np.testing.assert_allclose(forecast(values[:120], 12), values[120:], atol=0.1)


def test_flat_parts_do_not_make_forecasts_explode():
    rng = np.random.default_rng(0)
    values = np.concatenate([np.full(20, 310.0), 310 + rng.normal(size=22).cumsum() * 20])
    assert np.abs(forecast(values, 6) - values[-1]).max() < 5 * values[20:].std()


def test_the_season_is_found_below_a_cycle_of_years():
    steps, rng = np.arange(240), np.random.default_rng(0)
    quarter = np.where(steps % 3 == 2, 1.0, 0.0) + np.where(steps % 12 == 7, -3.0, 0.0)
    cycle = 6 * np.sin(2 * np.pi * steps / 90) + quarter + 0.2 * rng.normal(size=240)
    assert find_season(cycle) == 12 and 12 in possible_seasons(cycle)


def test_related_series_of_different_size_are_better_together():
    rng, steps = np.random.default_rng(0), np.arange(72)
    series = []
    for _ in range(12):
        size, phase = 10 ** rng.uniform(-1, 3), rng.integers(12)
        year = np.sin(2 * np.pi * (steps + phase) / 12)
        series.append(size * (5 + 0.05 * rng.normal() * steps + year + 0.3 * rng.normal(size=72)))
    w = forecast_windows(from_list([own[:66] for own in series]), 6, window=24)
    first = np.isin(w.groups, np.unique(w.groups)[:9])
    fitted = fit_forecast(w[first], w[~first], [0])
    ends = forecast_windows(from_list(series), 6, window=24, least=24, stride=72)
    batch, size = ends.batch(), torch.tensor([own.std() for own in series])[:, None]
    assert len(batch.x) == 12
    error = float(((fitted.outputs(ends) - batch.target).abs() / size).mean())
    naive = (last_value, drift, lambda *past: seasonal_naive(*past, 12))
    others = [(forecast(batch.x, batch.lengths, 6)[..., 0] - batch.target).abs() / size for forecast in naive]
    assert error < 0.9 * min(float(own.mean()) for own in others)


def test_missing_values_of_regular_series_are_interpolated_if_other_series_judge():
    rng, steps = np.random.default_rng(0), np.arange(72)
    shared = rng.normal(size=72).cumsum()  # what all series have in common in these years
    series = [shared + np.sin(steps / 2) + 0.1 * rng.normal(size=72) for _ in range(8)]
    for own in series:
        own[rng.random(72) < 0.1] = np.nan
    w = forecast_windows(from_list(series), 3, window=12)
    held_out = np.isin(w.groups, np.unique(w.groups)[-2:])
    by_series = fit_forecast(w[~held_out], w[held_out], [0])
    assert by_series.description["kind"] == "values" and set(by_series.losses) == {"values"}
    one = forecast_windows(from_list(series[:1]), 3, window=12)
    assert set(fit_forecast(one[:40], one[40:], [0]).losses) == {"values", "readings"}


def priced(trend_breaks, count=260, seed=0):
    """Units that follow the price, with another known input that followed them in the training part only."""
    rng = np.random.default_rng(seed)
    price, holiday = rng.normal(size=count), rng.normal(size=count)
    units = 10 - 3 * price + 0.1 * rng.normal(size=count)
    if trend_breaks:
        units += np.where(np.arange(count) < 0.7 * count, 4 * holiday, -4 * holiday)
    s = from_list([np.stack([units, price, holiday], axis=1)], channels=["units", "price", "holiday"])
    s = with_future(s, 3, ["units"], ["price", "holiday"], [])
    return forecast_parts(s, 3, ["units"], (0.7, 0.3), window=12, by_time=True)


def test_a_known_input_that_makes_forecasts_worse_is_left_out_alone():
    train, valid = priced(trend_breaks=True)
    fitted = fit_forecast(train, valid, [0])
    assert fitted.relative.kept.tolist() == [True, False]
    assert "known inputs 'holiday', which" in fitted.note and "price" not in fitted.note
    effects = fitted.relative.effects[:, 0]
    assert effects[0] != 0 and effects[1] == 0


def test_neither_the_linear_start_nor_the_network_sees_an_input_that_is_left_out():
    train, valid = priced(trend_breaks=True)
    spec = ModelSpec.for_data(train, "gru", hidden_size=4, relative=(0,), missing=True)
    model = fit(train, spec, Settings(epochs=1, learning_rate=1e-3), valid=valid, start="linear").model
    torch.nn.init.normal_(model.head.weight)  # also if no epoch beat the linear start
    batch = valid.batch()

    def forecasts(column):
        x, static = batch.x.clone(), batch.static.clone()
        observed = torch.ones_like(x, dtype=torch.bool)
        x[..., column] += torch.randn(x.shape[:2])
        observed[:, 3, column] = False
        static[:, column - 1 :: 2] += torch.randn(len(static), 3)
        with torch.no_grad():
            return model(x, lengths=batch.lengths, observed=observed, static=static)

    with torch.no_grad():
        usual = model(batch.x, lengths=batch.lengths, observed=torch.ones_like(batch.x).bool(), static=batch.static)
    torch.testing.assert_close(forecasts(2), usual)
    assert not torch.allclose(forecasts(1), usual)
    again = SequenceModel.build(model.spec)
    again.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if name != "relative.kept"})
    assert again.relative.kept.tolist() == [True, True]  # of a model of an earlier version


def test_known_inputs_that_help_are_all_kept():
    train, valid = priced(trend_breaks=False)
    useful = fit_forecast(train, valid, [0])
    assert useful.relative.kept[0]
    columns = _input_groups(
        with_calendar(from_list([np.zeros(50)], times=[np.datetime64("2024-01-01") + np.arange(50)]), ["weekday"]),
        [1, 2],
    )
    assert columns == [[1, 2]]
