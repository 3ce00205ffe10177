"""The metrics of a run: whole lines of strict JSON, wherever a kill cuts the file."""

import json
import math
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_folders import new_run

from chronode.runs._folder import Run
from chronode.storage._files import DiskFull

run = pytest.fixture(new_run)

numbers = st.none() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0")).filter(lambda name: name != "epoch")


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.dictionaries(names, numbers, max_size=3), max_size=5), cut=st.integers(0, 400))
def test_metrics_survive_a_torn_end(tmp_path_factory, rows, cut):
    """Wherever a kill cuts the file, the whole lines before it are read, and the next one is added whole."""
    run = Run.create(tmp_path_factory.mktemp("runs") / "run", {})
    for row in rows:
        run.append_metrics(row)
    assert run.metrics() == rows
    file = run.path / "metrics.jsonl"
    content = file.read_bytes() if rows else b""
    file.write_bytes(content[:cut])
    whole = content[:cut].count(b"\n")
    assert run.metrics() == rows[:whole]
    run.append_metrics({"epoch": 9})
    assert run.metrics() == [*rows[:whole], {"epoch": 9}]


def test_metrics_are_strict_json(run):
    run.append_metrics({"epoch": 1, "loss": math.nan, "norms": [math.inf, 1.5]})

    def refuse(name):
        raise AssertionError(name)

    line = (run.path / "metrics.jsonl").read_text()
    assert json.loads(line, parse_constant=refuse) == {"epoch": 1, "loss": None, "norms": [None, 1.5]}


def test_lines_after_the_checkpoint_are_dropped(run):
    run.truncate_metrics(3)
    for epoch in range(1, 6):
        run.append_metrics({"epoch": epoch, "loss": 1 / epoch})
    run.append_metrics({"test_score": 0.9})
    lines = (run.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"epoch": 6, "lo')
    run.truncate_metrics(after_epoch=3)
    assert (run.path / "metrics.jsonl").read_bytes() == b"".join(lines[:3])


def test_metrics_are_replaced_by_those_of_a_checkpoint(run):
    """A kill between the checkpoint and its line leaves the line out; the checkpoint knows it."""
    run.append_metrics({"epoch": 1, "loss": 0.5})
    run.replace_metrics([{"epoch": 1, "loss": math.nan}, {"epoch": 2}])
    assert run.metrics() == [{"epoch": 1, "loss": None}, {"epoch": 2}]
    run.replace_metrics([])
    assert run.metrics() == []


def test_a_damaged_line_in_the_middle_is_named(run):
    (run.path / "metrics.jsonl").write_text('{"epoch": 1}\nhello\n{"epoch": 2}\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 2: this is not valid JSON"):
        run.metrics()


def test_a_full_disk_while_writing_metrics_is_named(run, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match="the disk is full: .*metrics.jsonl could not be written"):
        run.append_metrics({"epoch": 1})
    with pytest.raises(DiskFull, match="the disk is full: .*scores.json could not be written"):
        run.save_json("scores.json", {})
