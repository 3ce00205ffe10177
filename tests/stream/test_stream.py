"""A stream gives the numbers of predict, keeps its states through files, and tells what it cannot do."""

import hashlib
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from streams import events, table, train_vitals, train_wave

import chronode as package
from chronode.runs import Trained
from chronode.stream import Stream

NAMES = ("hr", "temp")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return train_vitals(tmp_path_factory.mktemp("vitals"))


@pytest.fixture(scope="module")
def wave(tmp_path_factory):
    return train_wave(tmp_path_factory.mktemp("wave"))


@pytest.fixture(scope="module")
def trained(home):
    return package.load(home / "run")


def values(row, names=NAMES):
    return {name: row[name] for name in names}


def columns(rows, names=NAMES):
    return {name: [row[name] for row in rows] for name in names}


def observe_rows(stream, rows):
    """The answers of observe_many."""
    return stream.observe_many([r["patient"] for r in rows], [r["charted_at"] for r in rows], columns(rows))


# ---- the same numbers as predict -------------------------------------------------------------------------------------


def test_the_last_answer_of_each_id_is_that_of_predict(home, trained):
    rows = events(home / "new.csv")
    one, many = Stream(home / "run"), package.Stream(trained)
    answers = {row["patient"]: one.observe(row["patient"], row["charted_at"], values(row)) for row in rows}
    observe_rows(many, rows)
    for row in table(chronode("predict", home / "run", home / "new.csv").out):
        for answer in (answers[row["patient"]], many.predict(row["patient"])):
            assert answer["outcome"] == row["outcome"]
            for name in ("p_ill", "p_well"):
                assert answer[name] == pytest.approx(float(row[name]), abs=1e-6)
    assert len(one) == 9 and "p03" in one and "p99" not in one
    assert one.counts.observations == len(rows)


def test_answers_per_step_are_those_of_predict(wave):
    """Forecasts of every step, in the target's own units, by times that are numbers."""
    rows = events(wave / "wave.csv")
    stream = Stream(wave / "run")
    answers = {(r["w"], float(r["t"])): stream.observe(int(r["w"]), float(r["t"]), values(r, "xy")) for r in rows}
    wanted = table(chronode("predict", wave / "run", wave / "wave.csv").out)
    assert len(wanted) == len(rows)
    for row in wanted:
        answer = answers[row["w"], float(row["t"])]
        for name in ("x+1", "x+2"):
            assert answer[name] == pytest.approx(float(row[name]), abs=1e-5)


def test_forecasts_from_windows_are_those_of_predict(wave, tmp_path):
    """At every step the model sees the last steps alone; predict gives the forecast after the last of them."""
    data = wave / "wave.csv"
    flags = ("--id", "w", "--time", "t", "--forecast", 2, "--channels", "x", "--window", 4, "--model", "gru")
    chronode("train", data, *flags, *QUICK, "--epochs", 1, "--output", tmp_path / "run")
    rows = events(data)
    stream, whole = Stream(tmp_path / "run"), Stream(tmp_path / "run")
    answers = [stream.observe(r["w"], float(r["t"]), values(r, "xy")) for r in rows]
    many = whole.observe_many([r["w"] for r in rows], [float(r["t"]) for r in rows], columns(rows, "xy"))
    np.testing.assert_allclose(np.stack(many.values), [list(answer.values()) for answer in answers], atol=1e-5)
    trained = package.load(tmp_path / "run")
    for steps in (1, 3, 7, 12):
        lines = data.read_text().splitlines()
        kept = [line for line in lines[1:] if float(line.split(",")[1]) < 0.5 * steps]
        (tmp_path / "part.csv").write_text("\n".join([lines[0], *kept]) + "\n")
        found = trained.predict(trained.series(tmp_path / "part.csv", labeled=False))
        for name, wanted in zip(found.ids, found.values, strict=True):
            places = [n for n, r in enumerate(rows) if r["w"] == str(name).partition("[")[0]]
            np.testing.assert_allclose(list(answers[places[steps - 1]].values()), wanted, atol=1e-5)
    path = stream.save(tmp_path / "a.state")
    loaded = Stream(tmp_path / "run")
    loaded.load(path)
    assert loaded.observe(1, 99.0, {"x": 0.1, "y": 1}) == stream.observe(1, 99.0, {"x": 0.1, "y": 1})


@pytest.fixture(scope="module")
def summed(home):
    """A run that starts from a linear model of summaries."""
    chronode(
        "train", home / "vitals.csv", *VITALS, *QUICK, "--start", "summaries", "--epochs", 1, "-o", home / "summed"
    )
    return package.load(home / "summed")


def test_a_linear_start_is_that_of_predict_on_the_rows_so_far(home, summed, tmp_path):
    rows = events(home / "new.csv")
    stream, whole = Stream(summed), Stream(summed)
    answers = [stream.observe(row["patient"], row["charted_at"], values(row)) for row in rows]
    many = observe_rows(whole, rows)
    np.testing.assert_allclose([a["p_ill"] for a in answers], [v[0] for v in many.values], atol=1e-6)
    for count in (5, 20, len(rows)):
        text = "\n".join(",".join(row.values()) for row in rows[:count])
        (tmp_path / "part.csv").write_text(f"{','.join(rows[0])}\n{text}\n")
        found = summed.predict(summed.series(tmp_path / "part.csv", labeled=False))
        last = {row["patient"]: answer["p_ill"] for row, answer in zip(rows[:count], answers, strict=False)}
        for name, wanted in zip(found.ids, found.values, strict=True):
            assert last[name] == pytest.approx(float(wanted[0]), abs=1e-6)


def test_a_linear_start_is_saved_bit_for_bit(home, summed, tmp_path):
    rows = events(home / "new.csv")
    stream, loaded = Stream(summed), Stream(summed)
    observe_rows(stream, rows[:20])
    loaded.load(stream.save(tmp_path / "a.state"))
    found, wanted = (np.stack(observe_rows(one, rows[20:]).values) for one in (loaded, stream))
    np.testing.assert_array_equal(found, wanted)
    (at,) = {row["patient"] for row in rows[-1:]}
    assert stream.predict(at, at="2024-02-01 00:00") != stream.predict(at)


def test_a_linear_start_that_needs_whole_series_is_refused(summed):
    spec = replace(summed.model.spec, start={"kind": "values", "channels": 2, "steps": 4})
    with pytest.raises(ValueError, match="sees values needs whole series: train with start='summaries'"):
        Stream(replace(summed, model=package.SequenceModel.build(spec)))


def test_packed_models_stream_too(home, tmp_path):
    chronode("pack", home / "run", "-o", tmp_path / "a.chronode")
    row = events(home / "new.csv")[0]
    one, other = (Stream(path) for path in (home / "run", tmp_path / "a.chronode"))
    assert one.observe("a", row["charted_at"], values(row)) == other.observe("a", row["charted_at"], values(row))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 12), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_any_micro_batches_give_the_same_predictions(home, trained, cuts, seed):
    """Rows of an id keep their order; everything else is at random."""
    rows = events(home / "new.csv")
    order = np.random.default_rng(seed).permutation([row["patient"] for row in rows])
    queues = {name: [row for row in rows if row["patient"] == name] for name in set(order)}
    rows = [queues[name].pop(0) for name in order]
    whole = np.stack(observe_rows(Stream(trained), rows).values)
    stream, found, start = Stream(trained), [], 0
    while start < len(rows):
        size = cuts[len(found) % len(cuts)]
        found.append(np.stack(observe_rows(stream, rows[start : start + size]).values))
        start += size
    np.testing.assert_allclose(np.concatenate(found), whole, atol=1e-6)


def test_an_array_of_values(home, trained):
    rows = events(home / "new.csv")[:8]
    array = np.array([[float(row[name] or "nan") for name in NAMES] for row in rows])
    ids, times = [row["patient"] for row in rows], [row["charted_at"] for row in rows]
    got = Stream(trained).observe_many(ids, times, array)
    np.testing.assert_array_equal(np.stack(got.values), np.stack(observe_rows(Stream(trained), rows).values))
    assert got.ids.tolist() == ids and got.classes == ("ill", "well")
    with pytest.raises(ValueError, match=r"values has shape \(8, 1\), expected \(8, 2\)"):
        Stream(trained).observe_many(ids, times, array[:, :1])
    assert len(Stream(trained).observe_many([], [], array[:0])) == 0


def test_a_prediction_at_a_later_time(home, trained):
    """As if an observation without values came then; the state stays."""
    stream, other = Stream(trained), Stream(trained)
    for name, followed in (("a", stream), ("a", other)):
        followed.observe(name, "2024-01-01 10:00", {"hr": 80})
    before = stream.predict("a")
    ahead = stream.predict("a", at="2024-01-01 13:00")
    assert ahead != before and stream.predict("a") == before
    other.observe("a", "2024-01-01 13:00", {})
    assert ahead["p_ill"] == pytest.approx(other.predict("a")["p_ill"], abs=1e-6)
    with pytest.raises(ValueError, match="earlier than the last observation"):
        stream.predict("a", at="2024-01-01 09:00")
    with pytest.raises(ValueError, match="id 'b' is unknown"):
        stream.predict("b")


def test_a_prediction_ahead_needs_missing_values(wave):
    stream = Stream(wave / "run")
    stream.observe(1, 0.0, {"x": 1, "y": 1})
    with pytest.raises(ValueError, match="at=2 requires a model that was trained with missing values"):
        stream.predict(1, at=2.0)


# ---- late, idle, wrong -----------------------------------------------------------------------------------------------


def test_late_observations_are_refused_or_ignored_and_counted(trained):
    stream = Stream(trained)
    stream.observe("a", "2024-01-01 10:00", {"hr": 80})
    before = stream.predict("a")
    for time in ("2024-01-01 09:00", "2024-01-01 10:00"):
        with pytest.raises(ValueError, match="observation of 'a' is not later than the last one"):
            stream.observe("a", time, {"hr": 90})
    assert stream.predict("a") == before and stream.counts.late == 2
    stream = Stream(trained, late="ignore")
    times = ["2024-01-01 10:00", "2024-01-01 12:00", "2024-01-01 11:00", "2024-01-01 13:00"]
    got = np.stack(stream.observe_many(["a"] * 4, times, {"hr": [80, 90, 99, 85]}).values)
    assert (got[2] == got[1]).all()
    times.pop(2)
    wanted = np.stack(Stream(trained).observe_many(["a"] * 3, times, {"hr": [80, 90, 85]}).values)
    np.testing.assert_allclose(got[[0, 1, 3]], wanted, atol=1e-6)
    assert (stream.counts.late, stream.counts.observations) == (1, 3)
    with pytest.raises(ValueError, match="late='maybe'"):
        Stream(trained, late="maybe")


def test_idle_ids_are_dropped(wave):
    stream = Stream(wave / "run", idle=10)
    for time in range(30):
        stream.observe("alive", time, {"x": 0.1, "y": 1})
        if time == 3:
            stream.observe("gone", time, {"x": 0.5, "y": 1})
    assert "gone" not in stream and "alive" in stream and stream.counts.dropped == 1
    again, fresh = (each.observe("gone", 29, {"x": 0.3, "y": 1}) for each in (stream, Stream(wave / "run")))
    assert again == fresh


@pytest.mark.parametrize(
    ("time", "given", "match"),
    [
        ("2024-01-01 10:00", {"pulse": 1}, "values has 'pulse'; the model takes hr, temp"),
        ("yesterday", {"hr": 1}, "time"),
        (None, {"hr": 1}, "time"),
        ("2024-01-01 10:00", {"hr": "many"}, "hr"),
        ("2024-01-01 10:00", {"hr": float("inf")}, "hr"),
    ],
)
def test_a_wrong_observation_changes_nothing(trained, time, given, match):
    stream = Stream(trained)
    with pytest.raises(ValueError, match=match):
        stream.observe("a", time, given)
    assert len(stream) == 0 and stream.counts.observations == 0


def test_a_value_that_may_not_be_missing(wave):
    with pytest.raises(ValueError, match="y is missing, but the model was trained without missing values"):
        Stream(wave / "run").observe(1, 0, {"x": 1.0})


def test_models_that_cannot_stream(wave, tmp_path):
    flags = ("--id", "w", "--time", "t", "--target", "y", "--kind", "value", "--epochs", 1, "--hidden", 4)
    more = {"bidirectional": ("--set", "bidirectional=true"), "one prediction per window": ("--window", 4)}
    for place, (match, flag) in enumerate(more.items()):
        chronode("train", wave / "wave.csv", *flags, *flag, "--model", "gru", "--output", tmp_path / str(place))
        with pytest.raises(ValueError, match=match):
            Stream(tmp_path / str(place))


# ---- files -----------------------------------------------------------------------------------------------------------


def test_save_and_load_bit_for_bit(home, trained, tmp_path):
    rows = events(home / "new.csv")
    first, second = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    stream = Stream(trained)
    observe_rows(stream, first)
    path = stream.save(tmp_path / "a.state")
    loaded = Stream(trained)
    observe_rows(loaded, second[:3])  # what was there is replaced
    loaded.load(path)
    assert loaded.counts == stream.counts and len(loaded) == len(stream)
    ours, theirs = (np.stack(observe_rows(each, second).values) for each in (stream, loaded))
    assert (ours == theirs).all()
    ours, theirs = (load_file(each.save(tmp_path / "b.state")) for each in (stream, loaded))
    assert ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)


def rewritten(path, change):
    """Changes the header of a file of states and keeps its checksum right."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header, header["__metadata__"])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    whole = len(text).to_bytes(8, "little") + text + content[8 + length : -32]
    path.write_bytes(whole + hashlib.sha256(whole).digest())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda h, m: m.update(format="x"), "not a file of stream states"),
        (lambda h, m: m.update(version="1"), "not a file of stream states of version 2"),
        (lambda h, m: m.update(model="x"), "these states belong to another model"),
        (lambda h, m: m.update(layout="{}"), "layout"),
        (lambda h, m: m.update(facts="{"), "facts: this is not valid JSON"),
        (lambda h, m: m.update(facts='{"counts": {"late": "x"}}'), "counts.late must be a whole number"),
        (lambda h, m: m.update(facts='{"counts": {}, "times": 3}'), "times"),
        (lambda h, m: m.update(facts=m["facts"].replace("true", "false")), "times: the times of the states are not"),
        (lambda h, m: m.update(facts=m["facts"].replace("false", "true")), "times.zoned"),
        (lambda h, m: h.pop("ids"), "ids is missing"),
        (lambda h, m: h["ids"].update(shape=[-1]), "ids is missing"),
        (lambda h, m: h["ends"].update(shape=[2]), "sizes of its arrays"),
        (lambda h, m: h["ends"].update(shape=[2**62]), "sizes of its arrays"),
        (lambda h, m: h["records"].update(dtype="F32"), "sizes of its arrays"),
    ],
)
def test_damaged_states_are_refused(home, trained, tmp_path, change, match):
    stream = Stream(trained)
    observe_rows(stream, events(home / "new.csv")[:9])
    path = stream.save(tmp_path / "a.state")
    rewritten(path, change)
    other = Stream(trained)
    with pytest.raises(ValueError, match=match) as error:
        other.load(path)
    assert str(path) in str(error.value) and len(other) == 0


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_changed_byte_of_a_file_of_states_is_noticed(home, trained, tmp_path, data):
    """Bytes are changed, removed or added anywhere; the stream that reads them stays as it was."""
    stream = Stream(trained)
    observe_rows(stream, events(home / "new.csv")[:9])
    path = stream.save(tmp_path / "a.state")
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "add", "insert", "drop", "zero"])):
        case "flip":
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            del content[place:]
        case "add":
            content += data.draw(st.binary(min_size=1, max_size=40))
        case "insert":
            content[place:place] = data.draw(st.binary(min_size=1, max_size=9))
        case "drop":
            del content[place : place + data.draw(st.integers(1, 9))]
        case "zero":
            zeros = bytes(len(content[place : place + 64]))
            content[place : place + 64] = zeros if content[place : place + 64] != zeros else b"\xff" * len(zeros)
    path.write_bytes(content)
    before = stream.predict("p02")
    with pytest.raises(ValueError) as error:
        stream.load(path)
    assert str(path) in str(error.value)
    assert stream.predict("p02") == before and len(stream) == 3


def test_ids_of_any_text_are_saved(wave, tmp_path):
    ids = ["", "a\x00b", "é", "\ud800", "x" * 5000, "\n", '"']
    stream, loaded = Stream(wave / "run"), Stream(wave / "run")
    stream.observe_many(ids, np.zeros(len(ids)), np.arange(2.0 * len(ids)).reshape(-1, 2))
    loaded.load(stream.save(tmp_path / "a.state"))
    assert [loaded.predict(name) for name in ids] == [stream.predict(name) for name in ids]
    empty = Stream(wave / "run")
    empty.load(Stream(wave / "run").save(tmp_path / "empty.state"))
    assert len(empty) == 0


# ---- all or nothing --------------------------------------------------------------------------------------------------


class Interrupted(BaseException):
    """As KeyboardInterrupt, which ends a test run."""


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_an_interruption_leaves_no_half_observation(home, trained, seed):
    """Wherever a batch is interrupted, everything sent again gives what one uninterrupted run gives."""
    rows = events(home / "new.csv")
    rng = np.random.default_rng(seed)
    stream, at = Stream(trained, late="ignore"), int(rng.integers(1, 250))
    count = 0

    def interrupt(frame, event, argument):
        nonlocal count
        if "chronode/stream" not in frame.f_code.co_filename:
            return None
        count += 1
        if count == at:
            raise Interrupted
        return interrupt

    cut = int(rng.integers(1, len(rows)))
    observe_rows(stream, rows[:cut])
    before = sys.gettrace()
    try:
        sys.settrace(interrupt)
        observe_rows(stream, rows[cut:])
    except Interrupted:
        pass
    finally:
        sys.settrace(before)
    observe_rows(stream, rows)
    names = {row["patient"] for row in rows}
    whole = Stream(trained)
    observe_rows(whole, rows)
    for name in names:
        assert stream.predict(name)["p_ill"] == pytest.approx(whole.predict(name)["p_ill"], abs=1e-6)
    assert len(stream) == len(whole)


def test_many_ids(wave):
    """Rows of the arrays are found again after they have grown and ids were dropped."""
    stream = Stream(wave / "run", idle=5)
    count = 5000
    ids = [f"id{n}" for n in range(count)]
    x = np.random.default_rng(0).normal(size=(count, 2))
    first = np.stack(stream.observe_many(ids, np.zeros(count), x).values)
    stream.observe_many(ids[::2], np.full(count // 2, 3.0), x[::2])
    stream.observe_many(ids[::2], np.full(count // 2, 7.0), x[::2])
    assert len(stream) == count // 2 and stream.counts.dropped == count // 2
    again = np.stack(stream.observe_many(ids[1::2], np.full(count // 2, 7.0), x[1::2]).values)
    np.testing.assert_allclose(again, first[1::2], atol=1e-6)  # it started again


def test_it_is_public():
    assert package.Stream is Stream and Trained is package.runs.Trained
