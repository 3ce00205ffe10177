"""Searches: judged by validation, stopped and gone on with, given up early, refused before anything is tried."""

import json
import math
import time
from dataclasses import replace

import optuna
import pytest
import torch
from searches import RANGES, search_in

from chronode.runs import load
from chronode.search import _trials
from chronode.search._ranges import Between, OneOf, applied
from chronode.training import fit
from chronode.training._assembly import spec_for


def test_trials_are_judged_by_validation_and_the_best_is_tested_once(tmp_path, monkeypatch):
    search = search_in(tmp_path)
    whole = search.prepared
    unknown = replace(whole.parts.test, target=None)  # scoring on it fails
    without = replace(whole, parts=replace(whole.parts, test=unknown))
    with monkeypatch.context() as patched:
        patched.setattr(_trials, "prepared_for", lambda config: without)
        assert search.run(3) == "trials"
    trials = search.trials()
    assert [trial.number for trial in trials] == [0, 1, 2]
    for trial in trials:
        config = applied(search.config, trial.settings)
        model = {"num_layers": trial.settings["num_layers"], "alpha": trial.settings["alpha"]}
        spec = spec_for(whole.parts, "unicornn", hidden_size=4, **model)
        fitted = fit(whole.parts, spec, config.training, objective=whole.objective)
        assert trial.value == max(epoch.metrics["accuracy"] for epoch in fitted.history)
        assert 1e-3 <= trial.settings["learning_rate"] <= 1e-1
    best = search.best()
    assert best.value == max(trial.value for trial in trials if trial.value is not None)
    outcome = search.train_best()
    assert outcome.summary["valid"]["accuracy"] == best.value
    assert set(outcome.summary["test"]) == {"loss", "accuracy"}
    epochs = []
    assert search.train_best(on_event=epochs.append).summary == outcome.summary
    assert not epochs


def test_the_best_trials_together_have_the_mean_of_their_outputs(tmp_path):
    search = search_in(tmp_path, epochs=1)
    search.run(3)
    first, second = search.best_trials(2)
    assert first.value >= second.value and first.settings != second.settings
    with pytest.raises(ValueError, match="there are 3: search more trials"):
        search.train_best(4)
    together = search.train_best(2)
    each = [load(tmp_path / f"best-{trial.number}") for trial in (first, second)]
    batch = search.prepared.parts.test.batch()
    with torch.no_grad():
        outputs = [trained.model(batch.x, **batch.inputs) for trained in (load(together.run.path), *each)]
    torch.testing.assert_close(outputs[0], (outputs[1] + outputs[2]) / 2)
    assert together.run.path.name == f"ensemble-{first.number}-{second.number}"
    assert search.train_best(2).summary["test"] == together.summary["test"]


def test_a_search_that_was_stopped_draws_what_it_would_have_drawn(tmp_path):
    at_once, stopped = tmp_path / "at_once", tmp_path / "stopped"
    search_in(at_once, epochs=1).run(4)
    search_in(stopped, epochs=1).run(2)
    again = search_in(stopped, epochs=1)
    again.run(4)
    found = [(trial.value, trial.settings) for trial in again.trials()]
    assert found == [(trial.value, trial.settings) for trial in search_in(at_once, epochs=1).trials()]
    assert len({json.dumps(settings) for _, settings in found}) == 4
    assert again.run(4) == "trials"
    assert len(again.trials()) == 4
    assert search_in(tmp_path / "other", epochs=1, seed=1).run(1) == "trials"


def test_ctrl_c_fails_the_trial_and_the_search_continues(tmp_path):
    search = search_in(tmp_path, epochs=1)
    search.run(1)

    def stop(trial, event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.run(3, on_event=stop)
    assert [trial.state for trial in search.trials()] == ["complete", "fail"]
    assert search.run(2) == "trials"
    assert [trial.state for trial in search.trials()] == ["complete", "fail", "complete"]
    assert not list(tmp_path.glob("worker-*"))


def test_a_trial_of_a_process_that_is_gone_does_not_count(tmp_path):
    search = search_in(tmp_path, epochs=1)
    search.study.ask()
    killed = search.study.ask()
    killed.set_user_attr("worker", "gone")
    assert search.shared()
    search.run(1)
    assert [trial.state for trial in search.trials()] == ["fail", "fail", "complete"]
    assert not search.shared()


def test_bad_trials_are_given_up_after_an_epoch(tmp_path):
    search = search_in(tmp_path, epochs=3)
    search.study.pruner = optuna.pruners.ThresholdPruner(lower=2.0)  # no accuracy is
    found = []
    search.run(2, on_trial=found.append)
    assert [trial.state for trial in found] == ["running", "pruned", "running", "pruned"]
    assert [trial.epochs for trial in search.trials()] == [1, 1]
    assert search.best() is None
    with pytest.raises(ValueError, match="no trial is complete"):
        search.train_best()


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_the_pruners_stop_a_trial_that_falls_behind(tmp_path, pruner):
    search = search_in(tmp_path, pruner=pruner, epochs=4)
    for _ in range(6):
        good = search.study.ask()
        for step in range(1, 5):
            good.report(0.9, step)
            good.should_prune()
        search.study.tell(good, 0.9)
    search.run(8)
    assert any(trial.state == "pruned" and trial.epochs < 4 for trial in search.trials()[6:])


def test_a_loss_that_is_not_finite_is_reported_and_the_search_continues(tmp_path):
    search = search_in(tmp_path, {"delta_t": OneOf((1e30,))}, epochs=1)
    search.run(2)
    assert [trial.state for trial in search.trials()] == ["pruned", "pruned"]
    assert all("not finite" in trial.fault for trial in search.trials())


def test_a_metric_that_is_better_lower_is_minimized(tmp_path):
    search = search_in(tmp_path, metric="loss", epochs=1)
    search.run(3)
    assert search.best().value == min(trial.value for trial in search.trials() if trial.value is not None)
    assert search.study.best_value == search.best().value


def test_no_trial_begins_after_the_timeout(tmp_path):
    search = search_in(tmp_path, epochs=1)
    assert search.run(5, timeout=0) == "timeout"
    assert not search.trials()
    begun = time.monotonic()
    assert search.run(500, timeout=1) == "timeout"
    assert time.monotonic() - begun < 300
    assert search.trials()


def test_a_search_from_before_a_setting_existed_can_be_opened(tmp_path):
    search_in(tmp_path, epochs=1)
    stored = json.loads((tmp_path / "search.json").read_text())
    del stored["data"]["gaps"], stored["training"]["refit"]
    (tmp_path / "search.json").write_text(json.dumps(stored))
    assert not search_in(tmp_path, epochs=1).trials()


@pytest.mark.parametrize(
    ("ranges", "training", "message"),
    [
        (RANGES, {"epochs": 3}, "a different search .*training epochs: 2 in the folder, 3 now"),
        ({"alpha": Between(0.0, 5.0)}, {}, "ranges learning_rate: '0.001:0.1:log' in the folder, None now"),
        ({"delta_t": Between(-1.0, 1.0)}, {}, "the range delta_t=-1:1: delta_t must be greater than 0"),
        ({"nothing": OneOf((1,))}, {}, "has no setting 'nothing'"),
        ({}, {}, "nothing to search"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_tried(tmp_path, ranges, training, message):
    search_in(tmp_path)
    with pytest.raises(ValueError, match=message):
        search_in(tmp_path, ranges, **training)
    assert not search_in(tmp_path).trials()


def test_importances_find_the_setting_that_matters(tmp_path):
    search = search_in(tmp_path)
    assert search.importances() == {}
    space = {
        "learning_rate": optuna.distributions.FloatDistribution(1e-3, 1e-1, log=True),
        "alpha": optuna.distributions.FloatDistribution(0.0, 5.0),
    }
    for n in range(16):
        rate, alpha = 10 ** (-3 + 2 * (n % 8) / 7), n % 5
        options = {"params": {"learning_rate": rate, "alpha": float(alpha)}, "distributions": space}
        search.study.add_trial(optuna.trial.create_trial(value=math.log10(rate), **options))
    found = search.importances()
    assert found["learning_rate"] > 10 * found["alpha"]
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize("name", ["sw?x", "sw%41", "sw{x}", "sw#x", "sw x&y=1"])
def test_the_study_is_a_file_in_the_folder_whatever_its_name(name, tmp_path):
    folder = tmp_path / name
    search_in(folder, epochs=1).run(1)
    assert (folder / "study.db").read_bytes().startswith(b"SQLite format 3")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(search_in(folder, epochs=1).trials()) == 1
