"""Public holidays of the package holidays itself, against rules of the law and from file to forecast."""

import csv
import datetime
import io

import numpy as np
import pytest
from commands import chronode

from chronode.data import from_list, holiday_periods, with_calendar
from chronode.settings import SettingError


def nth(year, month, weekday, number):
    """The n-th weekday of a month; the last one for -1."""
    days = [datetime.date(year, month, 1) + datetime.timedelta(n) for n in range(31)]
    days = [day for day in days if day.month == month and day.weekday() == weekday]
    return days[number - 1 if number > 0 else number]


def federal(year):
    """Federal holidays of the United States by 5 U.S.C. 6103, with those that a weekend moves."""
    fixed = [datetime.date(year, *day) for day in ((1, 1), (6, 19), (7, 4), (11, 11), (12, 25))]
    moved = [day + datetime.timedelta({5: -1, 6: 1}.get(day.weekday(), 0)) for day in fixed]
    mondays = [nth(year, *rule) for rule in ((1, 0, 3), (2, 0, 3), (5, 0, -1), (9, 0, 1), (10, 0, 2))]
    return {*fixed, *moved, *mondays, nth(year, 11, 3, 4)}


def dated(first, count):
    times = np.datetime64(first) + np.arange(count)
    return from_list([np.zeros(count)], times=[times], channels=["x"])


def test_federal_holidays_of_the_united_states():
    s = dated("2022-01-01", 3 * 365)
    s = with_calendar(s, holiday_periods(s, "US"))
    days = [datetime.date(2022, 1, 1) + datetime.timedelta(int(n)) for n in np.flatnonzero(s.values[:, 1])]
    expected = set().union(*map(federal, (2022, 2023, 2024)))
    assert days == sorted(day for day in expected if datetime.date(2022, 1, 1) <= day < datetime.date(2024, 12, 31))


@pytest.mark.parametrize(("place", "cure"), [("US-ZZ", "such as US-AK"), ("ATLANTIS", "such as A")])
def test_places_that_do_not_exist_are_refused(place, cure):
    with pytest.raises(SettingError, match=f"not known to the package holidays.*{cure}"):
        holiday_periods(dated("2022-01-01", 100), place)


def test_a_subdivision_has_holidays_of_its_own():
    s = dated("2022-01-01", 300)
    free = {place: with_calendar(s, holiday_periods(s, place)).values[:, 1] for place in ("us-ca", "US")}
    day = (datetime.date(2022, 3, 31) - datetime.date(2022, 1, 1)).days  # César Chávez Day of California
    assert free["us-ca"][day] == 1 and free["US"][day] == 0


def test_a_forecast_knows_the_holidays_after_the_file(tmp_path):
    """Few customers come on holidays; the file ends before Independence Day."""
    rng = np.random.default_rng(0)
    days = [datetime.date(2019, 1, 1) + datetime.timedelta(n) for n in range(1641)]  # to 2023-06-29
    free = {day for year in range(2019, 2024) for day in federal(year)}
    rows = [f"{day},{200 - 150 * (day in free) + rng.normal():.2f}" for day in days]
    data, run = tmp_path / "visits.csv", tmp_path / "run"
    data.write_text("\n".join(["day,visits", *rows]) + "\n")
    options = ("--window", 30, "--model", "gru", "--hidden", 4, "--epochs", 0, "--start", "linear")
    chronode("train", data, "--time", "day", "--forecast", 7, "--holidays", "US", *options, "-o", run)
    rows = csv.DictReader(io.StringIO(chronode("predict", run, data).out))
    forecast = {row["day"][:10]: float(row["forecast"]) for row in rows}
    assert forecast.pop("2023-07-04") < 110 and min(forecast.values()) > 170
