"""Compare, sweep and backtest in processes of this machine, one of which is killed while it works for them."""

import multiprocessing
import os
import signal

import numpy as np
import pytest
from searches import ASKED, backtest_with, search_in

from chronode.runs import Config
from chronode.search import compare, plan
from chronode.search._trials import TrialJob
from chronode.search.engine import Done, Engine
from chronode.training import EpochDone


@pytest.fixture
def kill_a_worker():
    """When it is first called, one of the workers is killed."""
    killed = []

    def kill(*about):
        if not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    yield kill
    assert killed


def test_compare_has_the_results_of_one_process(kill_a_worker, tmp_path):
    config = Config.from_dict({**ASKED, "model": {"hidden": 4}})
    there, here = (plan(config, ["gru", "rnn"], 1, tmp_path / place) for place in ("there", "here"))
    found = {result.model: result for result in compare(there, engine=Engine(workers=2), on_event=kill_a_worker)}
    for result in compare(here):
        assert found[result.model].test == result.test
        assert found[result.model].curve == result.curve
    assert list(compare(there, on_start=pytest.fail)) == [found[planned.model] for planned in there]


def test_sweep_tries_what_one_process_tries(kill_a_worker, tmp_path):
    search, judged = search_in(tmp_path / "there"), []

    def listen(trial, event):
        if isinstance(event, EpochDone):
            kill_a_worker()
            judged.append((trial, event.epoch.number))

    assert search.run(3, engine=Engine(workers=1), on_event=listen) == "trials"
    alone = search_in(tmp_path / "here")
    alone.run(3)
    found = [(trial.number, trial.state, trial.value, trial.settings, trial.epochs) for trial in search.trials()]
    assert found == [(trial.number, trial.state, trial.value, trial.settings, trial.epochs) for trial in alone.trials()]
    assert judged.count((0, 1)) >= 1


def test_a_trial_whose_workers_are_lost_again_and_again_counts_as_bad(tmp_path):
    search = search_in(tmp_path, epochs=1)
    job = TrialJob(0, search.config, search.metric)
    search._settle(search.study.ask(), Done(job, "lost", fault="its process ended with code -9"))
    (trial,) = search.trials()
    assert (trial.state, trial.fault) == ("pruned", "its process ended with code -9")
    assert search.run(1) == "trials"
    assert len(search.trials()) == 1


@pytest.mark.slow  # tests/search/engine/test_ray.py does the same with other workers
def test_backtest_has_the_forecasts_of_one_process(kill_a_worker, tmp_path):
    found, ended = backtest_with(kill_a_worker, engine=Engine(workers=1), folder=tmp_path)
    here, _ = backtest_with(lambda *about: None)
    np.testing.assert_allclose(found.forecasts["model"], here.forecasts["model"], rtol=1e-5)
    assert sorted(ended) == ["origin 1 of 2: trained", "origin 2 of 2: trained"]
    _, again = backtest_with(pytest.fail, folder=tmp_path)  # nothing is trained again
    assert again == [f"origin {number} of 2: already in {tmp_path}" for number in (1, 2)]
