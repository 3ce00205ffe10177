"""Training in several processes: the numbers of one, from a store too, and killed processes that cost nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import chronode
from fit_checks import spec_for, weights

from chronode.data import _sequences, from_list, pack, read
from chronode.runs._checkpoints import Store
from chronode.training import BatchDone, EpochDone, Note, Settings, WorkerLost, assemble, fit
from chronode.training._loaders import Place, TrainingBatches
from chronode.training._local_helpers import LocalHelpers


def series(count=29, classes=False):
    """Series of different lengths; the target of some is unknown, so that the shares of a batch differ in weight."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(int(length), 2)) for length in rng.integers(2, 9, count)]
    if classes:
        return from_list(values, target=["ab"[i % 2] for i in range(count)])
    return from_list(values, target=[[float(v.sum()), float("nan") if i % 3 else i] for i, v in enumerate(values)])


def both(data, devices, **settings):
    """Trains in several processes and in one, on batches of 5 and a last one of 4, or of 1 for four processes."""
    own = {"epochs": 2, "batch_size": 5, "seed": 1, **settings}
    return [fit(data, spec_for(data, "gru"), Settings(devices=count, **own), valid=data[:7]) for count in (devices, 1)]


def same(one, other):
    torch.testing.assert_close(weights(one.model), weights(other.model), rtol=1e-4, atol=1e-6)
    for mine, theirs in zip(one.record.history, other.record.history, strict=True):
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-5)
        assert mine.valid_loss == pytest.approx(theirs.valid_loss, rel=1e-5)


def test_two_processes_have_the_weights_of_one():
    same(*both(series(), 2, average="ema"))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"class_weights": "balanced"}, {"optimizer": "sgd", "clip": 0.0}])
def test_four_processes_have_the_weights_of_one(settings):
    same(*both(series(26, classes=True), 4, **settings))


def test_a_share_without_series_has_no_weight():
    data = series(3)
    batches = [list(TrainingBatches(_parts(data), Settings(batch_size=3), Place(), (rank, 4))) for rank in range(4)]
    assert [len(batch.rows) for (batch,) in batches] == [1, 1, 1, 1]
    assert sorted(int(batch.rows[0]) for (batch,) in batches[:3]) == [0, 1, 2]
    assert batches[3][0].weights.tolist() == [0.0]


def _parts(train):
    from chronode.data import Parts

    return Parts(train, train, train)


def test_a_killed_process_costs_nothing(tmp_path):
    """Training continues from the last checkpoint, and ends with the weights of a run that was not disturbed."""
    data, helpers, events = series(), LocalHelpers(), []
    settings = Settings(epochs=3, batch_size=5, devices=2, seed=1)

    def listen(event):
        if isinstance(event, BatchDone) and event.epoch == 2 and event.batch == 2 and not any_notes(events):
            os.kill(helpers.processes[0].pid, signal.SIGKILL)
        events.append(event)

    fitted = assemble(_parts(data), spec_for(data, "gru"), settings).fit(
        on_event=listen, store=Store(tmp_path), helpers=helpers
    )
    assert len(any_notes(events)) == 1
    assert [event.epoch.number for event in events if isinstance(event, EpochDone)] == [1, 2, 3]
    alone = assemble(_parts(data), spec_for(data, "gru"), replace(settings, devices=1)).fit()
    torch.testing.assert_close(weights(fitted.model), weights(alone.model), rtol=1e-4, atol=1e-6)
    assert helpers.processes == []


@pytest.mark.slow
def test_nine_kills_of_processes_lose_and_double_no_series(tmp_path, monkeypatch):
    """Each of the nine kills is at another batch; checkpoints are written after each batch, or at ends of epochs."""
    monkeypatch.setattr("chronode.training._assembly._ATTEMPTS", 20)
    data, helpers, done, kills = series(), LocalHelpers(), [], []
    settings = Settings(epochs=4, batch_size=5, devices=3, seed=1, early_stop=0)

    def listen(event):
        if isinstance(event, BatchDone):
            done.append(event.step)
            if len(kills) < 9 and event.step >= 2 * len(kills) + 1:
                kills.append(event.step)
                os.kill(helpers.processes[len(kills) % 2].pid, signal.SIGKILL)

    together = assemble(_parts(data), spec_for(data, "gru"), settings)
    fitted = together.fit(on_event=listen, store=Store(tmp_path), helpers=helpers, save_minutes=0)
    assert len(kills) == 9 and fitted.record.steps == 24 and sorted(set(done)) == list(range(1, 25))
    alone = assemble(_parts(data), spec_for(data, "gru"), replace(settings, devices=1)).fit()
    torch.testing.assert_close(weights(fitted.model), weights(alone.model), rtol=1e-4, atol=1e-6)


def any_notes(events):
    return [event for event in events if isinstance(event, Note) and "last checkpoint" in event.text]


def test_processes_that_cannot_start_are_named(monkeypatch):
    """An error that comes again is raised after a few attempts, with the reason of the process."""
    monkeypatch.setattr("chronode.training._assembly._ATTEMPTS", 1)
    monkeypatch.setattr("chronode.training._crew.pickle.dumps", lambda content: b"no pickle")
    data = series(8)
    with pytest.raises(WorkerLost, match="has not started: .*Unpickling"):
        fit(data, spec_for(data, "gru"), Settings(epochs=1, devices=2), valid=data)


# ---- commands ------------------------------------------------------------------------------------------------

PROGRAM = [sys.executable, "-c", "from chronode.cli import main; main()"]
ROLES = {"id": "who", "time": "t", "target": "ill"}


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A store that is larger than the sample."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [f"p{i % 40},{i // 40},{rng.normal() + (i % 2)},{'yes' if i % 2 else 'no'}" for i in range(240)]
    Path("a.csv").write_text("who,t,x,ill\n" + "\n".join(rows) + "\n")
    pack("a.csv", "a.series", **ROLES)
    monkeypatch.setattr(_sequences, "_SAMPLED_NUMBERS", 100)
    return read("a.series")


OPTIONS = ("--model", "gru", "--hidden-size", 4, "--epochs", 2, "--batch-size", 6, "--start", "none")


def losses(run):
    return [json.loads(line)["loss"] for line in Path(run, "metrics.jsonl").read_text().splitlines()]


def test_a_command_trains_in_two_processes_from_a_store_and_resumes_in_one(stored):
    assert stored.is_stored and len(stored.sample) < len(stored)
    chronode("train", "a.series", *OPTIONS, "--workers", 2, "-o", "two")
    chronode("train", "a.series", *OPTIONS, "-o", "one")
    assert losses("two") == pytest.approx(losses("one"), rel=1e-5)
    chronode("train", "--resume", "two", "--epochs", 3, "--devices", 1)
    assert len(losses("two")) == 3


def test_ray_needs_a_number_of_processes(stored):
    for options, cure in ((("--engine", "ray"), "--workers 4"), (("--address", "head:6379"), "--engine ray")):
        assert cure in chronode("train", "a.series", *OPTIONS, *options, "-o", "run", code=2).err


@pytest.mark.slow
def test_a_killed_first_process_leaves_no_others_and_the_run_resumes(tmp_path):
    options = ["--option", "train=200", "--option", "valid=16", "--option", "test=16", "--batch-size", "4"]
    command = [*PROGRAM, "train", "bitstream", *options, "--model", "gru", "--epochs", "400"]
    command += ["--workers", "2", "--early-stop", "0", "-o", "run"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while not (tmp_path / "run" / "metrics.jsonl").is_file():
        assert process.poll() is None
    others = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    process.kill()
    process.wait()
    for other in others:
        for _ in range(200):
            if not Path(f"/proc/{other}").exists():
                break
            time.sleep(0.1)
        assert not Path(f"/proc/{other}").exists()
    ended = ["train", "--resume", "run", "--epochs", "3", "--devices", "1"]
    assert subprocess.run([*PROGRAM, *ended], cwd=tmp_path).returncode == 0
