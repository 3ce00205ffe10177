"""One process at a time trains into a folder; a killed one releases it, and the next one resumes."""

import os
import random
import signal
import subprocess
import sys
from typing import Any

import pytest
import torch
from run_folders import new_run
from victims import victims

from chronode.runs._environment import FolderLock
from chronode.runs._folder import Run

run = pytest.fixture(new_run)

HOLD = """
import os, sys, time
from pathlib import Path
from chronode.runs._environment import FolderLock

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
        pid, reused = os.fork(), -1
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


def test_the_error_of_each_contender_names_the_holder(tmp_path):
    lock = FolderLock(tmp_path / "run.lock")
    with lock.held():
        for _ in range(2):
            with pytest.raises(ValueError, match=f"in use by process {os.getpid()} on "), lock.held():
                pass
            assert lock.taken()
    assert not lock.taken()


TRAIN = """
import torch
from chronode.runs._folder import Run

torch.set_num_threads(1)

def train(run, epochs, say=print):
    with run.lock():
        rng, weight, done = torch.Generator().manual_seed(0), torch.zeros(50), 0
        history = []
        if found := run.store.latest():
            tensors, facts = found
            rng.set_state(tensors["rng"])
            weight, done, history = tensors["weight"], facts["epoch"], facts["history"]
        run.replace_metrics(history)
        for epoch in range(done + 1, epochs + 1):
            weight = torch.tanh(weight + torch.rand(50, generator=rng))
            history.append({"epoch": epoch, "norm": float(weight.norm())})
            run.store.save({"weight": weight, "rng": rng.get_state()}, {"epoch": epoch, "history": history})
            run.append_metrics(history[-1])
            say(epoch)
        run.finish({"status": "finished"})

def work(say, folder):
    train(Run.open(folder), 10**9, say)
"""


def test_a_run_killed_again_and_again_ends_as_one_that_was_not(tmp_path):
    names: dict[str, Any] = {}
    exec(TRAIN, names)
    rough, rng = Run.create(tmp_path / "rough", {}), random.Random(0)
    with victims(TRAIN) as killed_after:
        for _ in range(8):
            killed_after(rng.uniform(0, 0.05), str(rough.path))
            assert rough.status == "interrupted"
    epochs = rough.store.latest()[1]["epoch"] + 2
    names["train"](rough, epochs)
    calm = Run.create(tmp_path / "calm", {})
    names["train"](calm, epochs)
    assert rough.status == calm.status == "finished" and epochs > 8
    (ours, _), (theirs, _) = rough.store.latest(), calm.store.latest()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert (rough.path / "metrics.jsonl").read_bytes() == (calm.path / "metrics.jsonl").read_bytes()
