"""`chronode stream` as a service: signals at any moment, readers that go away, two processes on one file of states."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from commands import MAIN, chronode
from streams import answered, run_stream, table, train_vitals

import chronode as package
from chronode.runs._environment import FolderLock
from chronode.stream import Stream


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return train_vitals(tmp_path_factory.mktemp("process"))


@pytest.fixture(scope="module")
def many(home):
    """Lines of many events, and the predictions of an uninterrupted run after the last event of each id."""
    rng = np.random.default_rng(0)
    lines = []
    for step in range(60):
        moment = np.datetime64("2024-01-01T00:00") + np.timedelta64(20 * step, "m")
        for name in rng.permutation(12).tolist():
            event = {
                "patient": f"p{name}",
                "charted_at": str(moment).replace("T", " "),
                "hr": round(rng.normal(80, 9), 1),
            }
            lines.append(json.dumps(event))
    text, errors = answered(Stream(home / "run"), lines)
    assert errors == 0
    return lines, by_event(text)


def by_event(text):
    """The answers by id and time."""
    rows = [row for row in map(json.loads, text.splitlines()) if "late" not in row]
    return {(row["patient"], row["charted_at"]): row for row in rows}


def check_same(found, expected):
    assert found.keys() == expected.keys()
    for key, row in found.items():
        assert row["p_ill"] == pytest.approx(expected[key]["p_ill"], abs=1e-5), key


@contextmanager
def feeding(path, lines, during):
    """Sends lines to a pipe in small writes, and calls `during` meanwhile."""
    os.mkfifo(path)

    def feed():
        try:
            with open(path, "wb", buffering=0) as pipe:
                for start in range(0, len(lines), 5):
                    pipe.write("".join(f"{line}\n" for line in lines[start : start + 5]).encode())
                    time.sleep(0.001)
        except BrokenPipeError:  # stopped
            pass

    threads = [threading.Thread(target=target, daemon=True) for target in (feed, during)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    os.unlink(path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_at_any_moment_lose_nothing(home, many, tmp_path, number, monkeypatch):
    """Stopped again and again while events flow, with everything sent again: the answers of one uninterrupted run."""
    import chronode.cli.stream as command

    lines, expected = many
    rng = np.random.default_rng(int(number))
    inside = threading.Event()
    enter = command._StopRequests.__enter__
    monkeypatch.setattr(command._StopRequests, "__enter__", lambda self: inside.set() or enter(self))
    answers, stops = "", 0
    for wait in [*rng.uniform(0.0, 0.2, 6).tolist(), None]:
        inside.clear()

        def stop(wait=wait):
            assert inside.wait(60)
            if wait is not None:
                time.sleep(wait)
                os.kill(os.getpid(), number)

        handlers = [signal.signal(number, lambda *_: None)]  # a signal after the end of the command is ignored
        try:
            with feeding(tmp_path / "events", lines, stop):
                flags = ("--state", tmp_path / "a.state", "--late", "ignore", "--save-seconds", 0.05)
                done = chronode("stream", home / "run", tmp_path / "events", *flags)
        finally:
            signal.signal(number, handlers[0])
        answers += done.out
        stops += len(done.out.splitlines()) > 0
    assert "0 errors" in done.err and stops >= 2
    check_same(by_event(answers), expected)
    assert len(answers.splitlines()) == len(expected)  # and every answer once


@pytest.mark.slow
def test_killed_processes_lose_nothing(home, many, tmp_path):
    """Processes that are stopped, interrupted or killed at any moment, with everything sent again."""
    lines, expected = many
    state, answers, rng = tmp_path / "a.state", "", np.random.default_rng(3)
    command = [sys.executable, "-c", MAIN, "stream", str(home / "run"), "--state", str(state), "--save-seconds", "0"]
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(
            [*command, "--late", "repeat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

        def feed(process=process):
            try:
                for line in lines:
                    process.stdin.write(f"{line}\n".encode())
                    process.stdin.flush()
                    time.sleep(0.001)
            except (BrokenPipeError, ValueError):  # stopped
                pass

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        first = process.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.5)))
        process.send_signal(number)  # which comes while it waits or works: its input has no end
        out = first + process.stdout.read()
        assert process.wait() == (0 if number != signal.SIGKILL else -number), process.stderr.read()
        feeder.join()
        answers += out.decode() if out.endswith(b"\n") or not out else out.decode().rpartition("\n")[0] + "\n"
    answers += run_stream(home, "\n".join(lines) + "\n", "--state", state, "--late", "ignore")[0]
    check_same(by_event(answers), expected)


def test_a_second_signal_ends_a_step_that_hangs(home, many, tmp_path, monkeypatch):
    lines, _ = many
    hung = threading.Event()

    def hang(self, step):
        hung.set()
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            time.sleep(0.01)

    monkeypatch.setattr(Stream, "commit", hang)

    def stop_twice():
        assert hung.wait(60)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)

    with feeding(tmp_path / "events", lines[:20], stop_twice):
        chronode("stream", home / "run", tmp_path / "events", "--state", tmp_path / "a.state", code=1)
    stream = Stream(home / "run")
    stream.load(tmp_path / "a.state")
    assert len(stream) == 0


def test_a_reader_that_goes_away_ends_with_code_1_and_nothing_lost(home, many, tmp_path):
    lines, expected = many
    flags = ("--state", str(tmp_path / "a.state"), "--late", "ignore")
    command = [sys.executable, "-c", MAIN, "stream", str(home / "run"), *flags]
    reader, writer = os.pipe()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    process.stdin.write(f"{lines[0]}\n".encode())
    process.stdin.flush()
    first = os.read(reader, 10_000).decode()
    assert "p_ill" in first
    os.close(reader)
    _, err = process.communicate("".join(f"{line}\n" for line in lines[1:]).encode())
    assert process.returncode == 1 and b"Traceback" not in err and b"1 observations" in err
    out, err = run_stream(home, "".join(f"{line}\n" for line in lines), *flags)
    check_same(by_event(first + out), expected)
    assert len(out.splitlines()) == len(lines) - 1 and "1 late" in err


@pytest.mark.parametrize(
    ("closed", "text"),
    [("<&-", "standard input is closed"), pytest.param(">&-", "standard output is closed", marks=pytest.mark.slow)],
)
def test_a_closed_standard_stream_is_one_line(home, closed, text):
    command = f'"{sys.executable}" -c "{MAIN}" stream "{home}/run" {closed}'
    given = None if "<" in closed else subprocess.DEVNULL
    done = subprocess.run(command, shell=True, stdin=given, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and text in done.stderr and len(done.stderr.splitlines()) == 1


def test_output_is_utf_8_in_any_locale(home, tmp_path, monkeypatch):
    from chronode.cli.stream import stream

    (tmp_path / "events.csv").write_text("patient,charted_at,hr\nZoë,2024-01-01 10:00,80\n", encoding="utf-8")
    with (tmp_path / "out.csv").open("w", encoding="ascii") as file:
        monkeypatch.setattr(sys, "stdout", file)
        stream(home / "run", str(tmp_path / "events.csv"))
    assert [row["patient"] for row in table((tmp_path / "out.csv").read_text(encoding="utf-8"))] == ["Zoë"]


def test_two_processes_cannot_use_one_file_of_states(home, many, tmp_path):
    lines, _ = many
    state = tmp_path / "sub" / "a.state"
    with FolderLock.beside(state).held():
        (tmp_path / "events").write_text(lines[0] + "\n")
        done = chronode("stream", home / "run", tmp_path / "events", "--state", state, code=2)
    assert f"{state} is in use by process {os.getpid()}" in done.err and not done.out
    assert not state.exists()
    chronode("stream", home / "run", tmp_path / "events", "--state", state)
    stream = package.Stream(home / "run")
    stream.load(state)
    assert len(stream) == 1


def test_states_are_written_while_no_events_come(home, many, tmp_path):
    lines, _ = many
    state = tmp_path / "a.state"
    (tmp_path / "wait").touch()

    def wait_for_state():
        give_up = time.monotonic() + 60
        while not state.exists() and time.monotonic() < give_up:
            time.sleep(0.02)
        found.append(state.exists())
        os.kill(os.getpid(), signal.SIGTERM)

    found = []
    os.mkfifo(tmp_path / "events")
    # Open for both, so that there is no end of the events.
    handle = os.open(tmp_path / "events", os.O_RDWR)
    os.write(handle, f"{lines[0]}\n".encode())
    watcher = threading.Thread(target=wait_for_state, daemon=True)
    watcher.start()
    done = chronode("stream", home / "run", tmp_path / "events", "--state", state, "--save-seconds", 0.2)
    watcher.join()
    os.close(handle)
    assert found == [True] and "1 observations of 1 ids" in done.err
