"""A run that is stopped anywhere and goes on ends with the weights of a run that was never stopped, bit for bit."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

from chronode.data import from_list
from chronode.lab.tasks.bitstream import bitstream
from chronode.model._spec import ModelSpec
from chronode.training import BatchDone, Note, Settings, fit


class Memory:
    """A store in memory that keeps what a file would: copies, and facts that went through JSON."""

    def __init__(self):
        self.saved = []

    def save(self, tensors, facts):
        self.saved.append(({name: tensor.clone() for name, tensor in tensors.items()}, json.dumps(facts)))

    def latest(self):
        if not self.saved:
            return None
        tensors, facts = self.saved[-1]
        return {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(facts)


class Killed(Exception):
    pass


def killer(after):
    """Raises at the `after`-th batch."""
    batches = 0

    def on_event(event):
        nonlocal batches
        batches += isinstance(event, BatchDone)
        if isinstance(event, BatchDone) and batches == after:
            raise Killed

    return on_event


def per_step_series(count=22):
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(int(n), 1)) for n in rng.integers(3, 12, size=count)]
    target = [(np.cumsum(s[:, 0]) > 0).astype(int) for s in series]
    return from_list(series, target=target, per_step=True, times=[np.cumsum(rng.random(len(s))) for s in series])


def equal(one, other):
    states = one.model.state_dict(), other.model.state_dict()
    assert states[0].keys() == states[1].keys()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


HARD = {
    "everything": {
        "schedule": "plateau",
        "plateau_patience": 1,
        "warmup_epochs": 0.5,
        "average": "ema",
        "average_decay": 0.9,
        "subsample": 0.7,
        "tbptt": 4,
    },
    "rmsprop": {"optimizer": "rmsprop", "momentum": 0.5, "schedule": "cosine"},
    "swa": {"optimizer": "sgd", "momentum": 0.9, "average": "swa", "average_start": 2, "weight_decay": 0.01},
    "steps": {"optimizer": "adamw", "steps": 11, "schedule": "step", "drop_epochs": (1, 2)},
}


@pytest.mark.parametrize("name", HARD)
def test_stopped_at_any_batch_and_resumed_gives_the_same_weights(name):
    data = per_step_series()
    train, valid = data[:18], data[18:]
    spec = ModelSpec.for_data(train, "mmrnn", hidden_size=4, num_layers=2, dropout=0.3)
    settings = Settings(epochs=3, batch_size=4, learning_rate=0.02, metric="loss", **HARD[name])
    whole = fit(train, spec, settings, valid=valid)
    assert len(whole.history) == 3
    batches = 11 if name == "steps" else 15
    for after in (1, 4, 5, 8, batches - 1, batches):  # 5, 10 and 15 are the last of an epoch
        store = Memory()
        with pytest.raises(Killed):
            fit(train, spec, settings, valid=valid, store=store, on_event=killer(after), save_minutes=0)
        resumed = fit(train, spec, settings, valid=valid, store=store, resume=True)
        assert equal(whole, resumed), after
        assert [(e.loss, e.valid_loss, e.rate) for e in whole.history] == [
            (e.loss, e.valid_loss, e.rate) for e in resumed.history
        ]
        assert (whole.best_epoch, whole.stopped) == (resumed.best_epoch, resumed.stopped)


def test_the_last_state_has_the_same_tensors_not_only_the_best_weights():
    data = per_step_series()
    spec = ModelSpec.for_data(data, "lstm", hidden_size=5, dropout=0.2)
    settings = Settings(epochs=2, batch_size=4, average="ema")
    whole, resumed = Memory(), Memory()
    fit(data, spec, settings, store=whole)
    with pytest.raises(Killed):
        fit(data, spec, settings, store=resumed, on_event=killer(7), save_minutes=0)
    fit(data, spec, settings, store=resumed, resume=True)
    (one, _), (other, _) = whole.latest(), resumed.latest()
    assert one.keys() == other.keys()
    assert any(name.startswith("optimizer.0.exp_avg") for name in one)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_that_fell_back_to_an_older_state_repeats_what_followed():
    data = bitstream(64, seed=0, longest=6)
    spec = ModelSpec.for_data(data, "mmrnn", hidden_size=4)
    settings = Settings(epochs=2, batch_size=8)
    whole, store = fit(data, spec, settings), Memory()
    with pytest.raises(Killed):
        fit(data, spec, settings, store=store, on_event=killer(11), save_minutes=0)
    del store.saved[3:]
    assert equal(whole, fit(data, spec, settings, store=store, resume=True))


def test_a_finished_run_is_not_trained_again_unless_it_may_continue():
    data = bitstream(64, seed=0, longest=6)
    spec = ModelSpec.for_data(data, "mmrnn", hidden_size=4)
    store, events = Memory(), []
    done = fit(data, spec, Settings(epochs=2, batch_size=16), store=store)
    again = fit(data, spec, Settings(epochs=2, batch_size=16), store=store, resume=True, on_event=events.append)
    assert equal(done, again)
    assert all(isinstance(event, Note) for event in events)  # about the data and the settings: nothing was trained
    longer = fit(data, spec, Settings(epochs=3, batch_size=16), store=store, resume=True)
    assert [e.number for e in longer.history] == [1, 2, 3]
    assert equal(longer, fit(data, spec, Settings(epochs=3, batch_size=16)))


def test_another_run_is_not_resumed():
    data = bitstream(64, seed=0, longest=6)
    spec, store = ModelSpec.for_data(data, "mmrnn", hidden_size=4), Memory()
    fit(data, spec, Settings(epochs=1, batch_size=16), store=store)
    with pytest.raises(ValueError, match="batch_size: saved 16, now 8"):
        fit(data, spec, Settings(epochs=1, batch_size=8), store=store, resume=True)
    other = ModelSpec.for_data(data, "mmrnn", hidden_size=5)
    with pytest.raises(ValueError, match="model hidden_size: saved 4, now 5"):
        fit(data, other, Settings(epochs=1, batch_size=16), store=store, resume=True)
    with pytest.raises(ValueError, match="needs store"):
        fit(data, spec, resume=True)


@pytest.mark.parametrize("name", ["refit", "average", "model static", "model known", "model relative"])
def test_a_state_saved_before_a_setting_existed_resumes(name):
    data, store = per_step_series(), Memory()
    spec = ModelSpec.for_data(data, "gru", 4)
    fit(data, spec, Settings(epochs=1), valid=data, store=store)
    tensors, facts = store.latest()
    del facts["about"][name]
    store.save(tensors, facts)
    assert len(fit(data, spec, Settings(epochs=2), valid=data, store=store, resume=True).history) == 2


def test_resume_with_an_empty_store_starts_from_the_beginning():
    data = bitstream(64, seed=0, longest=6)
    spec = ModelSpec.for_data(data, "mmrnn", hidden_size=4)
    assert equal(fit(data, spec, Settings(epochs=1)), fit(data, spec, Settings(epochs=1), store=Memory(), resume=True))


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, KeyboardInterrupt])
def test_ctrl_c_ends_cleanly_and_can_resume(by):
    data = bitstream(64, seed=0, longest=6)
    spec, settings = ModelSpec.for_data(data, "mmrnn", hidden_size=4), Settings(epochs=3, batch_size=8)
    store, seen = Memory(), []

    def interrupt(event):
        seen.append(event)
        if isinstance(event, BatchDone) and event.step == 9:
            if by is KeyboardInterrupt:
                raise by
            os.kill(os.getpid(), by)

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    part = fit(data, spec, settings, store=store, on_event=interrupt)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert part.stopped == "interrupted"
    assert len(part.history) == 1
    assert [e.step for e in seen if isinstance(e, BatchDone)][-1] == 9
    assert store.latest()[1]["step"] == 9
    assert equal(fit(data, spec, settings, store=store, resume=True), fit(data, spec, settings))


@pytest.mark.parametrize("raised", [SystemExit, Killed])
def test_what_an_event_raises_reaches_the_caller(raised):
    def leave(event):
        raise raised

    with pytest.raises(raised):
        fit(bitstream(32, seed=0, longest=6), settings=Settings(epochs=1), on_event=leave)


def test_fit_works_outside_the_main_thread():
    data = bitstream(32, seed=0, longest=6)
    found = []
    spec = ModelSpec.for_data(data, "mmrnn", hidden_size=4)
    thread = threading.Thread(target=lambda: found.append(fit(data, spec, Settings(epochs=1))))
    thread.start()
    thread.join()
    assert equal(found[0], fit(data, spec, Settings(epochs=1)))


SCRIPT = """
import sys, torch
torch.set_num_threads(1)
from chronode.model._spec import ModelSpec
from chronode.lab.tasks.bitstream import bitstream
from chronode.training import BatchDone, Settings, fit
from chronode.runs._checkpoints import Store
data = bitstream(600, seed=0, longest=10)
spec = ModelSpec.for_data(data, "mmrnn", hidden_size=8, dropout=0.2)
store = Store(sys.argv[1])
tell = lambda event: print("batch", event.step, flush=True) if isinstance(event, BatchDone) else None
settings = Settings(epochs=6, batch_size=16)
fitted = fit(data, spec, settings, store=store, resume=True, save_minutes=0.0002, on_event=tell)
fitted.model.save(sys.argv[2])
"""


@pytest.mark.slow
def test_kill_minus_9_at_random_moments_changes_nothing(tmp_path):
    def start(folder, result):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / folder), str(tmp_path / result)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    whole = start("whole", "whole.safetensors")
    whole.communicate()
    assert whole.returncode == 0
    rng, kills = np.random.default_rng(0), 0
    for _ in range(20):
        part = start("killed", "killed.safetensors")
        part.stdout.readline()  # imports are done
        time.sleep(float(rng.uniform(0, 0.4)))
        part.send_signal(signal.SIGKILL)
        if part.wait() == 0:
            break
        kills += 1
        if kills == 3:
            part = start("killed", "killed.safetensors")
            part.communicate()
            assert part.returncode == 0
            break
    assert kills
    assert (tmp_path / "whole.safetensors").read_bytes() == (tmp_path / "killed.safetensors").read_bytes()
