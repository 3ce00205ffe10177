"""Public holidays as inputs of forecasts: read from the package holidays, of which a stand-in is enough here."""

import csv
import datetime
import io
import sys
import types

import numpy as np
import pytest
from commands import chronode

from chronode.data import from_list, holiday_periods, with_calendar
from chronode.data._future import _holidays
from chronode.settings import SettingError


@pytest.fixture(autouse=True)
def package(monkeypatch):
    """The package: in the country XX, the 1st and the 15th of every month are holidays."""

    def country_holidays(country, subdiv=None, years=()):
        if country != "XX" or subdiv not in (None, "A"):
            raise NotImplementedError(f"Country {country} not available")
        months = [(year, month) for year in years for month in range(1, 13)]
        return {datetime.date(*month, day): "day off" for month in months for day in (1, 15)}

    made = types.ModuleType("holidays")
    made.country_holidays, made.list_supported_countries = country_holidays, lambda: {"XX": ["A"], "YY": []}
    monkeypatch.setitem(sys.modules, "holidays", made)
    _holidays.cache_clear()
    yield
    _holidays.cache_clear()


def dated(first, count, step="D"):
    times = np.datetime64(first) + np.arange(count).astype(f"m8[{step}]")
    return from_list([np.zeros(count)], times=[times], channels=["x"])


def test_channels_of_days_and_hours():
    s = dated("2024-01-13", 10)
    s = with_calendar(s, holiday_periods(s, "xx"))
    assert s.channels == ("x", "holiday XX", "near holiday XX")
    assert s.values[:, 1].tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert s.values[:, 2].tolist() == [0.5, 0.75, 1, 0.75, 0.5, 0.25, 0, 0, 0, 0]
    hours = dated("2023-12-31T22:00", 30, "h")
    hours = with_calendar(hours, holiday_periods(hours, "XX-A"))
    assert hours.values[:, 1].tolist() == [0, 0] + [1] * 24 + [0] * 4


@pytest.mark.parametrize(
    ("series", "place", "problem"),
    [
        (dated("2024-01-01", 30), "ZZ", "holidays='ZZ' is not known to the package holidays: pass .* such as XX, YY"),
        (dated("2024-01-01", 30), "XX-B", "such as XX-A"),
        (dated("2024-01-01", 30, "W"), "XX", "needs steps of a day or less"),
        (dated("2024-01-03", 5), "XX", "no date of the series is a holiday"),
        (from_list([[1.0, 2.0]]), "XX", "needs dates"),
    ],
)
def test_refused(series, place, problem):
    with pytest.raises(SettingError, match=problem):
        holiday_periods(series, place)


def test_a_package_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(ImportError, match=r"pip install 'chronode\[holidays\]'"):
        holiday_periods(dated("2024-01-01", 30), "XX")


def test_a_forecast_learns_holidays_and_knows_those_to_come(tmp_path):
    """Sales double on holidays: only a model that knows them can forecast the next one, beyond the file."""
    rng = np.random.default_rng(0)
    days = np.datetime64("2021-01-01") + np.arange(700)
    free = np.isin([int(str(day)[-2:]) for day in days], [1, 15])
    rows = [f"{day},{100 + 100 * off + rng.normal():.2f}" for day, off in zip(days, free, strict=True)]
    data = tmp_path / "sales.csv"
    data.write_text("\n".join(["day,sales", *rows[:695]]) + "\n")  # ends on 2022-11-26
    common = (data, "--time", "day", "--forecast", 7, "--window", 30, "--model", "gru", "--hidden", 4, "--epochs", 0)
    forecasts = {}
    for name, more in (("plain", ()), ("holidays", ("--holidays", "XX"))):
        chronode("train", *common, *more, "--start", "linear", "-o", tmp_path / name)
        rows = csv.DictReader(io.StringIO(chronode("predict", tmp_path / name, data).out))
        forecasts[name] = {row["day"][:10]: float(row["forecast"]) for row in rows}
    assert forecasts["holidays"]["2022-12-01"] > 170 and forecasts["plain"]["2022-12-01"] < 150
    assert all(abs(value - 100) < 25 for day, value in forecasts["holidays"].items() if day != "2022-12-01")
    refused = chronode("train", data, "--target", "sales", "--holidays", "XX", code=2).err
    assert "--holidays needs --forecast" in refused
