"""Reproduce, compare, sweep and backtest on a cluster, whose machine is lost while it works for them."""

import math

import numpy as np
import pytest
from searches import ASKED, backtest_with, search_in

from chronode.lab.experiments.jobs import make_runs, missing
from chronode.lab.experiments.ledger import Ledger
from chronode.lab.experiments.recipe import find_recipe
from chronode.runs import Config, load, series_of
from chronode.search import Comparison, compare, plan
from chronode.search.engine import Engine
from chronode.training import BatchDone, EpochDone, Note

RAY = Engine("ray")


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    # Ray's workers give way to all other processes by default: on a busy machine they would hardly run.
    patched = pytest.MonkeyPatch()
    patched.setenv("RAY_worker_niceness", "0")

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    patched.undo()


@pytest.fixture
def lose_the_worker(cluster):
    """When it is first called, all work is done on one machine: it is lost, and another one takes its place."""
    calls = []

    def lose(*about):
        if not calls:
            calls.append(about)
            (working,) = cluster.worker_nodes
            cluster.add_node(num_cpus=1)
            cluster.remove_node(working, allow_graceful=False)

    yield lose
    assert calls


@pytest.mark.slow  # each starts several new workers, which import torch
def test_reproduce_loses_no_run_and_doubles_none(lose_the_worker, tmp_path):
    ledger = Ledger(tmp_path)
    cells = [cell for cell in find_recipe("mmrnn/table3").cells("smoke") if cell.model in ("mmrnn", "gru-d")]
    jobs = missing(cells, ledger)
    finished = list(make_runs(jobs, ledger, RAY, on_progress=lose_the_worker))
    assert all(item.entry for item in finished), [item.fault for item in finished]
    assert sorted(entry.config_hash for entry in ledger.entries()) == sorted(job.hash for job in jobs)
    assert len((tmp_path / "mmrnn-table3.jsonl").read_text().splitlines()) == len(jobs) == 4
    assert not missing(cells, ledger)


@pytest.mark.slow  # each starts several new workers, which import torch
def test_compare_has_the_results_of_one_process_and_whole_run_folders(lose_the_worker, tmp_path):
    config = Config.from_dict({**ASKED, "model": {"hidden": 4}})
    there, here = (plan(config, ["gru", "rnn"], 1, tmp_path / place) for place in ("there", "here"))
    found = {result.model: result for result in compare(there, engine=RAY, on_event=lose_the_worker)}
    for result in compare(here):
        assert found[result.model].test == result.test
        assert found[result.model].curve == result.curve
    assert not Comparison.of(list(found.values())).failed
    for planned in there:
        trained = load(planned.folder)
        assert trained.evaluate(series_of(trained, labeled=True)) == found[planned.model].test
    assert len(list(compare(there, engine=RAY, on_start=pytest.fail))) == 2  # nothing is trained again


@pytest.mark.slow  # it waits for new workers, too
def test_sweep_asks_for_trials_as_workers_become_free(lose_the_worker, tmp_path):
    search, epochs = search_in(tmp_path), []

    def listen(trial, event):
        lose_the_worker()
        if isinstance(event, EpochDone):
            epochs.append((trial, event.epoch.number))

    assert search.run(3, engine=RAY, on_event=listen) == "trials"
    trials = search.trials()
    assert [trial.number for trial in trials] == [0, 1, 2]
    assert {trial.state for trial in trials} <= {"complete", "pruned"}
    assert trials[0].state == "complete"
    assert math.isfinite(search.best().value)
    assert {number for number, _ in epochs} == {0, 1, 2}
    one = search_in(tmp_path / "here")
    one.run(3)
    assert [trial.settings for trial in one.trials()] == [trial.settings for trial in trials]


def test_backtest_has_the_forecasts_of_one_process(lose_the_worker, tmp_path):
    found, ended = backtest_with(lose_the_worker, engine=RAY, folder=tmp_path)
    here, _ = backtest_with(lambda *about: None)
    np.testing.assert_allclose(found.forecasts["model"], here.forecasts["model"], rtol=1e-5)
    assert sorted(ended) == ["origin 1 of 2: trained", "origin 2 of 2: trained"]
    assert len(list(tmp_path.glob("origin-*.json"))) == 2


def test_a_fault_is_reported_and_the_others_continue(cluster, tmp_path):
    cells = find_recipe("mmrnn/table3").cells("smoke")
    jobs = missing([cell for cell in cells if cell.model == "mmrnn"], Ledger(tmp_path))
    jobs[0].cell.config["training"]["learning_rate"] = -1.0
    faults = {str(item.job): item.fault for item in make_runs(jobs, Ledger(tmp_path), RAY)}
    assert "learning_rate must be greater than 0" in faults.pop(str(jobs[0]))
    assert list(faults.values()) == [""]


@pytest.mark.slow  # it starts new workers, too
def test_chunks_are_scored_while_a_machine_and_the_mailbox_are_lost(cluster, lose_the_worker, tmp_path, monkeypatch):
    import pyarrow.parquet as pq
    import ray

    from chronode.data import pack
    from chronode.runs import train_run
    from chronode.search import score_in_chunks
    from chronode.search.engine import _ray

    monkeypatch.chdir(tmp_path)
    rows = [f"p{i % 30},{i // 30},{i % 7},{'yes' if i % 30 > 14 else 'no'}" for i in range(150)]
    (tmp_path / "a.csv").write_text("who,t,x,ill\n" + "\n".join(rows) + "\n")
    data = {"source": "a.csv", "target": ["ill"], "id": "who", "time": "t"}
    model = {"model": "gru", "hidden_size": 4}
    train_run(Config.from_dict({"data": data, "model": model, "training": {"epochs": 1}}), tmp_path / "run")
    store = pack("a.csv", tmp_path / "a.series", id="who", time="t", ignore=["ill"])
    pools = []
    opened = _ray.RayTasks.__init__
    monkeypatch.setattr(
        _ray.RayTasks, "__init__", lambda pool, *given, **more: (pools.append(pool), opened(pool, *given, **more))[1]
    )

    def lose(*about):
        lose_the_worker()
        ray.kill(pools[0].mailbox, no_restart=False)

    found = score_in_chunks(tmp_path / "run", store, tmp_path / "out", rows=30, engine=RAY, on_progress=lose)
    ids = pq.read_table(tmp_path / "out")["who"].to_pylist()
    assert found.chunks == 5 and sorted(ids) == sorted(f"p{i}" for i in range(30))


@pytest.mark.slow  # it starts new workers, too
def test_training_together_continues_after_a_machine_is_lost(cluster, tmp_path, monkeypatch):
    """Two processes, of which one is on another machine that is lost in the second epoch: the losses of one process."""
    from chronode.runs import train_run
    from chronode.search.engine import RayHelpers

    monkeypatch.chdir(tmp_path)
    rows = [f"p{i % 30},{i // 30},{i % 7},{'yes' if i % 30 > 14 else 'no'}" for i in range(150)]
    (tmp_path / "a.csv").write_text("who,t,x,ill\n" + "\n".join(rows) + "\n")
    data = {"source": "a.csv", "target": ["ill"], "id": "who", "time": "t"}
    model = {"model": "gru", "hidden_size": 4, "start": "none"}
    notes, losses = [], {}

    def lose(event):
        if isinstance(event, Note):
            notes.append(event.text)
        if isinstance(event, BatchDone) and event.epoch == 2 and not any("checkpoint" in note for note in notes):
            (working,) = cluster.worker_nodes
            cluster.add_node(num_cpus=1)
            cluster.remove_node(working, allow_graceful=False)

    for devices in (2, 1):
        training = {"epochs": 3, "batch_size": 7, "devices": devices}
        config = Config.from_dict({"data": data, "model": model, "training": training})
        hooks = {"helpers": RayHelpers(), "on_event": lose} if devices == 2 else {}
        run = train_run(config, tmp_path / str(devices), **hooks).run
        losses[devices] = [row["loss"] for row in run.metrics()]
    assert losses[2] == pytest.approx(losses[1], rel=1e-5) and len(losses[1]) == 3
    assert sum("last checkpoint" in note for note in notes) == 1
