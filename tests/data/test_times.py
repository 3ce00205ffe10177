"""Times: numbers, dates, zones, units."""

import datetime

import numpy as np
import pandas
import pytest

from chronode.data import Clock, concat, from_list, from_long, from_wide
from chronode.data._gaps import is_irregular, step_gap
from chronode.data._times import seconds_of


def one(times, **options):
    return from_wide({"t": times, "x": np.arange(float(len(times)))}, time="t", **options)


def days(*hours):
    return [f"2024-03-01 {hour:02d}:00:00" for hour in hours]


@pytest.mark.parametrize(
    ("gap", "unit", "dt"),
    [
        ("47min", "hour", 0.7833),
        ("1s", "second", 1),
        ("27ms", "10 milliseconds", 2.7),
        ("27us", "10 microseconds", 2.7),
        ("20s", "minute", 0.3333),
        ("5min", "minute", 5),
        ("1D", "day", 1),
        ("30D", "week", 4.2857),
        ("1000D", "year", 2.7379),
    ],
)
def test_the_unit_of_dates_makes_the_median_gap_of_the_order_of_one(gap, unit, dt):
    made = one(pandas.date_range("2024-01-01", periods=4, freq=gap))
    assert made.clock.unit == unit
    assert made[0].dt.round(4).tolist() == [0, dt, dt, dt]
    assert 0.1 <= made.describe().gap <= 10


@pytest.mark.parametrize(("gap", "scale"), [(0.78, 1.0), (270_300, 1e5), (0.0004, 1e-3), (3, 1.0), (50, 100.0)])
def test_the_unit_of_numbers_is_a_power_of_ten(gap, scale):
    made = one(np.arange(5) * gap)
    assert made.clock.scale == pytest.approx(scale)
    assert made[0].dt[1] == pytest.approx(gap / scale)


@pytest.mark.parametrize(
    ("unit", "dt"), [("hours", 2), ("h", 2), ("30 min", 4), ("days", 1 / 12), ("100 ms", 72_000), ("minute", 120)]
)
def test_a_unit_that_is_asked_for_is_used(unit, dt):
    assert one(days(0, 2), unit=unit)[0].dt[1] == pytest.approx(dt)


def test_numbers_keep_their_size_when_their_unit_is_named():
    made = one([0, 500], unit="hours")
    assert made[0].dt.tolist() == [0, 500]
    assert made.describe().time == "time unit: hours (median gap ≈ 5e+02)"
    assert one([0, 500], unit=100)[0].dt.tolist() == [0, 5]


@pytest.mark.parametrize(
    ("unit", "message"), [("fortnight", "not a unit of time"), (3, "use e.g. 'hours'"), ("0 s", "greater than 0")]
)
def test_a_unit_that_cannot_be_is_refused(unit, message):
    with pytest.raises(ValueError, match=message):
        one(days(0, 2), unit=unit)


@pytest.mark.parametrize("unit", [0, -1.0, float("nan")])
def test_numbers_need_a_unit_above_zero(unit):
    with pytest.raises(ValueError, match="greater than 0"):
        one([0, 1], unit=unit)


def test_seconds_of_reads_names_and_multiples():
    assert seconds_of("Hours") == ("hour", 3600)
    assert seconds_of(" 2.5 d ") == ("2.5 days", 216_000)


zoned = ["2024-03-31T00:30:00+01:00", "2024-03-31T03:30:00+02:00", "2024-03-31T02:30:00Z"]


@pytest.mark.parametrize(
    "times",
    [
        zoned,
        pandas.to_datetime(zoned, utc=True).tz_convert("Europe/Berlin"),
        [datetime.datetime.fromisoformat(t.replace("Z", "+00:00")) for t in zoned],
        pandas.Series(pandas.to_datetime(zoned, utc=True)),
    ],
    ids=["text", "pandas index", "datetimes", "pandas series"],
)
def test_zones_become_utc_across_a_change_of_the_clocks(times):
    made = one(times, unit="hours")
    assert made[0].dt.tolist() == [0, 2, 1]
    assert made.clock.origin.startswith("2024-03-30T23:30:00")
    assert made.clock.origin.endswith("Z")
    assert made.clock.at(2.0) == "2024-03-31T01:30:00.000Z"


@pytest.mark.parametrize(
    "times",
    [
        ["2024-01-01 10:00", "2024-01-01T11:00Z"],
        [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)],
        ["2024-01-01 10:00:00", "2024-01-01 11:00:00+01:00"],
    ],
)
def test_times_with_and_without_a_zone_do_not_mix(times):
    with pytest.raises(ValueError, match=r"t: some times have a time zone and others none \(row 2: .*; row 1: "):
        one(times)


def test_concat_does_not_mix_zoned_and_other_dates_or_dates_and_numbers():
    aware, naive, plain = one(["2024-01-01T10:00Z"]), one(["2024-01-01T10:00"]), one([1.0])
    for pair in ((aware, naive), (naive, plain)):
        with pytest.raises(ValueError, match="cannot be combined"):
            concat(pair)


def test_concat_brings_units_and_origins_together():
    both = concat([one(days(0, 2), unit="hours"), one(days(3, 9), unit="minutes")])
    assert both.times.tolist() == [0, 2, 3, 9]
    assert both.clock.unit == "hour"


@pytest.mark.parametrize(
    "times",
    [
        np.array(["2024-01-01T00", "2024-01-01T02"], dtype="M8[h]"),
        np.array(["2024-01-01T00", "2024-01-01T02"], dtype="M8[ns]"),
        pandas.to_timedelta([0, 2], unit="h"),
        np.array([0, 2], dtype="m8[h]"),
        [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
        [datetime.time(1), datetime.time(3)],
        ["2024-01-01 10", "2024-01-01 12"],
    ],
    ids=["hours", "nanoseconds", "timedelta", "numpy timedelta", "dates", "times of day", "short text"],
)
def test_other_forms_of_time(times):
    made = one(times, unit="hours")
    assert made[0].dt[1] in (2, 24)


def test_numbers_as_text_are_numbers():
    assert one(["0", " 1.5 ", "3"])[0].dt.tolist() == [0, 1.5, 1.5]


def test_years_beyond_nanoseconds():
    assert one(["1066-10-14", "1066-10-15"])[0].dt.tolist() == [0, 1]


def test_large_whole_numbers_lose_nothing():
    ticks = 633_790_226_051_280_329 + np.array([0, 270_300, 540_601])
    made = one(ticks, unit=1)
    assert made[0].dt.tolist() == [0, 270_300, 270_301]
    assert made.clock.at(0.0) == ticks[0]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2024-01-01", "yesterday"], "t: the time of row 2 cannot be read: 'yesterday'"),
        (["2024-01-01", "2024-02-30"], "row 2 cannot be read: '2024-02-30'"),
        (["31/12/2024", "12/31/2024"], "row 2 does not have the form %d/%m/%Y: '12/31/2024'"),
        (["soon", "31/12/2024"], "row 1 cannot be read: 'soon'.*time_format"),
        (["2024-01-01", None], "the time of row 2 is missing"),
        ([1.0, None, float("nan")], r"the time of row 2 is missing \(2 such rows\)"),
        ([1.0, float("inf")], "the time of row 2 is infinite"),
        ([True, False], "times must be numbers, dates or text, not bool"),
        (["", "1"], "row 1 cannot be read: ''"),
    ],
)
def test_an_invalid_time_is_named_with_its_row(times, message):
    with pytest.raises(ValueError, match=message):
        one(times)


def test_a_format_reads_other_dates():
    made = one(["31/12/2023 23:00", "01/01/2024 01:00"], time_format="%d/%m/%Y %H:%M", unit="hours")
    assert made[0].dt.tolist() == [0, 2]
    with pytest.raises(ValueError, match="row 2 does not have the form %d/%m/%Y %H:%M: '2024-01-01'"):
        one(["31/12/2023 23:00", "2024-01-01"], time_format="%d/%m/%Y %H:%M")


def test_times_that_span_too_much_are_refused():
    with pytest.raises(ValueError, match="exceeds 64-bit numbers"):
        one(np.array([-(2**62) - 2**61, 2**62], dtype=np.int64))


def test_one_row_has_a_clock_too():
    assert one(["2024-01-01"]).clock == Clock("second", 1.0, "2024-01-01T00:00:00")


def test_times_of_lists_may_be_dates_too():
    made = from_list([[1.0, 2.0], [3.0]], times=[days(0, 2), days(1)])
    assert made.clock.unit == "hour"
    assert made.times.tolist() == [0, 2, 1]


def test_time_is_not_needed():
    made = from_long({"id": ["a", "b", "a"], "x": [1, 2, 3]}, id="id")
    assert made.batch().dt is None
    assert made[0].values[:, 0].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("clock", "times"),
    [
        (Clock("step", 1.0, 0), [0.0, 2.5]),
        (Clock("3", 3.0, 10), [0.0, 1.0, 7.0]),
        (Clock("minute", 60.0, 0, "elapsed"), [0.0, 90.25]),
        (Clock("day", 86400.0, "2024-01-31T00:00:00"), [0.0, 1.5, 30.0]),
        (Clock("hour", 3600.0, "2024-01-31T12:00:00Z"), [0.0, 1.0, 100.0]),
        (Clock("day", 86400.0, "2024-01-31T00:00:00", "%d/%m/%Y"), [0.0, 29.0]),
        (Clock("day", 86400.0, "2024-01-01T00:00:00", "quarter"), [0.0, 91.0]),
        (Clock("day", 86400.0, "2024-01-01T00:00:00", "week"), [0.0, 7.0]),
        (Clock("second", 1.0, "2024-01-31T00:00:00", "epoch s"), [0.0, 17.0]),
        (Clock("second", 1.0, "2024-01-31T00:00:00", "epoch ms"), [0.0, 17.25]),
    ],
)
def test_times_are_parsed_as_they_are_written(clock, times):
    texts = [str(text) for text in clock.written(np.array(times))]
    np.testing.assert_allclose(clock.parsed(texts), times, atol=1e-9)


@pytest.mark.parametrize("clock", [Clock(), Clock("day", 86400.0, "2024-01-31T00:00:00", "%d/%m/%Y")])
def test_texts_that_are_not_times_are_refused_with_an_example(clock):
    with pytest.raises(ValueError, match=f"such as {clock.written(np.zeros(1))[0]}"):
        clock.parsed(["later"])


@pytest.mark.parametrize(("frequency", "days"), [("MS", 30.4375), ("ME", 30.4375), ("QS", 91.3125), ("YS", 365.25)])
def test_calendar_periods_are_regular_steps_of_mean_length(frequency, days):
    dates = pandas.date_range("1996-01-01", periods=240, freq=frequency)
    s = one(dates)
    assert not is_irregular(s)
    assert step_gap(s) * s.clock.scale / 86400 == pytest.approx(days, rel=2e-3)
    # A missing period is two steps, not a longer one.
    gappy = one(dates.delete([7, 20, 21, 100]))
    assert step_gap(gappy) * gappy.clock.scale / 86400 == pytest.approx(days, rel=2e-3)


def test_the_gap_of_irregular_or_exactly_regular_times_is_the_median():
    rng = np.random.default_rng(0)
    for times in (
        np.sort(rng.uniform(0, 100, size=80)),
        np.arange(30) * 0.1,
        pandas.bdate_range("2024-01-01", periods=60),
    ):
        s = one(times)
        assert step_gap(s) == pytest.approx(s.median_gap(), rel=1e-9)
    assert is_irregular(one(pandas.bdate_range("2024-01-01", periods=60)))
    assert step_gap(from_list([[1.0, 2.0]])) == 1
