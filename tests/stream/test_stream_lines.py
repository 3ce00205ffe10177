"""`chronode stream`: lines of events in, lines of predictions out; what is wrong is reported, and the rest goes on."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import MAIN, chronode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import answered, as_lines, events, run_stream, table, train_vitals

import chronode as package
from chronode.data import Scaler, from_list
from chronode.data._describe import ranges_of
from chronode.stream import Stream
from chronode.stream._lines import MOST_BYTES, Lines, RangeWatch, batches


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return train_vitals(tmp_path_factory.mktemp("lines"))


@pytest.fixture(scope="module")
def trained(home):
    return package.load(home / "run")


def wanted(home):
    return {row["patient"]: row for row in table(chronode("predict", home / "run", home / "new.csv").out)}


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_json_lines(home, trained, size):
    rows = events(home / "new.csv")
    text, errors = answered(Stream(trained), as_lines(rows), size)
    answers = [json.loads(line) for line in text.splitlines()]
    assert errors == 0 and [a["patient"] for a in answers] == [r["patient"] for r in rows]
    assert [a["charted_at"] for a in answers] == [r["charted_at"] for r in rows]
    last = {answer["patient"]: answer for answer in answers}
    for name, row in wanted(home).items():
        assert last[name]["outcome"] == row["outcome"]
        assert last[name]["p_ill"] == pytest.approx(float(row["p_ill"]), abs=1e-6)


def test_csv_in_and_out_through_a_process(home, tmp_path):
    rows = events(home / "new.csv")
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    out, err = run_stream(home, "\n".join(lines) + "\n", "--state", tmp_path / "a.state")
    answers = table(out)
    assert list(answers[0]) == ["patient", "charted_at", "outcome", "p_ill", "p_well", "line", "error"]
    last = {answer["patient"]: answer for answer in answers}
    for name, row in wanted(home).items():
        assert float(last[name]["p_ill"]) == pytest.approx(float(row["p_ill"]), abs=1e-6)
    assert f"{len(rows)} observations of 9 ids; 0 late, 0 errors, 0 idle ids dropped" in err
    assert len(Stream(home / "run")) == 0 and (tmp_path / "a.state").is_file()


WRONG = {
    "{": "this is not valid JSON",
    "[1, 2]": "this is not a JSON object",
    '{"hr": 3}': "patient: expected an id",
    '{"patient": true, "charted_at": "2024-01-01"}': "patient: expected an id",
    '{"patient": "a"}': "charted_at: the time is missing",
    '{"patient": "a", "charted_at": "soon"}': "time",
    '{"patient": "a", "charted_at": "2024-01-01", "hr": "many"}': "hr",
    '{"patient": "a", "charted_at": "2024-01-01", "hr": [1]}': "hr",
    '{"patient": "a", "charted_at": "2024-01-01", "hr": 1e999}': "hr",
    "[" * 5000: "this is not valid JSON",
    None: f"the line has more than {MOST_BYTES:,} bytes",
}


@pytest.mark.parametrize("line", list(WRONG), ids=range(len(WRONG)))
def test_a_malformed_line_is_reported_and_the_stream_continues(home, trained, line):
    lines = as_lines(events(home / "new.csv"))[:20]
    clean, _ = answered(Stream(trained), lines)
    text, errors = answered(Stream(trained), [*lines[:11], line, "", *lines[11:]])
    answers = [json.loads(answer) for answer in text.splitlines()]
    (wrong,) = [answer for answer in answers if "error" in answer]
    assert errors == 1 and wrong["line"] == 12 and WRONG[line] in wrong["error"]
    good = [answer for answer in answers if "error" not in answer]
    for found, expected in zip(good, clean.splitlines(), strict=True):
        expected = json.loads(expected)
        assert found["patient"] == expected["patient"]
        assert found["p_ill"] == pytest.approx(expected["p_ill"], abs=1e-6)


HEADER = "patient,charted_at,hr,temp"
CELL = "x" * 131_073


@pytest.mark.parametrize(
    "line",
    [
        "p01,2024-01-01 10:00,8\r0,37",
        f"p01,2024-01-01 10:00,{CELL},37",
        "p01,2024-01-01 10:00",
        "p\udcff1,2024-01-01 10:00,80,37",
        "p01,2024-01-01 10:00,8\x000,37",
        HEADER,
        '{"patient": "p01"}',
        None,
    ],
    ids=["bare CR", "long cell", "torn", "not UTF-8", "NUL", "names again", "JSON", "long line"],
)
def test_a_bad_line_of_csv_is_answered_and_the_stream_continues(trained, line):
    good = [f"p{n},2024-01-01 1{n}:00,80,37" for n in range(6)]
    text, errors = answered(Stream(trained), [HEADER, *good[:3], line, *good[3:]], size=3)
    rows = table(text)
    assert errors == 1 and [row["line"] for row in rows if row["error"]] == ["5"]
    assert [row["patient"] for row in rows if not row["error"]] == [f"p{n}" for n in range(6)]


FIRST = {
    "torn JSON": 'nt": "p07", "charted_at": "2024-01-31 12:00", "hr": 81}',
    "torn names": "d_at,hr,temp",
    "a row": "p01,2024-01-01 10:00,80,37",
    "names twice": "patient,charted_at,hr,hr",
    "open brace": '{"patient": "p0',
    "list": "[1, 2]",
    "bare CR": "patient,charted\r_at",
    "long cell": CELL,
    "not UTF-8": "\udcff\udcfe",
    "NUL": "\x00",
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_the_format_stays_open_until_a_line_fits(home, trained, first, mark, kind):
    rows = events(home / "new.csv")[:8]
    lines = as_lines(rows) if kind == "json" else [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    clean, _ = answered(Stream(trained), lines)
    text, errors = answered(Stream(trained), [mark + FIRST[first], "", *lines], size=2)
    wrong, rest = text.split("\n", 1)
    assert errors == 1 and json.loads(wrong)["line"] == 1 and json.loads(wrong)["error"]
    read = table if kind == "csv" else lambda text: [json.loads(line) for line in text.splitlines()]
    found, expected = read(rest), read(clean)
    assert [row["patient"] for row in found] == [row["patient"] for row in expected] == [r["patient"] for r in rows]
    assert [float(r["p_ill"]) for r in found] == pytest.approx([float(r["p_ill"]) for r in expected], abs=1e-6)
    assert answered(Stream(trained), [mark + lines[0], *lines[1:]])[1] == 0


pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"{",
            b"}",
            b'{"patient": "a"',
            b"\r",
            b"\r\n",
            b"\xef\xbb\xbf",
            b"\x00",
            b"\xff",
            b'"',
            b",,,",
            b"[[[",
            b"1e999",
        ]
    ),
    st.sampled_from([HEADER.encode(), b"a,2024-01-01 10:00,80,37", b'{"patient":"b","charted_at":"2024-01-01"}']),
    st.just(CELL.encode()),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.tuples(pieces, st.booleans()), max_size=12), size=st.integers(1, 5))
def test_no_bytes_end_the_stream(trained, tmp_path, parts, size):
    """Every line that is not empty and not the names of columns has one answer, and so have the lines that follow."""
    path = tmp_path / "fuzz"
    path.write_bytes(b"".join(part + b"\n" * end for part, end in parts))
    with path.open("rb", buffering=0) as file:
        lines = [line for batch in batches(file.fileno()) for line in batch]
    stream = Stream(trained, late="repeat")
    text, errors = answered(stream, lines, size)
    assert errors <= len(lines) and len(text.splitlines()) <= len(lines) + 1
    good = [json.dumps({"patient": "z", "charted_at": "2025-01-01 10:00", "hr": 80}), "z,2025-01-01 10:00,80,37"]
    after, _ = answered(Stream(trained, late="repeat"), [*lines, HEADER, *good], size)
    assert len(after.splitlines()) >= len(text.splitlines()) + 2  # random bytes may have been the names of columns


def test_half_of_the_values_invalid(trained, monkeypatch):
    """Every cell is read once: the work grows with the lines, and not with the errors among them."""
    good = [json.dumps({"patient": f"p{n}", "charted_at": "2024-01-01 10:00", "hr": 80}) for n in range(400)]
    lines = [line.replace("80", f'"bad{n}"') if n % 2 else line for n, line in enumerate(good)]
    stream = Stream(trained)
    calls = []
    prepare, read = stream.prepare, stream.read
    monkeypatch.setattr(stream, "prepare", lambda *given: calls.append("prepare") or prepare(*given))
    monkeypatch.setattr(stream, "read", lambda *given: calls.append("read") or read(*given))
    text, errors = answered(stream, lines)
    assert errors == 200 and calls == ["read", "prepare"] and len(stream) == 200
    assert [json.loads(line).get("error", "")[:10] for line in text.splitlines()[:4]] == [
        "",
        "hr: 'bad1'",
        "",
        "hr: 'bad3'",
    ]


def test_nothing_changes_before_the_answers_are_written(home, trained):
    lines = as_lines(events(home / "new.csv"))
    stream, out = Stream(trained, late="ignore"), []

    def write(text):
        if len(out) == 2:
            raise BrokenPipeError
        out.append(text)

    followed = Lines(stream, write)
    with pytest.raises(BrokenPipeError):
        for start in range(0, len(lines), 7):
            followed.process(lines[start : start + 7])
    assert stream.counts.observations == 14
    answers = "".join(out) + answered(stream, lines)[0]
    found = [json.loads(line) for line in answers.splitlines()]
    expected = [json.loads(line) for line in answered(Stream(trained), lines)[0].splitlines()]
    assert [one["patient"] for one in found] == [one["patient"] for one in expected]
    assert [one["p_ill"] for one in found] == pytest.approx([one["p_ill"] for one in expected], abs=1e-6)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_late_lines_are_answered_again(trained, kind):
    hours = (10, 12, 11, 12)
    lines = [json.dumps({"patient": "a", "charted_at": f"2024-01-01 {hour}:00", "hr": 80}) for hour in hours]
    if kind == "csv":
        lines = ["patient,charted_at,hr", *(f"a,2024-01-01 {hour}:00,80" for hour in hours)]
    stream = Stream(trained, late="repeat")
    text, errors = answered(stream, lines, size=2)
    rows = table(text) if kind == "csv" else [json.loads(line) for line in text.splitlines()]
    assert errors == 0 and stream.counts.late == 2 and stream.counts.observations == 2
    assert [bool(row.get("late")) for row in rows] == [False, False, True, True]
    assert rows[1]["p_ill"] == rows[2]["p_ill"] == rows[3]["p_ill"] != rows[0]["p_ill"]
    assert [row["charted_at"] for row in rows] == [f"2024-01-01 {hour}:00" for hour in hours]


def test_late_lines(trained):
    lines = [json.dumps({"patient": "a", "charted_at": f"2024-01-01 {hour}:00", "hr": 80}) for hour in (10, 12, 11, 13)]
    text, errors = answered(Stream(trained), lines)
    third = json.loads(text.splitlines()[2])
    late = "charted_at: not later than the last observation of patient 'a'"
    assert third == {"patient": "a", "line": 3, "error": late} and errors == 1
    stream = Stream(trained, late="ignore")
    text, errors = answered(stream, lines)
    assert len(text.splitlines()) == 3 and errors == 0 and stream.counts.late == 1


def test_lines_come_as_they_are_sent(tmp_path):
    reader, writer = os.pipe()
    found = batches(reader)
    os.write(writer, b"one\ntw")
    assert next(found) == ["one"]
    os.write(writer, b"o\r\nthree\n")
    assert next(found) == ["two", "three"]
    os.write(writer, b"last")
    os.close(writer)
    assert list(found) == [["last"]]
    os.close(reader)
    path = tmp_path / "long"
    path.write_bytes(b"a\n" + b"x" * (3 * MOST_BYTES) + b"\nb\n" + b"y" * (MOST_BYTES + 9) + b"\n")
    handle = os.open(path, os.O_RDONLY)
    assert [line for batch in batches(handle) for line in batch] == ["a", None, "b", None]
    os.close(handle)


def test_each_answer_comes_before_the_next_event_is_sent(home):
    """A process that waits for an answer gets it; the state of a process that is killed is still there."""
    rows = events(home / "new.csv")
    state = home / "killed.state"
    command = [sys.executable, "-c", MAIN, "stream", str(home / "run"), "--state", str(state), "--save-seconds", "0"]
    expected, _ = answered(Stream(home / "run"), as_lines(rows))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        answers = []
        for line in as_lines(rows)[:12]:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert state.is_file()
    # All events are sent again: those that the state has seen are ignored.
    out, err = run_stream(home, "\n".join(as_lines(rows)) + "\n", "--state", state, "--late", "ignore")
    rest = [json.loads(line) for line in out.splitlines()]
    assert len(rows) - 12 <= len(rest) <= len(rows) - 11  # the kill may have come before the last write
    whole = [json.loads(line) for line in expected.splitlines()]
    for found, right in zip([*answers, *rest[-(len(rows) - 12) :]], whole, strict=True):
        assert found["patient"] == right["patient"]
        assert found["p_ill"] == pytest.approx(right["p_ill"], abs=1e-6)
    assert "0 errors" in err


def test_sigterm_writes_the_states(home):
    state = home / "stopped.state"
    command = [sys.executable, "-c", MAIN, "stream", str(home / "run"), "--state", str(state), "--save-seconds", "1e9"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write((as_lines(events(home / "new.csv"))[0] + "\n").encode())
    process.stdin.flush()
    assert b"p_ill" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 0, err
    stream = Stream(home / "run")
    stream.load(state)
    assert len(stream) == 1


def test_the_commands_of_the_readme_run_as_they_stand(home, tmp_path):
    """By a shell, in a folder that has the run and the events."""
    readme = (Path(__file__).parents[2] / "README.md").read_text().splitlines()
    commands = [line for line in readme if line.startswith(("chronode stream", "chronode pack"))]
    assert len(commands) == 2
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "chronode"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{MAIN}" "$@"\n')
    program.chmod(0o755)
    shutil.copytree(home / "run", tmp_path / "runs" / "events")
    lines = as_lines(events(home / "new.csv"))
    (tmp_path / "new.jsonl").write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "predictions.jsonl").read_text() == answered(Stream(home / "run"), lines)[0]
    row = events(home / "new.csv")[0]
    given = row["charted_at"], {name: row[name] for name in ("hr", "temp")}
    packed, whole = Stream(tmp_path / "events.chronode"), Stream(home / "run")
    assert packed.observe("a", *given) == whole.observe("a", *given)


def test_wrong_options(home, tmp_path):
    _, err = run_stream(home, "", "--late", "maybe", code=2)
    assert "maybe" in err
    (tmp_path / "bad.state").write_text("no")
    _, err = run_stream(home, "", "--state", tmp_path / "bad.state", code=2)
    assert "bad.state" in err
    for name, content in (("a.csv.gz", gzip.compress(b"patient")), ("b.csv", b"PAR1"), ("c.jsonl.bz2", b"x")):
        (tmp_path / name).write_bytes(content)
        done = chronode("stream", home / "run", tmp_path / name, code=2)
        assert f"{name}: expected lines of text, but this is " in done.err and not done.out


def test_events_of_a_model_of_one_series_need_no_id(tmp_path):
    rows = "\n".join(f"{t},{t % 5},{'ab'[t % 5 > 2]}" for t in range(80))
    (tmp_path / "log.csv").write_text(f"t,x,state\n{rows}\n")
    flags = ("--time", "t", "--target", "state", "--model", "gru", "--hidden", 4, "--epochs", 1)
    chronode("train", tmp_path / "log.csv", *flags, "--output", tmp_path / "run")
    predicted = table(chronode("predict", tmp_path / "run", tmp_path / "log.csv").out)
    trained = package.load(tmp_path / "run")
    text, errors = answered(Stream(trained), (tmp_path / "log.csv").read_text().splitlines())
    assert errors == 0
    found = table(text)
    assert [row["state"] for row in found] == [row["state"] for row in predicted]
    assert {row["id"] for row in found} == {row["series"] for row in predicted} == {"0"}
    several = [json.dumps({"id": name, "t": t, "x": 1.0}) for t in range(3) for name in ("pump", "fan")]
    text, errors = answered(Stream(trained), several)
    assert errors == 0 and [json.loads(line)["id"] for line in text.splitlines()] == ["pump", "fan"] * 3


@pytest.mark.parametrize("size", [1, 1000])
def test_a_channel_in_another_unit_is_noted_once(home, trained, size):
    rows, notes, quiet = events(home / "new.csv"), [], []
    hertz = [{**row, "hr": row["hr"] and f"{float(row['hr']) / 60:.3f}"} for row in rows]
    again = [{**row, "patient": f"{row['patient']}-{time}"} for time in range(3) for row in hertz]
    for found, sent in ((notes, again), (quiet, rows)):
        followed = Lines(Stream(trained), lambda text: None, found.append)
        for start in range(0, len(sent), size):
            followed.process(as_lines(sent)[start : start + size])
        followed.end()
    (note,) = notes
    known = [float(row["hr"]) for row in again if row["hr"]]
    low, high = (float(end) for end in re.search(r"([\d.]+) to ([\d.]+) here", note).groups())
    assert "hr (100%" in note and quiet == []
    assert min(known) - 0.01 <= low < high <= max(known) + 0.01


def test_a_value_at_the_end_of_its_range_is_inside_although_it_was_scaled():
    """A flag that is mostly 0: scaled to float32 and back, a 0 may be less than 0."""
    below = []
    for every in range(3, 30):
        s = from_list([(np.arange(600) % every == 0).astype(np.float64)], channels=["surgery"])
        scaler = Scaler.fit(s)
        scaled = scaler.transform(s).values.astype(np.float32)
        below.append((scaler.inverse_values(scaled) < 0).mean() > 0.5)
        watch = RangeWatch(["surgery"], ranges_of(s), scaler)
        assert [*watch.see(scaled), *watch.last()] == []
    assert any(below)


def test_the_note_on_ranges_goes_to_standard_error(home):
    rows = events(home / "new.csv")
    out, err = run_stream(home, "\n".join(as_lines([{**row, "hr": "1.2"} for row in rows])) + "\n")
    assert err.count("outside the range of training: hr") == 1 and "outside" not in out
    assert len(out.splitlines()) == len(rows)
