"""The queue of jobs, in this process and in others that are killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_jobs import Broken, Counting, Endless, Mortal, Square, Surroundings, Wrong

from chronode.search.engine import Engine, StopJob, carry_out

PLACES = [Engine(), Engine(workers=2)]


def taking(jobs):
    """Source that gives the jobs one by one."""
    left = iter(jobs)
    return lambda: next(left, None)


def done_by(jobs, engine, **options):
    return {done.job.key: done for done in carry_out(taking(jobs), engine, **options)}


@pytest.mark.parametrize("engine", PLACES, ids=str)
def test_every_job_has_its_result_and_faults_are_reported(engine):
    found = done_by([Square(1), Wrong(2), Square(3), Broken(4), Square(5)], engine)
    assert {key: (done.how, done.result) for key, done in found.items()} == {
        **{"1": ("result", 1), "2": ("fault", None), "3": ("result", 9)},
        **{"4": ("fault", None), "5": ("result", 25)},
    }
    assert found["2"].fault == "2 is wrong."
    assert "KeyError: 4" in found["4"].fault


@given(st.lists(st.integers(0, 50), unique=True), st.integers(0, 3))
def test_jobs_are_taken_one_by_one_and_each_once(numbers, retries):
    taken = []

    def take():
        assert len(taken) == len(found)  # not before the last one has ended
        taken.extend(numbers[len(taken) : len(taken) + 1])
        return Square(taken[-1]) if len(taken) > len(found) else None

    found = []
    for done in carry_out(take, Engine(retries=retries)):
        found.append(done)
    assert [done.result for done in found] == [number**2 for number in numbers]


def test_processes_serve_many_jobs_or_one():
    for engine, processes in ((Engine(workers=1), 1), (Engine(workers=1, fresh=True), 2)):
        seen = set()
        done_by([Square(1), Square(2)], engine, on_report=lambda job, pid, seen=seen: seen.add(pid))
        assert len(seen) == processes
        assert os.getpid() not in seen


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_further_processes_import_nothing_again(monkeypatch):
    """They are forked from one server that has imported torch, with the environment of this moment."""
    for value in ("one", "two"):
        monkeypatch.setenv("CHRONODE_TEST_OF_WORKERS", value)
        results = [
            done.result for done in done_by([Surroundings(1), Surroundings(2)], Engine(workers=1, fresh=True)).values()
        ]
        servers, preloaded, values = zip(*results, strict=True)
        assert len({*servers}) == 1 and os.getpid() not in servers
        assert all(preloaded) and set(values) == {value}


@pytest.mark.parametrize("engine", PLACES, ids=str)
def test_a_job_that_is_not_wanted_any_more_ends(engine):
    def stop(job, content):
        if isinstance(job, Endless):
            raise StopJob

    found = done_by([Endless(1), Square(2), Endless(3), Square(4)], engine, on_report=stop)
    assert [found[key].how for key in "1234"] == ["stopped", "result", "stopped", "result"]


def test_a_killed_worker_costs_only_what_it_was_doing():
    killed = set()

    def kill(job, pid):
        if job.key == "2" and not killed:
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)

    found = done_by([Square(1), Square(2), Square(3), Square(4)], Engine(workers=2), on_report=kill)
    assert killed
    assert {key: done.result for key, done in found.items()} == {"1": 1, "2": 4, "3": 9, "4": 16}


def test_an_idle_worker_that_was_killed_is_replaced():
    processes = []

    def begin(job):
        if processes:
            os.kill(processes[-1], signal.SIGKILL)
            while not gone(processes[-1]):
                time.sleep(0.01)

    found = done_by(
        [Square(1), Square(2)], Engine(workers=1), on_start=begin, on_report=lambda job, pid: processes.append(pid)
    )
    assert {key: done.result for key, done in found.items()} == {"1": 1, "2": 4}
    assert len(set(processes)) == 2


@pytest.mark.parametrize(("attempts", "how"), [(3, "result"), (9, "lost")])
def test_a_job_is_lost_if_its_process_ends_again_and_again(attempts, how, tmp_path):
    job = Mortal(5, attempts, tmp_path / "attempts")
    (done,) = done_by([job], Engine(workers=1, retries=2)).values()
    assert done.how == how
    assert len((tmp_path / "attempts").read_text().splitlines()) == 3
    if how == "lost":
        assert done.fault == "its process ended with code 7"


@pytest.mark.parametrize("engine", PLACES, ids=str)
def test_an_unfinished_job_continues(engine, tmp_path):
    def fail(job, count):
        if count == 3:
            raise KeyError("the driver's own")

    with pytest.raises(KeyError, match="the driver's own"):
        done_by([Counting(10)], engine, state=tmp_path, on_report=fail)
    written = len((tmp_path / "10").read_text())
    assert 3 <= written <= 10
    (done,) = done_by([Counting(10)], engine, state=tmp_path).values()
    assert done.result == written
    assert (tmp_path / "10").read_text() == "." * 10


PROGRAM = """
from small_jobs import Endless
from chronode.search.engine import Engine, carry_out

if __name__ == "__main__":
    jobs = iter([Endless(1), Endless(2)])
    tell = lambda job, pid: print(pid, flush=True)
    list(carry_out(lambda: next(jobs, None), Engine(workers=2), on_report=tell))
"""


def gone(pid):
    """Whether a process has ended; one that nobody has waited for yet is listed as a zombie."""
    output = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return not output or output.startswith("Z")


def test_workers_end_with_their_driver(tmp_path):
    (tmp_path / "driver.py").write_text(PROGRAM)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    driver = subprocess.Popen(
        [sys.executable, str(tmp_path / "driver.py")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    workers = set()
    while len(workers) < 2:
        workers.add(int(driver.stdout.readline()))
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + 300
    while not all(map(gone, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "slurm"}, "engine='slurm' is not supported"),
        ({"workers": -1}, "workers must be at least 0"),
        ({"address": "auto"}, "address is the address of a Ray cluster"),
    ],
)
def test_a_mistake_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        Engine(**options)
