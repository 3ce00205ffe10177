import getpass
import json
import math
import os
import platform
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from victims import victims

import chronode
from chronode._files import DiskFull
from chronode.training.environment import differences, environment
from chronode.training.lock import FolderLock
from chronode.training.run import Run, next_folder, runs

CONFIG = {"model": "mmrnn", "lr": 0.1, "sizes": [1, 2], "deep": {"none": None}}


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", CONFIG, command=["chronode", "train"])


def test_what_was_created_is_opened(run):
    again = Run.open(str(run.path))
    for one in (run, again):
        assert one.config == CONFIG and one.command == ["chronode", "train"]
        assert one.environment["chronode"] == chronode.__version__
        assert one.status == "new" and one.metrics() == [] and one.store.latest() is None
    names = {path.name for path in run.path.iterdir()}
    assert names == {"run.json", "config.json", "environment.json", "run.lock"}


def test_the_config_is_the_same_before_and_after(tmp_path):
    """JSON has no tuples: the run that was just made must not differ from the one opened later."""
    run = Run.create(tmp_path / "run", {"betas": (0.9, 0.999)})
    assert run.config == Run.open(run.path).config == {"betas": [0.9, 0.999]}


@pytest.mark.parametrize("config", [{"a": {1, 2}}, {"a": math.nan}])
def test_a_config_json_cannot_hold_makes_no_folder(tmp_path, config):
    with pytest.raises(ValueError, match="config cannot be written as JSON"):
        Run.create(tmp_path / "run", config)
    assert not (tmp_path / "run").exists()


def test_a_used_folder_is_refused_and_left_as_it_is(run, tmp_path):
    with pytest.raises(ValueError, match=r"holds a run already: go on with it by --resume"):
        Run.create(run.path, {})
    other = tmp_path / "photos"
    other.mkdir()
    (other / "a.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match=r"not empty \(a.jpg is in it\)"):
        Run.create(other, {})
    assert os.listdir(other) == ["a.jpg"]
    with pytest.raises(ValueError, match="is a file"):
        Run.create(other / "a.jpg", {})


def test_a_creation_that_was_cut_short_can_be_made_again(run, tmp_path):
    """run.json comes last: without it nothing was trained."""
    (run.path / "run.json").unlink()
    (run.path / ".run-x1y2.json").write_text("{")
    with pytest.raises(ValueError, match=r"is no run folder: it has no run.json"):
        Run.open(run.path)
    assert Run.create(run.path, {"model": "ltc"}).config == {"model": "ltc"}


def test_what_is_no_run_of_this_version_is_refused(run, tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        Run.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is no run folder"):
        Run.open(tmp_path)
    marker = run.path / "run.json"
    told = json.loads(marker.read_text())
    for version in (2, 0, "1", None):
        marker.write_text(json.dumps({**told, "version": version}))
        with pytest.raises(ValueError, match=f"of version {version!r}, this chronode reads version 1: use the"):
            Run.open(run.path)
    for text in ("[]", '{"format": "other", "version": 1}'):
        marker.write_text(text)
        with pytest.raises(ValueError, match="does not say format 'chronode-run'"):
            Run.open(run.path)
    marker.write_text('{"format": ')
    with pytest.raises(ValueError, match="run.json: this is no JSON"):
        Run.open(run.path)
    marker.write_text(json.dumps(told))
    (run.path / "config.json").unlink()
    with pytest.raises(ValueError, match="there is no .*config.json"):
        Run.open(run.path)


def test_the_status_follows_the_run(run):
    with run.lock():
        assert run.status == Run.open(run.path).status == "running"
    assert run.status == "new"
    run.append_metrics({"epoch": 1})
    assert run.status == "interrupted"
    for outcome in ("finished", "stopped", "interrupted", "failed"):
        run.finish({"status": outcome, "score": math.nan})
        assert Run.open(run.path).status == outcome
    assert run.load_json("summary.json") == {"status": "failed", "score": None}
    with run.lock():
        pass
    assert run.status == "interrupted", "it went on after its summary"
    with pytest.raises(ValueError, match=r"summary\['status'\]='done' is not known"):
        run.finish({"status": "done"})


def test_a_checkpoint_alone_is_a_begun_run(run):
    run.store.save({}, {"epoch": 1})
    assert run.status == "interrupted"
    assert Run.open(run.path).store.latest()[1] == {"epoch": 1}


json_values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.dictionaries(st.text(), json_values, max_size=3), max_size=5), cut=st.integers(0, 400))
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


def test_a_spoilt_line_in_the_middle_is_named(run):
    (run.path / "metrics.jsonl").write_text('{"epoch": 1}\nhello\n{"epoch": 2}\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 2: this is no JSON"):
        run.metrics()


def test_a_full_disk_while_writing_metrics_is_named(run, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match="the disk is full: .*metrics.jsonl could not be written"):
        run.append_metrics({"epoch": 1})
    with pytest.raises(DiskFull, match="the disk is full: .*scores.json could not be written"):
        run.save_json("scores.json", {})


def test_json_files(run):
    run.save_json("scores.json", {"a": (1, 2.5)})
    assert run.load_json("scores.json") == {"a": [1, 2.5]}
    with pytest.raises(ValueError, match="there is no .*nothing.json"):
        run.load_json("nothing.json")


HOLD = """
import os, sys, time
from pathlib import Path
from chronode.training.lock import FolderLock

with FolderLock(Path(sys.argv[1]) / "run.lock").held():
    loader = os.fork()
    if loader:
        print(loader, flush=True)
    time.sleep(60)
"""


def test_two_processes_do_not_train_into_one_folder_and_a_kill_frees_it(run):
    """Even while a forked child, such as a data loader, outlives the killed one for a while."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(run.path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            loader = int(other.stdout.readline())
            assert run.status == "running"
            with pytest.raises(ValueError, match=f"in use by process {other.pid} on .*: wait for it"), run.lock():
                pass
        finally:
            other.kill()
    try:
        with run.lock():
            assert run.status == "running"
        assert run.status == "new"
        os.kill(loader, 0)
    finally:
        os.kill(loader, signal.SIGKILL)


def test_a_child_that_leaves_the_block_closes_nothing_of_its_own(tmp_path):
    """The number of the closed lock may belong to another file of the child by then."""
    with FolderLock(tmp_path / "run.lock").held():
        pid = os.fork()
        if pid == 0:
            reused = os.open(os.devnull, os.O_RDONLY)
    if pid == 0:
        try:
            os.fstat(reused)
        except OSError:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_the_same_process_cannot_lock_twice(run):
    with run.lock(), pytest.raises(ValueError, match="in use by process"), Run.open(run.path).lock():
        pass


TRAIN = """
import torch
from chronode.training.run import Run

torch.set_num_threads(1)

def train(run, epochs, say=print):
    with run.lock():
        dice, weight, done = torch.Generator().manual_seed(0), torch.zeros(50), 0
        history = []
        if found := run.store.latest():
            tensors, facts = found
            dice.set_state(tensors["dice"])
            weight, done, history = tensors["weight"], facts["epoch"], facts["history"]
        run.replace_metrics(history)
        for epoch in range(done + 1, epochs + 1):
            weight = torch.tanh(weight + torch.rand(50, generator=dice))
            history.append({"epoch": epoch, "norm": float(weight.norm())})
            run.store.save({"weight": weight, "dice": dice.get_state()}, {"epoch": epoch, "history": history})
            run.append_metrics(history[-1])
            say(epoch)
        run.finish({"status": "finished"})

def work(say, folder):
    train(Run.open(folder), 10**9, say)
"""


def test_a_run_killed_again_and_again_ends_as_one_that_was_not(tmp_path):
    names: dict[str, Any] = {}
    exec(TRAIN, names)
    rough, dice = Run.create(tmp_path / "rough", {}), random.Random(0)
    with victims(TRAIN) as killed_after:
        for _ in range(8):
            killed_after(dice.uniform(0, 0.05), str(rough.path))
            assert rough.status == "interrupted"
    epochs = rough.store.latest()[1]["epoch"] + 2
    names["train"](rough, epochs)
    calm = Run.create(tmp_path / "calm", {})
    names["train"](calm, epochs)
    assert rough.status == calm.status == "finished" and epochs > 8
    (ours, _), (theirs, _) = rough.store.latest(), calm.store.latest()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert (rough.path / "metrics.jsonl").read_bytes() == (calm.path / "metrics.jsonl").read_bytes()


def test_folders_are_numbered_on(tmp_path):
    parent = tmp_path / "runs"
    assert [next_folder(parent, "a.b").name for _ in range(11)][-1] == "a.b-11"
    (parent / "a.b-4").rmdir()
    (parent / "axb-50").mkdir()
    (parent / "a.b-best").mkdir()
    assert next_folder(parent, "a.b").name == "a.b-12"
    Run.create(next_folder(parent, "a.b"), {})


def test_two_that_ask_at_once_get_two_folders(tmp_path, monkeypatch):
    """Another process makes the folder between the look and the making."""
    real = Path.mkdir

    def late(path, *args, **settings):
        monkeypatch.setattr(Path, "mkdir", real)
        if path.name == "a-1":
            real(path)
        real(path, *args, **settings)

    tmp_path.joinpath("x").mkdir()
    monkeypatch.setattr(Path, "mkdir", lambda path, *a, **k: real(path, *a, **k) if path.name == "x" else late(path))
    assert next_folder(tmp_path / "x", "a").name == "a-2"


def test_runs_are_listed_oldest_first_and_strange_ones_warned_about(tmp_path):
    made = [Run.create(tmp_path / name, {}) for name in ("z", "b", "a")]
    for run, started in zip(made, ["2026-01-01", "2026-01-02", "2026-01-03"], strict=True):
        run.save_json("environment.json", {"started": started})
    (tmp_path / "no run").mkdir()
    assert [run.path.name for run in runs(tmp_path)] == ["z", "b", "a"]
    made[1].save_json("run.json", {"format": "chronode-run", "version": 7})
    with pytest.warns(UserWarning, match="of version 7"):
        assert [run.path.name for run in runs(tmp_path)] == ["z", "a"]
    assert runs(tmp_path / "nowhere") == []


def test_the_environment_tells_versions_and_not_who_or_where():
    told = environment()
    assert told["torch"] == torch.__version__ and told["python"] == platform.python_version()
    assert told["threads"] == torch.get_num_threads() and told["cores"] >= 1
    assert told["started"].endswith("+00:00") and told["lightning"]
    text = json.dumps(told)
    assert platform.node() not in text and str(Path.home()) + "/" not in text
    assert getpass.getuser() not in text.lower().replace(" ", "").split('"')


def test_the_commit_is_that_of_the_checkout_or_none():
    source = Path(chronode.__file__).parent
    asked = subprocess.run(["git", "-C", source, "log", "-1", "--format=%H"], capture_output=True, text=True)
    told = environment()
    assert told["commit"] == (asked.stdout.strip() or None)
    assert (told["changed"] is None) == (told["commit"] is None)


def test_a_chronode_inside_another_checkout_has_no_commit(tmp_path, monkeypatch):
    """As in a virtual environment within a user's own repository."""
    package = tmp_path / ".venv" / "chronode"
    (package / "training").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr("chronode.training.environment.__file__", str(package / "training" / "environment.py"))
    assert environment()["commit"] is None


def test_only_what_may_change_numbers_counts_as_a_difference():
    before = environment()
    now = {**before, "started": "later", "os": "other", "threads": before["threads"] + 1}
    assert differences(before, now) == [f"threads was {before['threads']}, now {before['threads'] + 1}"]
