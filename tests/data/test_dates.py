"""Dates in files: the formats that are found, given, recognized in numbers, and written back."""

import datetime

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some

from chronode.data import from_list, from_long, from_wide, options_like, read

DAY = 86400.0


def one(path, times, **options):
    """The one series of a file with these times."""
    rows = [f'"{time}",{i}' for i, time in enumerate(times)]
    path.write_text("\n".join(["when,x", *rows]) + "\n")
    return read(path, time="when", **options)


def seconds(s):
    """The instants of a series, in seconds since 1970."""
    origin = np.datetime64(s.clock.origin.rstrip("Z"), "us").astype(np.int64) / 1e6
    return (origin + s.times * s.clock.scale).round(6).tolist()


def utc(*texts):
    return [datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp() for text in texts]


FOUND = {
    "slashes": (["2012/01/01", "2012/01/03"], "%Y/%m/%d", ["2012-01-01", "2012-01-03"]),
    "month": (["1949-01", "1949-02"], "%Y-%m", ["1949-01-01", "1949-02-01"]),
    "month first": (["01/1949", "02/1949"], "%m/%Y", ["1949-01-01", "1949-02-01"]),
    "name": (["Jan 1 2000", "Feb 3 2000"], "%b %d %Y", ["2000-01-01", "2000-02-03"]),
    "full name": (["March 1, 2000", "May 3, 2000"], "%B %d, %Y", ["2000-03-01", "2000-05-03"]),
    "may": (["May 1, 2000", "June 3, 2000"], "%B %d, %Y", ["2000-05-01", "2000-06-03"]),
    "day, name": (["01-Jan-00", "31-Dec-00"], "%d-%b-%y", ["2000-01-01", "2000-12-31"]),
    "weekday": (["Sat, 01 Jan 2000", "Sun, 02 Jan 2000"], "%a, %d %b %Y", ["2000-01-01", "2000-01-02"]),
    "quarter": (["1970 Q1", "1970 Q2"], "quarter", ["1970-01-01", "1970-04-01"]),
    "quarter first": (["Q4-1999", "Q1-2000"], "quarter", ["1999-10-01", "2000-01-01"]),
    "week": (["2024W05", "2024W06"], "week", ["2024-01-29", "2024-02-05"]),
    "week with dash": (["2020-W53", "2021-W01"], "week", ["2020-12-28", "2021-01-04"]),
    "day of week": (["2024-W05-1", "2024-W05-7"], "%G-W%V-%u", ["2024-01-29", "2024-02-04"]),
    "day first": (["03/01/2024", "31/01/2024"], "%d/%m/%Y", ["2024-01-03", "2024-01-31"]),
    "month, day": (["01/03/2024 9:30", "01/31/2024 19:30"], "%m/%d/%Y %H:%M", ["2024-01-03T09:30", "2024-01-31T19:30"]),
    "dots": (["3.1.2024", "31.12.2024"], "%d.%m.%Y", ["2024-01-03", "2024-12-31"]),
    "noon": (
        ["1/31/2024 12:05:00 AM", "1/31/2024 1:05:00 PM"],
        "%m/%d/%Y %I:%M:%S %p",
        ["2024-01-31T00:05", "2024-01-31T13:05"],
    ),
    "fraction": (
        ["31.12.2024 10:00:00,250", "31.12.2024 10:00:00,500"],
        "%d.%m.%Y %H:%M:%S,%f",
        ["2024-12-31T10:00:00.250", "2024-12-31T10:00:00.500"],
    ),
    "offsets": (
        ["31/12/2024 10:00 +0100", "31/12/2024 10:00 -0500"],
        "%d/%m/%Y %H:%M %z",
        ["2024-12-31T09:00", "2024-12-31T15:00"],
    ),
    "offsets of ISO": (
        ["2024-03-31T00:30:00+01:00", "2024-03-31T03:30:00+02:00"],
        "",
        ["2024-03-30T23:30", "2024-03-31T01:30"],
    ),
    "colon": (
        ["27.05.2009 12:03:25:128", "27.05.2009 14:03:25:500"],
        "%d.%m.%Y %H:%M:%S:%f",
        ["2009-05-27T12:03:25.128", "2009-05-27T14:03:25.500"],
    ),
    "joined": (["20240131T101500", "20240131T111500"], "%Y%m%dT%H%M%S", ["2024-01-31T10:15", "2024-01-31T11:15"]),
    "joined, with a zone": (
        ["20240131T101500Z", "20240131T111500+0100"],
        "%Y%m%dT%H%M%S%z",
        ["2024-01-31T10:15", "2024-01-31T10:15"],
    ),
    "months of statistics offices": (["2000M01", "2000M12"], "%YM%m", ["2000-01-01", "2000-12-01"]),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_format_is_found_and_reported(tmp_path, name):
    texts, text_format, expected = FOUND[name]
    made = one(tmp_path / "a.csv", texts, duplicates="keep")
    assert seconds(made) == utc(*expected)
    assert made.clock.format == text_format
    assert any(text_format in note or text_format in ("quarter", "week") for note in made.notes) or not text_format
    again = one(tmp_path / "b.csv", texts[:1], **options_like(made))
    assert seconds(again) == utc(*expected[:1])


@pytest.mark.parametrize(
    ("texts", "choices"),
    [
        (["01/02/2024", "03/04/2024"], "'%d/%m/%Y' or time_format='%m/%d/%Y'"),
        (["01-02-24", "03-04-24"], "'%d-%m-%y' or time_format='%m-%d-%y' or time_format='%y-%m-%d'"),
    ],
)
def test_an_ambiguous_order_is_asked_for(tmp_path, texts, choices):
    with pytest.raises(
        ValueError, match=f"a.csv: when: dates such as '{texts[0]}' can be read .* pass time_format={choices}"
    ):
        one(tmp_path / "a.csv", texts)
    assert seconds(one(tmp_path / "a.csv", ["01/02/2024"], time_format="%d/%m/%Y")) == utc("2024-02-01")


def test_a_late_row_decides_the_order(tmp_path):
    texts = [f"{day:02d}/01/2024" for day in range(1, 13)] * 200 + ["13/01/2024"]
    made = one(tmp_path / "a.csv", texts, duplicates="keep")
    assert made.clock.format == "%d/%m/%Y"
    assert seconds(made)[-1] == utc("2024-01-13")[0]


@pytest.mark.parametrize(
    ("numbers", "name", "expected"),
    [
        ([19580329, 19580405], "%Y%m%d", ["1958-03-29", "1958-04-05"]),
        ([195812, 195901], "%Y%m", ["1958-12-01", "1959-01-01"]),
        ([20240131235959, 20240201000000], "%Y%m%d%H%M%S", ["2024-01-31T23:59:59", "2024-02-01"]),
        ([1706700000, 1706700060], "epoch s", ["2024-01-31T11:20", "2024-01-31T11:21"]),
        ([1706700000.5, 1706700060], "epoch s", ["2024-01-31T11:20:00.500", "2024-01-31T11:21"]),
        ([1706700000000, 1706700060000], "epoch ms", ["2024-01-31T11:20", "2024-01-31T11:21"]),
        ([1706700000000000, 1706700060000000], "epoch us", ["2024-01-31T11:20", "2024-01-31T11:21"]),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_numbers_that_are_dates_are_recognized_and_reported(tmp_path, kind, numbers, name, expected):
    frame = pandas.DataFrame({"when": numbers, "x": [1.0, 2.0]})
    if kind == "csv":
        made = one(tmp_path / "a.csv", numbers)
    elif kind == "parquet":
        frame.to_parquet(tmp_path / "a.parquet")
        made = read(tmp_path / "a.parquet", time="when")
    else:
        made = from_wide(frame, time="when")
    assert seconds(made) == utc(*expected)
    assert made.clock.format == name
    assert "read as" in made.notes[0]
    assert "time_format='number' keeps plain numbers" in made.notes[0]
    assert made.clock.written(made.times) == ([str(n) for n in numbers] if "%" in name else numbers)
    plain = from_wide(frame, time="when", time_format="number")
    assert plain.clock.written(plain.times) == numbers
    assert not plain.clock.dates


@pytest.mark.parametrize(
    "numbers",
    [[19580405, 19581329], [19580230, 19580301], [20000101.5, 20000102], [200001, 200012], [7, 83], [2000, 2001]],
)
def test_other_numbers_stay_numbers(tmp_path, numbers):
    made = one(tmp_path / "a.csv", numbers)
    assert not made.clock.dates
    assert made.clock.written(made.times) == numbers


def test_a_size_as_unit_keeps_plain_numbers(tmp_path):
    assert one(tmp_path / "a.csv", [19580329, 19580330], unit=1)[0].dt.tolist() == [0, 1]


def test_training_on_numbers_keeps_later_numbers_from_becoming_dates(tmp_path):
    made = one(tmp_path / "a.csv", [10_000_000, 20_240_105])
    assert not one(tmp_path / "b.csv", [20_240_105], **options_like(made)).clock.dates
    assert not one(tmp_path / "b.csv", [5, 6]).clock.dates


def test_numbers_in_arrays_are_never_dates():
    assert not from_list([[1.0, 2.0]], times=[[19580329, 19580405]]).clock.dates


@pytest.mark.parametrize(
    ("numbers", "text_format", "expected"),
    [
        ([19580329, 19580405], "%Y%m%d", ["1958-03-29", "1958-04-05"]),
        ([1022024, 31012024], "%d%m%Y", ["2024-02-01", "2024-01-31"]),
        ([1958, 1959], "%Y", ["1958-01-01", "1959-01-01"]),
        ([2024060, 2024061], "%Y%j", ["2024-02-29", "2024-03-01"]),
        ([100.0, 160.0], "epoch s", ["1970-01-01T00:01:40", "1970-01-01T00:02:40"]),
    ],
)
def test_a_given_format_is_used_for_whole_numbers_too(tmp_path, numbers, text_format, expected):
    frame = pandas.DataFrame({"when": numbers, "x": [1.0, 2.0]})
    texts = [f"{n:08d}" if text_format == "%d%m%Y" else n for n in numbers]
    for made in (
        from_wide(frame, time="when", time_format=text_format),
        one(tmp_path / "a.csv", texts, time_format=text_format),
    ):
        assert sorted(seconds(made)) == sorted(utc(*expected))


FORMATS = [
    *("%G-W%V-%u", "%Y-%m-%d %H:%M:%S.%f", "%d %B %Y %I:%M:%S.%f %p", "%j/%Y %H", "%y%m%d%H%M%S%f", "%A %d.%m.%Y"),
    *("%U %w %Y", "%Y-%m-%dT%H:%M:%S%z", "%c", "100%% %Y"),
]


@some
@given(st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2068, 1, 1)), st.sampled_from(FORMATS))
def test_what_strptime_accepts_works(moment, text_format):
    text = moment.replace(tzinfo=datetime.timezone.utc).strftime(text_format)
    expected = datetime.datetime.strptime(text, text_format).replace(tzinfo=datetime.timezone.utc)
    made = from_wide({"t": [text], "x": [1.0]}, time="t", time_format=text_format)
    assert seconds(made) == [pytest.approx(expected.timestamp(), abs=2e-6)]


@pytest.mark.parametrize("text_format", ["%G-W%V", "%K", "%Y %", "%Y-%Q"])
def test_what_strptime_refuses_is_refused(text_format):
    with pytest.raises(ValueError):
        datetime.datetime.strptime("2024-W05", text_format)
    with pytest.raises(ValueError, match="t: the time of row 1 does not have the form|is not a date format"):
        from_wide({"t": ["2024-W05"], "x": [1.0]}, time="t", time_format=text_format)


@pytest.mark.parametrize("text", ["now", "today", "NaT", "nan"])
def test_words_of_pandas_are_not_dates(text):
    with pytest.raises(ValueError, match="row 2 does not have the form"):
        from_wide({"t": ["2024", text], "x": [1.0, 2.0]}, time="t", time_format="%Y")


def test_an_invalid_format_is_named():
    with pytest.raises(ValueError, match="time_format='iso' is not supported; use e.g. '%d/%m/%Y %H:%M' or 'number'"):
        from_wide({"t": [1], "x": [1.0]}, time="t", time_format="iso")
    with pytest.raises(ValueError, match="t: the time of row 2 is not a number: 'b'"):
        from_wide({"t": ["1", "b"], "x": [1.0, 2.0]}, time="t", time_format="number")


SHAPES = ["%Y/%m/%d", "%Y.%m.%d %H:%M", "%d-%b-%Y", "%B %d, %Y %I:%M %p", "%d %b %Y %H:%M:%S", "%Y-%m-%d %H:%M:%S %z"]


@some
@given(
    st.lists(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)), min_size=1, max_size=5),
    st.sampled_from(SHAPES),
)
def test_a_found_format_reads_what_python_wrote(moments, text_format):
    zone = datetime.timezone.utc
    texts = [moment.replace(tzinfo=zone).strftime(text_format) for moment in moments]
    expected = sorted(datetime.datetime.strptime(text, text_format).replace(tzinfo=zone).timestamp() for text in texts)
    made = from_wide({"t": texts, "x": np.arange(len(texts))}, time="t", duplicates="keep")
    # Times are float64 multiples of a unit that suits the gaps; seconds since 1970 have a resolution of 5e-7 in 2075.
    np.testing.assert_allclose(seconds(made), expected, rtol=0, atol=2e-6)


def test_readings_tell_their_format_too():
    table = {"t": ["1970 Q1", "1970 Q2"], "what": ["a", "b"], "v": [1.0, 2.0], "id": [1, 1]}
    from chronode.data import from_channel_rows

    assert from_channel_rows(table, id="id", time="t", channel="what", value="v").notes == ("t: read as quarters.",)
    assert from_long(table, id="id", time="t", ignore=["what"]).notes[0] == "t: read as quarters."


@pytest.mark.parametrize(
    "texts", [["00:00", "36:05"], ["0:00:00", "36:05:00.0"], ["0 days 00:00:00", "1 days 12:05:00"]]
)
def test_elapsed_times_are_durations(tmp_path, texts):
    made = one(tmp_path / "a.csv", texts, unit="hours")
    assert made[0].dt.tolist() == [0, pytest.approx(36 + 5 / 60)]
    assert not made.clock.dates
    assert made.notes[0] == "when: read as elapsed hours, minutes and seconds."
    assert made.clock.written(made.times) == ["0:00:00", "36:05:00"]
    assert one(tmp_path / "b.csv", ["1:30", "2:00"], **options_like(made)).clock.unit == "hour"
    with pytest.raises(ValueError, match="row 2 does not have the form elapsed: '1:75'"):
        one(tmp_path / "c.csv", ["0:00", "1:75"])


def test_minutes_and_seconds_are_not_dates(tmp_path):
    made = one(tmp_path / "a.csv", ["00:01.5", "01:02.0"], unit="seconds")
    assert made[0].dt.tolist() == [0, 60.5]
    assert "times of day that pass midnight need a date" in made.notes[0]
    with pytest.raises(ValueError, match="row 2 does not have the form elapsed: '1:02'"):
        one(tmp_path / "b.csv", ["00:01.5", "1:02"])  # hours or minutes?


def test_a_line_of_totals_is_named(tmp_path):
    with pytest.raises(ValueError, match="the time of row 3 is not a number: 'Total'. Correct or remove the row"):
        one(tmp_path / "a.csv", ["1", "2", "Total"])


def test_a_column_cannot_be_id_and_time(tmp_path):
    with pytest.raises(ValueError, match="id='when' and time='when' are the same column"):
        one(tmp_path / "a.csv", ["1", "2"], id="when")
