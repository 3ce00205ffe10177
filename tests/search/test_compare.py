import csv
import json

import numpy as np
import pytest

from chronode.runs._config import Config
from chronode.runs._prepare import prepare
from chronode.search._compare import compare, plan
from chronode.search._scores import Comparison, RunResult
from chronode.training import EpochDone, fit
from chronode.training._assembly import spec_for

ASKED = {
    "data": {"source": "bitstream", "options": {"train": 64, "valid": 32, "test": 32}},
    "model": {"model": "mmrnn", "hidden": 4},
    "training": {"epochs": 2, "batch_size": 32, "learning_rate": 0.02},
}
NOT_FINITE = {"model": {"settings": {"unicornn.delta_t": 1e30}}}


def asked(options=None, **training):
    return Config.from_dict(ASKED).with_values({"training": training, **(options or {})})


def results(entries, **options):
    return list(compare(entries, **options))


def made_up(model, scores, metric="accuracy", **options):
    return [RunResult(model, seed, "", metric, {metric: score}, **options) for seed, score in enumerate(scores)]


# ---- numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("metric", "best"), [("accuracy", "high"), ("rmse", "low"), ("loss", "low"), ("r2", "high")])
def test_models_are_ordered_by_their_mean_and_the_spread_is_that_of_a_sample(metric, best):
    scores = {"low": [0.1, 0.4, 0.2], "high": [0.9, 0.3, 0.7]}
    comparison = Comparison.of([one for model, own in scores.items() for one in made_up(model, own, metric)])
    assert comparison.rows[0].model == best
    for row in comparison.rows:
        assert row.score(metric) == pytest.approx((np.mean(scores[row.model]), np.std(scores[row.model], ddof=1)))


@pytest.mark.parametrize(("metric", "best"), [("accuracy", ("linear", 0.85)), ("rmse", ("majority", 0.5))])
def test_the_best_baseline_is_shown_by_its_mean_over_the_seeds(metric, best):
    simple = [
        {"majority": {metric: 0.4}, "linear": {metric: 0.8}},
        {"majority": {metric: 0.6}, "linear": {metric: 0.9}},
    ]
    results = [RunResult("a", seed, "", metric, {metric: 0.7}, baselines=own) for seed, own in enumerate(simple)]
    name, value = Comparison.of(results).baseline
    assert (name, pytest.approx(value)) == best


def test_one_run_has_no_spread_and_a_model_without_a_result_comes_last():
    failed = RunResult("a", 0, "", fault="the loss is not finite")
    comparison = Comparison.of([failed, *made_up("b", [0.2])])
    assert [row.model for row in comparison.rows] == ["b", "a"]
    assert comparison.rows[0].score("accuracy") == (0.2, None)
    assert comparison.rows[1].score("accuracy") == (None, None)
    assert comparison.failed == [failed]
    assert json.loads(json.dumps(comparison.as_dict()))["models"][1]["runs"][0]["fault"] == "the loss is not finite"


# ---- runs ----------------------------------------------------------------------------------------------------


def test_scores_are_those_of_fit_and_all_models_of_a_seed_see_the_same_series(tmp_path):
    found = results(plan(asked(), ["gru", "unicornn"], 2, tmp_path))
    assert [(one.model, one.seed) for one in found] == [("gru", 0), ("unicornn", 0), ("gru", 1), ("unicornn", 1)]
    for one in found:
        config = asked(seed=one.seed)
        prepared = prepare(config)
        spec = spec_for(prepared.parts, one.model, hidden_size=4)
        fitted = fit(prepared.parts, spec, config.training, objective=prepared.objective)
        assert one.test == pytest.approx(fitted.evaluate(prepared.parts.test))
        assert one.curve == pytest.approx([epoch.metrics["accuracy"] for epoch in fitted.history])
        assert one.parameters == sum(p.numel() for p in fitted.model.parameters())
        assert 0 < one.seconds < 60
    truths = [_truth(one.run) for one in found]
    assert truths[0] == truths[1] != truths[2] == truths[3]
    (row,) = [row for row in Comparison.of(found).rows if row.model == "gru"]
    accuracies = [one.test["accuracy"] for one in found if one.model == "gru"]
    assert row.score("accuracy") == pytest.approx((np.mean(accuracies), np.std(accuracies, ddof=1)))


def _truth(run):
    with open(f"{run}/predictions.csv") as file:
        return [row["true_parity"] for row in csv.DictReader(file)]


def test_what_is_finished_is_kept_and_only_missing_runs_are_trained(tmp_path):
    started = []
    first = results(plan(asked(), ["gru"], 1, tmp_path), on_start=started.append)
    more = results(plan(asked(threads=1), ["gru", "rnn"], 2, tmp_path), on_start=started.append)
    assert [(entry.model, entry.seed) for entry in started] == [("gru", 0), ("rnn", 0), ("gru", 1), ("rnn", 1)]
    assert more[0] == first[0]
    assert results(plan(asked(), ["rnn", "gru"], 2, tmp_path), on_start=started.append)[1] == first[0]
    assert len(started) == 4
    results(plan(asked(epochs=1), ["gru"], 1, tmp_path), on_start=started.append)
    assert len(started) == 5


def test_an_interrupted_comparison_resumes_to_the_same_scores(tmp_path):
    def stop(planned, event):
        if isinstance(event, EpochDone) and event.epoch.number == 1:
            raise KeyboardInterrupt

    entries = plan(asked(epochs=3), ["gru", "rnn"], 1, tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        results(entries, on_event=stop)
    seen = []
    found = results(entries, on_event=lambda _, event: isinstance(event, EpochDone) and seen.append(event.epoch.number))
    assert seen == [2, 3, 1, 2, 3]
    whole = results(plan(asked(epochs=3), ["gru", "rnn"], 1, tmp_path / "whole"))
    assert [one.test for one in found] == [one.test for one in whole]


def test_a_model_that_fails_is_reported_and_the_others_continue(tmp_path):
    entries = plan(asked(NOT_FINITE), ["unicornn", "gru"], 1, tmp_path)
    failed, fine = results(entries)
    assert "not finite" in failed.fault
    assert failed.metric == "accuracy"
    assert not failed.test
    assert not fine.fault
    assert [row.model for row in Comparison.of([failed, fine]).rows] == ["gru", "unicornn"]
    started = []
    assert results(entries, on_start=started.append) == [failed, fine]
    assert not started  # the same settings would fail again


def test_a_changed_file_is_trained_on_again_and_a_moved_one_is_not(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{n},{t},{rng.normal():.3f},{n % 2}" for n in range(12) for t in range(3)]
    options = {"data": {"target": "y", "id": "id", "time": "t"}, "model": {"hidden": 2}, "training": {"epochs": 1}}

    def folders(name, lines):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(["id,t,x,y", *lines]) + "\n")
        config = Config.from_dict(options).with_values({"data": {"source": str(path)}})
        entries = plan(config, ["rnn"], 1, tmp_path / "runs")
        (result,) = results(entries)
        assert not result.fault
        return entries[0].folder

    first = folders("one/a.csv", rows)
    assert folders("two/a.csv", rows) == first
    assert folders("one/a.csv", [*rows, "12,0,0.5,1"]) != first


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (["gru", "ltcc"], {}, "Did you mean 'ltc'"),
        ([], {}, "models is empty"),
        (["gru"], {"model": {"settings": {"lstm.x": 1}}}, "lstm, which is not compared"),
        (["gru", "unicornn"], {"model": {"settings": {"unicornn.delta": 1}}}, "unicornn: .*Did you mean 'delta_t'"),
        (["gru", "unicornn"], {"model": {"settings": {"alpha": 1}}}, "gru: .*alpha"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_trained(tmp_path, models, options, message):
    folder = tmp_path / "runs"
    with pytest.raises(ValueError, match=message):
        results(plan(asked(options), models, 1, folder))
    assert not folder.exists()


def test_a_setting_may_be_one_models_alone(tmp_path):
    options = {"model": {"settings": {"dropout": 0.1, "unicornn.alpha": 2.0, "unicornn.dropout": 0.3}}}
    gru, unicornn = plan(asked(options), ["gru", "unicornn"], 1, tmp_path)
    assert gru.config.model.settings == {"dropout": 0.1}
    assert unicornn.config.model.settings == {"dropout": 0.3, "alpha": 2.0}
