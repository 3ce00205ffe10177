"""Several processes share a search, and one that was stopped or killed leaves it to the next."""

import json
import os
import signal
import subprocess
import sys

import pytest
from searches import ASKED, search_in

from chronode.search._ranges import Between
from chronode.training import EpochDone

RATES = {"learning_rate": Between(1e-3, 1e-1, log=True)}
PROGRAM = """
import json, sys, torch
torch.set_num_threads(1)
from chronode.runs._config import Config
from chronode.search._ranges import Between
from chronode.search._sweep import Search
config = Config.from_dict(json.loads(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
search = Search(config, {"learning_rate": Between(1e-3, 1e-1, log=True)}, sys.argv[2])
try:
    search.run(int(sys.argv[3]), on_event=lambda trial, event: print("event", flush=True))
except KeyboardInterrupt:
    print("stopped")
"""


def start(folder, trials, **training):
    asked = {**ASKED, "training": {**ASKED["training"], **training}}
    command = [sys.executable, "-c", PROGRAM, json.dumps(asked), str(folder), str(trials)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    worker = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True, **pipes)
    assert worker.stdout.readline() == "ready\n"
    return worker


def go(*workers):
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()


@pytest.mark.slow
def test_two_processes_share_a_search(tmp_path):
    workers = [start(tmp_path, 12) for _ in range(2)]
    go(*workers)
    for worker in workers:
        output, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
        assert not errors
        assert "event" in output  # each had its share
    search = search_in(tmp_path, RATES)
    trials = search.trials()
    assert len(trials) == 12
    assert {trial.state for trial in trials} <= {"complete", "pruned"}
    assert len({trial.settings["learning_rate"] for trial in trials}) == 12


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_was_stopped_or_killed_leaves_a_search_that_resumes(tmp_path, how):
    worker = start(tmp_path, 3, epochs=500)
    go(worker)
    assert worker.stdout.readline() == "event\n"
    worker.send_signal(how)
    output, errors = worker.communicate(timeout=120)
    assert (worker.returncode == 0 and "stopped" in output) if how == signal.SIGINT else worker.returncode == -how
    assert "Traceback" not in errors
    search = search_in(tmp_path, RATES, epochs=500)

    def stop(trial, event):
        if isinstance(event, EpochDone):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.run(1, on_event=stop)
    assert [trial.state for trial in search.trials()] == ["fail", "fail"]
