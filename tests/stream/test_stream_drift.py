"""Drift of live data: the features of a check, few false alarms, and notes of streams."""

from dataclasses import replace

import numpy as np
import pytest
from commands import chronode, write_vitals
from streams import events, train_vitals

from chronode.data import Reading, from_list, options_like
from chronode.judge import features_of, reference_of
from chronode.stream import Stream
from chronode.stream._drift import _MOST_IDS, DriftWatch
from chronode.stream._times import Observations

NO_ID: set[str] = set()


def series(rng, count, length, shift=0.0):
    """Series with a level of their own and a common trend."""
    sizes = rng.integers(length // 2, length + 1, count)
    each = [rng.normal() + rng.normal(size=(n, 1)) + np.linspace(0, 1, n)[:, None] + shift for n in sizes]
    return from_list(each, times=[np.cumsum(rng.exponential(size=n)) for n in sizes], channels=["x"])


def watch_of(train):
    reading = Reading.of(train, options=options_like(train), target=(), missing=True)
    return DriftWatch(replace(reading, reference=reference_of(train)))


def follow(watch, live, together=True):
    """Gives the observations of all series to a watch, mixed."""
    order = np.argsort(live.times, kind="stable") if together else np.arange(len(live.times))
    names = np.repeat(live.ids.astype(str), live.lengths)
    values, times, seen = live.values, live.times, set()
    for row in order.tolist():
        name = names[row]
        one = Observations(times[row : row + 1], values[row : row + 1])
        watch.see([name], NO_ID if name in seen else {name}, one, np.ones(1, bool))
        seen.add(name)
    return watch.drift()


@pytest.mark.parametrize("length", [12, 240])
def test_few_false_alarms_and_a_shift_is_found(length):
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(8):
        watch = watch_of(series(rng, 80, length))
        assert watch._reference.first == (length == 12)
        alarms += bool(follow(watch, series(rng, 60, length)).found)
        assert "x: level" in follow(watch_of(series(rng, 80, length)), series(rng, 60, length, 2.0)).found
    assert alarms <= 1


def test_the_features_are_those_of_a_check():
    rng = np.random.default_rng(1)
    train, live = series(rng, 40, 12), series(rng, 40, 12)
    watch = watch_of(train)
    drift = follow(watch, live)
    steps = watch._reference.steps
    long = live[live.lengths >= steps]
    same = features_of(replace(long, lengths=np.full(len(long), steps)))
    table = dict(zip(drift.names, drift.now, strict=True))
    assert drift.units[1] == len(long)
    for name, median in table.items():
        assert median == pytest.approx(np.nanmedian(same[name]), rel=1e-4)


def test_many_ids_and_ids_that_end_leave_room_for_others():
    watch = watch_of(series(np.random.default_rng(2), 40, 12))
    once = Observations(np.zeros(1), np.zeros((1, 1)))
    for number in range(2 * _MOST_IDS):
        watch.see([f"a{number}"], {f"a{number}"}, once, np.ones(1, bool))
    assert len(watch._open) == _MOST_IDS and watch.drift() is None
    watch.drop(list(watch._open))
    assert not watch._open
    for number in range(12 * watch._reference.steps * _MOST_IDS):
        name = f"b{number}"  # none of them has a second observation
        watch.see([name], {name}, once, np.ones(1, bool))
    assert f"b{number // 2}" not in watch._open and len(watch._open) <= _MOST_IDS


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = train_vitals(tmp_path_factory.mktemp("vitals"))
    write_vitals(home / "same.csv", patients=40, seed=7, outcome=None)
    warm = {"hr": lambda row: row["hr"] and f"{float(row['hr']) + 25:.1f}"}
    write_vitals(home / "other.csv", patients=40, seed=7, outcome=None, **warm)
    return home


def test_a_stream_notes_what_has_changed(home):
    found = {name: chronode("stream", home / "run", home / f"{name}.csv").err for name in ("same", "other")}
    assert "drift" not in found["same"] and "note: drift: hr: level: median" in found["other"]
    assert "drift" not in chronode("stream", home / "run", home / "other.csv", "--drift-every", "0").err
    stream = Stream(home / "run")
    assert stream.drift() is None
    for row in events(home / "other.csv"):
        values = {name: float(row[name]) for name in ("hr", "temp") if row[name]}
        stream.observe(row["patient"], row["charted_at"], values)
    assert stream.drift().found[0] == "hr: level"
