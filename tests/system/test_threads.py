"""Waiting of torch's threads for work: briefly, so that they leave the processor to others."""

import os
import re
import subprocess
import sys
import threading

import pytest
from fit_checks import small, spec_for

from chronode.system._process import WAIT_SETTINGS, let_threads_sleep
from chronode.system._torch import _openmp
from chronode.training import Settings, fit

pytestmark = pytest.mark.skipif(_openmp() is None, reason="torch has no libgomp here")

WAITING = """
import contextlib, os, time, torch
from pathlib import Path
from chronode.system._torch import patient

def spent():
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path("/proc/self/task").iterdir()) / 1e6

numbers = torch.ones(200_000)
torch.set_num_threads(2)

def work():
    (numbers + 1).sum()
    before = spent()
    for _ in range(40):
        numbers.add_(1)
        time.sleep(0.01)  # the other thread has nothing to do
    return spent() - before

count = lambda: len(os.listdir("/proc/self/task"))
work()
counts = [count()]
for block in (contextlib.nullcontext(), patient(), contextlib.nullcontext()):
    with block:
        print(work())
        counts.append(count())
print(*counts)
"""


def child(*arguments, **environment):
    """A process whose torch may use two threads, and where nothing says how they wait."""
    clean = {name: value for name, value in os.environ.items() if name not in WAIT_SETTINGS}
    clean |= {"OMP_NUM_THREADS": "2", **environment}
    return subprocess.run([sys.executable, *arguments], env=clean, capture_output=True, text=True, check=True)


def test_threads_sleep_between_operations():
    """By the CPU time of all threads, whatever else runs on the machine."""
    *spent, first, before, parked, after = map(float, child("-c", WAITING).stdout.split())
    assert spent[1] < min(spent[0], spent[2]) / 3, spent
    assert first == before == after < parked, "idle threads are left"


@pytest.mark.parametrize("count", [1, 2])
def test_threads_sleep_in_a_training_that_has_several(count, monkeypatch):
    for name in WAIT_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    idle = []
    data = small()
    fit(
        data,
        spec_for(data),
        Settings(epochs=1, threads=count),
        on_event=lambda _: idle.append("chronode-idle" in [thread.name for thread in threading.enumerate()]),
    )
    assert idle[-1] == (count == 2)
    assert "chronode-idle" not in [thread.name for thread in threading.enumerate()]


def test_commands_let_threads_sleep():
    """By what libgomp itself says when torch loads it."""
    main = "from chronode.cli import main; main()"
    text = child("-c", main, "models", OMP_DISPLAY_ENV="true").stderr
    assert re.findall(r"OMP_WAIT_POLICY = '(\w+)'", text) == ["PASSIVE"]


@pytest.mark.parametrize("name", WAIT_SETTINGS)
def test_commands_keep_what_the_user_says(name, monkeypatch):
    monkeypatch.setattr(sys, "modules", {})
    for other in WAIT_SETTINGS:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "7")
    before = dict(os.environ)
    let_threads_sleep()
    assert os.environ == before
    monkeypatch.delenv(name)
    let_threads_sleep()
    assert os.environ.pop("OMP_WAIT_POLICY") == "passive"
