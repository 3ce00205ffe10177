"""Times and values of observations: each is read for itself, as `predict` reads a file, and errs alone."""

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from streams import answered, train_vitals, train_wave

import chronode as package
from chronode.data import from_long, options_like
from chronode.data._reading import Reading
from chronode.data._scaling import Scaler
from chronode.stream import Stream
from chronode.stream._times import Intake, Newest


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = train_vitals(tmp_path_factory.mktemp("times"))
    return package.load(home / "run")


@pytest.fixture(scope="module")
def wave(tmp_path_factory):
    return package.load(train_wave(tmp_path_factory.mktemp("wave")) / "run")


def event(name, time, **values):
    return json.dumps({"patient": name, "charted_at": time, "hr": 80, **values})


# ---- the kind of times is that of training ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        5,
        5.5,
        "5",
        "24:00",
        "2024-01-01T10:00:00Z",
        "2024-01-01 10:00+02:00",
        1704103200,
        "31/01/2024",
        "2024 Q1",
        True,
        [1],
    ],
)
def test_a_time_of_another_kind_is_refused_alone(trained, tmp_path, first):
    stream = Stream(trained)
    good = [event("a", f"2024-01-01 {hour}:00") for hour in (10, 11)]
    text, errors = answered(stream, [event("b", first), *good, event("c", first)], size=1)
    answers = [json.loads(line) for line in text.splitlines()]
    assert errors == 2 and ["error" in answer for answer in answers] == [True, False, False, True]
    assert answers[0]["error"].startswith("charted_at: ") and answers[0]["patient"] == "b"
    stream.save(tmp_path / "a.state")
    stream.load(tmp_path / "a.state")
    assert answered(stream, [event("a", "2024-01-01 12:00")])[1] == 0


def test_the_zone_is_that_of_training(trained):
    zoned = replace(trained, reading=replace(trained.reading, zoned=True))
    text, errors = answered(Stream(zoned), [event("a", "2024-01-01 10:00"), event("a", "2024-01-01T10:00:00+02:00")])
    assert errors == 1 and "time zone" in json.loads(text.splitlines()[0])["error"]
    assert trained.reading.zoned is False


# ---- the same numbers as those of a table ----------------------------------------------------------------------------


FORMATS = {
    "iso": (["2024-01-01 10:00", "2024-01-02T11:30:15.25"], None),
    "zoned": (["2024-01-01T10:00:00Z", "2024-01-02 11:30+02:00"], None),
    "day first": (["31/01/2024 10:00", "01/02/2024 10:30"], "%d/%m/%Y %H:%M"),
    "epoch": ([1_700_000_000, 1_700_003_600], None),
    "epoch ms": ([1_700_000_000_000, 1_700_000_000_250], None),
    "numbers": ([0, 2.5], None),
    "large": ([2**60, 2**60 + 1], None),
    "elapsed": (["0:30", "36:05:07"], None),
    "quarters": (["1970 Q1", "1970 Q2"], None),
    "durations": ([timedelta(hours=1), timedelta(hours=3)], None),
    "instants": ([datetime(2024, 1, 1), datetime(2024, 1, 1, 6)], None),
}


def read_as_table(given, **options):
    table = {"id": ["a"] * len(given), "t": given, "x": [1.0] * len(given)}
    return from_long(table, id="id", time="t", **options)


@pytest.mark.parametrize("kind", FORMATS)
def test_gaps_are_those_of_a_table(kind):
    given, text_format = FORMATS[kind]
    s = read_as_table(given, time_format=text_format)
    reading = Reading.of(s, options={"id": "id", "time": "t", **options_like(s)}, target=(), missing=False)
    for batch in ([given], [[one] for one in given]):
        intake, found = Intake(reading), []
        for times in batch:
            observations, errors = intake.read(times, {"x": [1.0] * len(times)}, len(times))
            assert errors == {}
            found += observations.times.tolist()
        assert found[1] - found[0] == pytest.approx(s[0].dt[1], rel=1e-9)
    others = [name for name in FORMATS if name not in (kind, "instants" if kind == "iso" else "")]
    for other in others:
        read = Intake(reading).read(FORMATS[other][0], {"x": [1.0, 1.0]}, 2)
        if read[1] == {}:  # a table of both would also have been read
            assert (kind, other) in AKIN


AKIN = {
    *((one, other) for one in ("numbers", "large") for other in ("numbers", "large", "epoch", "epoch ms")),
    *((one, other) for one in ("epoch", "epoch ms") for other in ("numbers", "large", "epoch", "epoch ms")),
    *(("durations", other) for other in ("numbers", "large", "epoch", "epoch ms")),
    ("instants", "iso"),
    ("elapsed", "durations"),
    *((one, "instants") for one in ("day first", "quarters")),
}


texts = st.one_of(
    st.text(max_size=6),
    st.from_regex(r"[ +-]?[0-9]{0,3}\.?[0-9]{0,3}([eE][+-]?[0-9]{1,3})?[ _]?", fullmatch=True),
    st.sampled_from(
        ["nan", "inf", "-inf", "Infinity", "1_000", "١", "0x1F", "1,5", "+1", ".5", "5.", "1e400", "NA", "-9"]
    ),
)
cells = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), texts)


@settings(max_examples=300, deadline=None)
@given(cell=cells)
@example(cell="\ud800")
@example(cell="-09")
def test_values_are_those_of_a_table(cell):
    """A cell has the number that a table with this cell has, or is refused as the table is."""
    options = {"columns": ["x"], "dtype": "float32", "empty": "keep", "missing_values": ["-9", "NA"], "time": "t"}
    scaler = Scaler(("x",), (1.5,), (2.0,))
    reading = Reading({**options, "unit": 1.0}, (), ("x",), "1", 1.0, False, 1.0, True, scaler=scaler)
    try:
        s = from_long({"t": [0], "x": [cell]}, unit=1.0, **options)
        expected = scaler.transform(s).values[0, 0]
    except ValueError:
        expected = None
    found, errors = Intake(reading).read([0], {"x": [cell]}, 1)
    assert (expected is None) == bool(errors)
    if expected is not None:
        np.testing.assert_array_equal(found.values[0, 0], expected)
    pair, wrong = Intake(reading).read([0, 1], {"x": [cell, 3.0]}, 2)  # whatever comes with it
    assert wrong.keys() == errors.keys() and pair.values[1, 0] == np.float32(0.75)
    if not errors:
        np.testing.assert_array_equal(pair.values[0], found.values[0])


iso = st.builds(
    lambda date, sep, form, zone: date.strftime(f"%Y-%m-%d{sep}{form}") + zone,
    st.datetimes(datetime(1850, 1, 1), datetime(2150, 1, 1)),
    st.sampled_from([" ", "T"]),
    st.sampled_from(["%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H", "%H:%M:60", "24:00"]),
    st.sampled_from(["", "", "Z", "+05:30", "-0800", "+99:00", " Z", "+02"]),
)


@settings(max_examples=300, deadline=None)
@given(text=iso)
def test_dates_are_those_of_a_table(text):
    zoned = not text[11:].replace(":", "").replace(".", "").isdigit()
    start = "2000-01-01 00:00" + ("Z" if zoned else "")
    reading = Reading({"columns": ["x"], "unit": "second"}, (), ("x",), "second", 1.0, True, 1.0, False, zoned=zoned)
    try:
        s = from_long({"id": [0, 1], "t": [start, text], "x": [1.0, 1.0]}, id="id", time="t", unit="second")
        expected = s[1].times[0] - s[0].times[0]
    except ValueError:
        expected = None
    found, errors = Intake(reading).read([start, text], {"x": [1.0, 1.0]}, 2)
    assert (expected is None) == bool(errors), errors
    if expected is not None:
        assert found.times[1] - found.times[0] == pytest.approx(expected, abs=1e-5)


def test_texts_are_categories_of_training():
    s = from_long({"t": [0, 1, 2], "x": ["lo", "hi", "7"], "y": [1, 2, 3]}, time="t", categorical="onehot")
    reading = Reading.of(s, options={"time": "t", **options_like(s)}, target=(), missing=True)
    given = {"x": ["hi", 7, 7.0, "new", None, [1]], "y": [1] * 6}
    found, errors = Intake(reading).read([0] * 6, given, 6)
    columns = [s.channels.index(f"x={text}") for text in ("7", "hi", "lo")]
    np.testing.assert_array_equal(found.values[:4, columns], [[0, 1, 0], [1, 0, 0], [1, 0, 0], [np.nan] * 3])
    assert list(errors) == [5] and "x: [1] is neither text nor a number" in errors[5]
    np.testing.assert_array_equal(found.values[:4, s.channels.index("y")], 1)


@pytest.mark.parametrize("clip", [(), ("x",)])
def test_a_value_without_a_logarithm_is_refused_alone(clip):
    s = from_long({"t": [0, 1, 2], "x": [1.0, 2.0, 3.0]}, time="t")
    scaler = Scaler.fit(s, log={"x": 0.0}, clip=clip)
    reading = Reading.of(s, options={"time": "t", **options_like(s)}, target=(), missing=True, scaler=scaler)
    found, errors = Intake(reading).read([0, 1, 2, 3], {"x": [2.0, 0.0, -1.0, 1e39]}, 4)
    assert sorted(errors) == [1, 2, 3]
    np.testing.assert_allclose(found.values[0, 0], scaler.transform(s).values[1, 0])


# ---- times ahead, idle ids -------------------------------------------------------------------------------------------


def test_a_date_far_ahead_is_refused_and_neither_drops_nor_blocks(trained):
    stream = Stream(trained, idle=48)
    hours = [f"2024-01-01 {hour:02d}:00" for hour in range(24)]
    for hour in hours[:6]:
        stream.observe_many([f"p{n}" for n in range(184)], [hour] * 184, {"hr": [80] * 184})
    with pytest.raises(ValueError, match=r"time: .* ahead of the clock of this machine .* ahead=24 allows"):
        stream.observe("p7", "2099-01-01 00:00", {"hr": 80})
    text, errors = answered(stream, [event("p8", "2099-01-01 00:00"), event("p7", hours[6]), event("p8", hours[6])])
    answers = [json.loads(line) for line in text.splitlines()]
    assert errors == 1 and ["error" in one for one in answers] == [True, False, False]
    assert len(stream) == 184 and stream.counts.dropped == 0


@pytest.mark.parametrize(("ahead", "errors"), [(None, 1), (math.inf, 0), (1e6, 0), (0.0, 1)])
def test_the_limit_of_dates_ahead_is_an_option(trained, ahead, errors):
    soon = (datetime.now(timezone.utc) + timedelta(days=9)).strftime("%Y-%m-%d %H:%M")
    assert answered(Stream(trained, ahead=ahead), [event("a", soon)])[1] == errors
    today = (datetime.now(timezone.utc) + timedelta(hours=13)).strftime("%Y-%m-%d %H:%M")  # of another zone
    assert answered(Stream(trained), [event("a", today)])[1] == 0


def test_numbers_ahead_are_measured_from_the_stream(wave):
    stream = Stream(wave, ahead=20)
    values = {"x": 0.1, "y": 1}
    for time in range(3):
        for name in "abc":
            stream.observe(name, time, values)
    with pytest.raises(ValueError, match="ahead of the newest time of the stream"):
        stream.observe("a", 1e9, values)
    stream.observe("a", 3, values)
    # After a pause of all ids, the stream goes on once three of them say so.
    refused = []
    for place, name in enumerate("abcabc"):
        try:
            stream.observe(name, 1000 + place, values)
        except ValueError:
            refused.append(name)
    assert refused == ["a", "b"]


def test_one_wrong_time_drops_no_id(wave):
    stream = Stream(wave, idle=10)
    x = np.ones((50, 2))
    ids = [f"id{n}" for n in range(50)]
    for time in range(5):
        stream.observe_many(ids, np.full(50, float(time)), x)
        stream.observe("broken", 1e12 + time, {"x": 1, "y": 1})
    assert len(stream) == 51
    for time in (500.0, 501.0):  # all of them after a pause: the one that does not come back is dropped
        stream.observe_many(ids[:49], np.full(49, time), x[:49])
    assert len(stream) == 50 and "id49" not in stream


@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.floats(0, 1e6), min_size=1, max_size=30),
    wrong=st.lists(st.tuples(st.integers(0, 30), st.floats(1e7, 1e15)), max_size=3),
    size=st.integers(1, 9),
)
def test_the_newest_time_ignores_single_wrong_times(times, wrong, size):
    """One id that lies, between observations of others, never moves the newest time beyond what the others sent."""
    sent = [(f"id{n % 5}", time) for n, time in enumerate(times)]
    for place, time in wrong:
        sent.insert(min(place, len(sent)), ("liar", time))
    newest = Newest(reach=1e5)
    for start in range(0, len(sent), size):
        part = sent[start : start + size]
        newest.see([name for name, _ in part], np.array([time for _, time in part]), num_ids=6)
    assert newest.time <= max(times)


def test_ahead_and_idle_need_times(trained):
    untimed = replace(trained, reading=replace(trained.reading, unit="step"))
    for option in ("idle", "ahead"):
        with pytest.raises(ValueError, match=f"{option} requires times"):
            Stream(untimed, **{option: 1.0})
    with pytest.raises(ValueError, match="ahead"):
        Stream(trained, ahead=-1.0)
