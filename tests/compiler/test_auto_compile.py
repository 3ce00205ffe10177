"""Cells that are compiled by themselves: when it pays, in the background, never where bits must not change."""

import os
import subprocess
import sys
import time

import pytest
import torch

import chronode
from chronode import compiler
from chronode.compiler import _auto, build
from chronode.nn import _stepper

SCRIPT = """
import time, torch, chronode
from chronode.compiler import _auto

_auto._TRACE_SECONDS, _auto._LOOP_SECONDS = 0.02, 0.04
torch.manual_seed(0)
layer, x = chronode.create("ugrnn", 3, {hidden}), torch.randn(2, 30, 3)
states, outputs = [], []
end = time.monotonic() + 60
while time.monotonic() < end and "compiled" not in states[:-3]:
    y, _ = layer(x)
    y.sum().backward()
    outputs.append(y.detach())
    states.append(_auto._progress[layer.cells[0]].state)
torch.testing.assert_close(outputs[0], outputs[-1])
print(*dict.fromkeys(states), states.count("building") > 0)
"""


@pytest.fixture
def eager(monkeypatch):
    """Everything pays at once."""
    monkeypatch.setenv(_auto.VARIABLE, "auto")
    monkeypatch.setattr(_auto, "_TRACE_SECONDS", 0.0)
    monkeypatch.setattr(_auto, "_LOOP_SECONDS", 0.0)


def run(script, **variables):
    """The script in a process of its own."""
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def progress_of(layer):
    progress = _auto._progress.get(layer.cells[0])
    return "new" if progress is None else progress.state


def until(layer, state, x):
    """Calls the layer until its cell is in that state."""
    end = time.monotonic() + 100
    while progress_of(layer) != state and time.monotonic() < end:
        layer(x)
        time.sleep(0.01)
    assert progress_of(layer) == state


def test_a_training_loop_goes_on_while_its_kernel_is_built_and_says_when_it_is_used(tmp_path):
    done = run(SCRIPT.format(hidden=5), CHRONODE_COMPILE="auto", CHRONODE_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["loop", "building", "compiled", "True"]
    notes = [line for line in done.stderr.splitlines() if line.startswith("chronode:")]
    assert len(notes) == 1
    assert "UGRNNCell" in notes[0]
    assert "CHRONODE_COMPILE=off" in notes[0]
    again = run(SCRIPT.format(hidden=5), CHRONODE_COMPILE="auto", CHRONODE_CACHE=str(tmp_path))
    assert again.stdout.split() == ["loop", "compiled", "False"]  # from the cache


def test_a_process_that_ends_before_its_kernel_is_built_leaves_nothing_behind(tmp_path):
    script = SCRIPT.format(hidden=6).replace('"compiled" not in states[:-3]', '"building" not in states')
    done = run(script, CHRONODE_COMPILE="auto", CHRONODE_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "compiled").iterdir())


def test_off_and_a_choice_of_the_user_are_final(eager, monkeypatch):
    x = torch.randn(2, 4, 3)
    layer = chronode.create("ugrnn", 3, 6)
    compiler.use(layer, compiled=False)
    for _ in range(3):
        layer(x)
    assert progress_of(layer) == "new"
    monkeypatch.setenv(_auto.VARIABLE, "off")
    layer = chronode.create("ugrnn", 3, 6)
    for _ in range(3):
        layer(x)
    assert progress_of(layer) == "new"


def test_now_compiles_at_the_first_call(monkeypatch):
    monkeypatch.setenv(_auto.VARIABLE, "now")
    layer = chronode.create("ugrnn", 3, 6)
    assert compiler.find(layer.cells[0], torch.randn(4, 2, 3)) is not None


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv(_auto.VARIABLE, "perhaps")
    with pytest.raises(ValueError, match="CHRONODE_COMPILE"):
        chronode.create("ugrnn", 3, 6)(torch.randn(2, 4, 3))


def test_few_short_calls_are_not_even_traced(monkeypatch):
    monkeypatch.setenv(_auto.VARIABLE, "auto")
    monkeypatch.setattr("chronode.compiler._compiled.trace", lambda *arguments, **options: pytest.fail("traced"))
    layer = chronode.create("ugrnn", 3, 6)
    for _ in range(5):
        layer(torch.randn(2, 4, 3))
    assert progress_of(layer) == "loop"


def test_deterministic_mode_keeps_the_path_of_the_first_call(eager):
    layer, x = chronode.create("ugrnn", 3, 6), torch.randn(2, 4, 3)
    until(layer, "compiled", x)
    other = chronode.create("ugrnn", 3, 6)
    torch.use_deterministic_algorithms(True)
    try:
        first, _ = other(x)
        for _ in range(3):
            assert torch.equal(other(x)[0], first)
        assert progress_of(other) == "loop"
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_compiler_that_fails_leaves_the_loop(eager, monkeypatch, tmp_path, recwarn):
    monkeypatch.setenv("CXX", "false")
    monkeypatch.setenv("CHRONODE_CACHE", str(tmp_path))
    layer, x = chronode.create("ugrnn", 3, 7), torch.randn(2, 4, 3)
    expected, _ = layer(x)
    until(layer, "never", x)
    assert torch.equal(layer(x)[0], expected)
    assert not recwarn.list


def test_a_build_that_hangs_is_stopped(eager, monkeypatch, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] && echo slow 1 && exit\nsleep 100\n')
    slow.chmod(0o700)
    monkeypatch.setenv("CXX", str(slow))
    monkeypatch.setenv("CHRONODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CHRONODE_COMPILE_TIMEOUT", "1")
    layer, x = chronode.create("ugrnn", 3, 9), torch.randn(2, 4, 3)
    until(layer, "building", x)
    process = _auto._progress[layer.cells[0]].building._process
    until(layer, "never", x)
    assert process.poll() is not None


def test_what_cannot_be_compiled_stays_a_loop_without_a_note(eager, recwarn):
    class Sorting(chronode.nn.Cell):
        def forward(self, x, state, dt):
            h = (state[0] + x[:, :1]).sort(-1).values
            return h, (h,)

    layer, x = chronode.nn.Layer(Sorting, 3, 4), torch.randn(2, 4, 3)
    until(layer, "never", x)
    layer(x)
    assert not recwarn.list


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_the_build_of_its_parent(eager, monkeypatch, tmp_path):
    monkeypatch.setenv("CHRONODE_CACHE", str(tmp_path))
    layer, x = chronode.create("ugrnn", 3, 8), torch.randn(2, 4, 3)
    until(layer, "building", x)
    child = os.fork()
    if child == 0:
        layer(x)
        os._exit(0 if progress_of(layer) == "building" else 1)
    assert os.waitpid(child, 0)[1] == 0
    until(layer, "compiled", x)
    assert build.is_built(compiler.source_of(layer.cells[0]))


def test_a_stepper_runs_compiled_once_its_steps_have_cost_enough(eager, monkeypatch):
    monkeypatch.setattr(_stepper, "_LOOK_STEPS", 3)
    layer = chronode.create("ugrnn", 2, 7).eval()
    stepper, rows, state, wanted, given = layer.stepper(), torch.randn(400, 2), None, [], []
    assert not stepper.is_one_call()
    with torch.no_grad():
        for x in rows:
            with chronode.backend("torch"):
                y, state = layer.step(x, state, 0.5)
            wanted.append(y)
            given.append(stepper(x, 0.5))
            time.sleep(0.0 if stepper.is_one_call() else 0.05)
    assert stepper.is_one_call()
    torch.testing.assert_close(torch.stack(given), torch.stack(wanted))
    torch.testing.assert_close(stepper.state, state)
