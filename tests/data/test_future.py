"""Inputs that are known over the horizon of a forecast: where they come from, and where they are missing."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some

from chronode.data import Reading, Scaler, forecast_windows, from_list, from_long, options_like
from chronode.data._future import calendar_names, calendar_periods, known_channels, with_calendar, with_future
from chronode.judge import fit_forecast

nan = float("nan")


def sales(steps, *, future=0, seed=0):
    """Units that a price explains, and rows of the future in which only the price is known."""
    rng = np.random.default_rng(seed)
    price = rng.uniform(1, 5, steps + future)
    units = np.where(np.arange(steps + future) < steps, 100 - 10 * price, nan)
    days = np.datetime64("2024-01-01") + np.arange(steps + future)
    return from_long({"day": days.astype("M8[s]"), "units": units, "price": price}, time="day", dtype="float64")


@some
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**31))
def test_windows_hold_the_known_values_of_the_steps_after_them(horizon, window, seed):
    s = sales(30, future=5, seed=seed)
    made = with_future(s, horizon, ["units"], ["price"], ())
    assert made.lengths.tolist() == [30] and made.static_names == tuple(f"price+{h}" for h in range(1, horizon + 1))
    np.testing.assert_allclose(made.static[0], s.base_values[30 : 30 + horizon, 1])
    windows = forecast_windows(made, horizon, ["units"], window=window)
    np.testing.assert_allclose(windows.target.values, 100 - 10 * windows.static)
    assert known_channels(windows) == (1,)
    scaler = Scaler.fit(windows)
    assert scaler.static_mean == (scaler.mean[1],) * horizon and scaler.static_std == (scaler.std[1],) * horizon


def test_an_explained_series_is_forecast_almost_exactly():
    s = with_future(sales(120), 5, ["units"], ["price"], ())
    windows = forecast_windows(s, 5, ["units"], window=8)
    fitted = fit_forecast(windows[:80], windows[80:100], [0])
    errors = (fitted.outputs(windows[100:]) - torch.tensor(windows[100:].target.values)).abs()
    assert float(errors.mean()) < 0.2  # the units vary by 11.5
    alone = forecast_windows(sales(120), 5, ["units"], window=8)
    fitted = fit_forecast(alone[:80], alone[80:100], [0])
    errors = (fitted.outputs(alone[100:]) - torch.tensor(alone[100:].target.values)).abs()
    assert float(errors.mean()) > 5


def test_a_forecast_without_the_rows_of_the_future_is_refused():
    train = sales(40)
    options = {"time": "day", **options_like(train)}
    fields = {"horizon": 3, "forecast_channels": ("units",), "known": ("price",), "window": 8, "target": ()}
    reading = Reading.of(train, options=options, missing=False, **fields)
    made = reading.extended(train)
    reading = Reading.of(made, options=options, missing=False, **fields)
    assert len(reading.inputs(reading.matching(reading.extended(sales(40, future=3)), "here"))) == 1
    short = reading.matching(reading.extended(sales(40, future=2)), "here")
    wanted = "ends at 2024-02-09T00:00:00; a forecast of 3 steps needs rows until 2024-02-12.*'price' has no value at "
    with pytest.raises(ValueError, match=wanted + "2024-02-12T00:00:00"):
        reading.inputs(short)


def test_the_calendar_has_what_the_dates_resolve_and_cover():
    hours = from_list([np.zeros(24 * 30)], times=[np.datetime64("2024-01-01T00") + np.arange(24 * 30)])
    assert calendar_periods(hours) == ("hour", "weekday")
    months = from_list([np.zeros(40)], times=[(np.datetime64("2020-01") + np.arange(40)).astype("M8[s]")])
    assert calendar_periods(months) == ("yearday",)
    with pytest.raises(ValueError, match=r"calendar needs dates, but the times are missing.*time=\.\.\."):
        calendar_periods(from_list([[1.0]]))
    with pytest.raises(ValueError, match="calendar needs dates, but the times are the given numbers"):
        calendar_periods(from_list([[1.0, 2.0]], times=[[0, 1]], unit=1))
    with pytest.raises(ValueError, match="calendar has no effect"):
        calendar_periods(from_list([[1.0, 2.0]], times=[np.array(["2024-01-01", "2024-01-02"], "M8[s]")]))


def test_the_calendar_goes_on_over_the_horizon():
    days = np.datetime64("2024-01-01") + np.arange(21)  # a Monday
    s = with_calendar(from_list([np.zeros(21)], times=[days.astype("M8[s]")], channels=["x"]), ["weekday"])
    assert s.channels == ("x", *calendar_names(["weekday"]))
    np.testing.assert_allclose(s.base_values[:, 2], np.cos(2 * np.pi * np.arange(21) / 7), atol=1e-6)
    made = with_future(s, 7, ["x"], [], ["weekday"])
    np.testing.assert_allclose(made.static[0, ::2], np.sin(2 * np.pi * np.arange(7) / 7), atol=1e-6)
    assert with_future(made, 7, ["x"], [], ["weekday"]) is made
