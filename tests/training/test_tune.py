import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronode
from chronode.report.sweep import plot_search
from chronode.training import EpochDone, fit
from chronode.training.config import Config
from chronode.training.inputs import spec_for
from chronode.training.ranges import PAPERS, Between, OneOf, applied, ranges_for, read_fixed, read_range
from chronode.training.study import Trial
from chronode.training.tune import Search

ASKED = {
    "data": {"source": "bitstream", "options": {"train": 64, "valid": 32, "test": 32}},
    "model": {"model": "unicornn", "hidden": 4},
    "training": {"epochs": 2, "batch_size": 32},
}
RANGES = {"learning_rate": Between(1e-3, 1e-1, log=True), "layers": OneOf((1, 2)), "alpha": Between(0.0, 5.0)}


def search_in(folder, ranges=RANGES, **training):
    return Search(Config.from_dict(ASKED).with_values({"training": training}), ranges, folder)


# ---- ranges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [m.name for m in chronode.models().values() if m.cell.__module__.startswith("chron")])
def test_every_end_of_a_models_ranges_builds_it(name):
    for setting, told in ranges_for(name).items():
        for value in told.ends:
            config = applied(Config.from_dict({"model": {"model": name, "hidden": 4}}), {setting: value})
            assert config != Config.from_dict({"model": {"model": name, "hidden": 4}}) or value in (64, 32, "adam", 1)
            chronode.create(name, 2, config.model.hidden, config.model.layers, **config.model.settings)


def test_unicornns_ranges_hold_all_winners_of_its_papers_search():
    winners = [  # Table 6: learning rate, dropout, batch size, Δt, α
        (3.14e-2, 0.1, 30, 0.126, 13.0),
        (1.14e-3, 0.1, 64, 0.482, 12.53),
        (2.51e-3, 0.1, 32, 0.19, 30.65),
        (1.67e-4, 0.61, 32, 0.205, 0.0),
        (8.59e-3, 0.0, 8, 3.43e-2, 0.0),
        (3.98e-3, 0.1, 32, 1.1e-2, 9.0),
        (2.88e-3, 0.1, 32, 4.6e-2, 10.0),
    ]
    ranges = ranges_for("unicornn")
    for name, values in zip(
        ("learning_rate", "dropout", "batch_size", "delta_t", "alpha"), zip(*winners, strict=True), strict=True
    ):
        low, *_, high = sorted(ranges[name].ends)
        assert low <= min(values) <= max(values) <= high, name


def test_papers_are_those_of_the_five():
    assert set(PAPERS) == {"unicornn", "mmrnn", "ltc", "irnn", "sirnn", "ernn"}


def test_the_page_tells_what_is_searched_and_its_example_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for name, space in PAPERS.items():
        (row,) = [row for row in rows if f"`{name}`" in row]
        assert all(f"`{setting}`" in row for setting in space.ranges)
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
    assert "Trial(number=" in capsys.readouterr().out


@given(st.floats(1e-6, 1e3), st.floats(1.001, 1e3), st.booleans())
def test_a_range_reads_back_what_was_written(low, factor, log):
    high = low * factor
    ending = ":log" if log else ""
    assert read_range(f"alpha={low!r}:{high!r}{ending}", "unicornn") == ("alpha", Between(low, high, log))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("alpha=0:30", Between(0.0, 30.0)),
        ("K=1:5", Between(1, 5)),
        ("hidden=16,32", OneOf((16, 32))),
        ("learning_rate=1e-3", OneOf((0.001,))),
        ("optimizer=adam, sgd", OneOf(("adam", "sgd"))),
        ("bidirectional=true,False", OneOf((True, False))),
        ("rank=2,null", OneOf((2, None))),
    ],
)
def test_values_have_the_kind_of_the_setting(text, told):
    name, found = read_range(text, "unicornn" if text.startswith("alpha") else "irnn")
    assert (name, found) == (text.partition("=")[0], told)
    assert [type(value) for value in found.ends] == [type(value) for value in told.ends]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delta_t", "must be NAME="),
        ("delta_t=", "must be NAME="),
        ("delta=1:2", "Did you mean 'delta_t'"),
        ("delta_t=2:1", "from a smaller to a larger"),
        ("delta_t=0:1:log", "begins above 0"),
        ("delta_t=1:2:3", "LOW:HIGH"),
        ("delta_t=a:2", "'a' is no number"),
        ("hidden=1.5,2", "'1.5' is no whole number"),
        ("optimizer=a:b", "LOW:HIGH"),
        ("train_c=1,2", "neither true nor false"),
        ("epochs=1:5", "give it as --epochs"),
    ],
)
def test_a_wrong_range_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        read_range(text, "unicornn")


def test_a_fixed_value_has_the_kind_of_the_setting():
    assert read_fixed("alpha=3", "unicornn") == ("alpha", 3.0)
    with pytest.raises(ValueError, match="--fix hidden=x: 'x' is no whole number"):
        read_fixed("hidden=x", "unicornn")


# ---- searching -----------------------------------------------------------------------------------------------


def test_trials_are_judged_by_validation_and_the_best_is_tested_once(tmp_path):
    search = search_in(tmp_path)
    whole = search.prepared
    unknown = replace(whole.parts.test, target=None)  # whoever scores on it fails
    search.prepared = replace(whole, parts=replace(whole.parts, test=unknown))
    assert search.run(3) == "trials"
    trials = search.trials()
    assert [trial.number for trial in trials] == [0, 1, 2]
    for trial in trials:
        config = applied(search.config, trial.settings)
        model = {"num_layers": trial.settings["layers"], "alpha": trial.settings["alpha"]}
        spec = spec_for(whole.parts, "unicornn", hidden_size=4, **model)
        fitted = fit(whole.parts, spec, config.training, objective=whole.objective)
        assert trial.value == max(epoch.metrics["accuracy"] for epoch in fitted.history)
        assert 1e-3 <= trial.settings["learning_rate"] <= 1e-1
    best = search.best()
    assert best.value == max(trial.value for trial in trials)
    search.prepared = whole
    outcome = search.train_best()
    assert outcome.summary["valid"]["accuracy"] == best.value
    assert set(outcome.summary["test"]) == {"loss", "accuracy"}
    epochs = []
    assert search.train_best(on_event=epochs.append).summary == outcome.summary
    assert not epochs


def test_a_search_that_was_stopped_draws_what_it_would_have_drawn(tmp_path):
    at_once, stopped = tmp_path / "at_once", tmp_path / "stopped"
    search_in(at_once, epochs=1).run(4)
    search_in(stopped, epochs=1).run(2)
    again = search_in(stopped, epochs=1)
    again.run(4)
    told = [(trial.value, trial.settings) for trial in again.trials()]
    assert told == [(trial.value, trial.settings) for trial in search_in(at_once, epochs=1).trials()]
    assert len({json.dumps(settings) for _, settings in told}) == 4
    assert again.run(4) == "trials"
    assert len(again.trials()) == 4
    assert search_in(tmp_path / "other", epochs=1, seed=1).run(1) == "trials"


def test_ctrl_c_fails_the_trial_and_the_search_goes_on(tmp_path):
    search = search_in(tmp_path, epochs=1)
    search.run(1)

    def stop(event):
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
    told = []
    search.run(2, on_trial=told.append)
    assert [trial.state for trial in told] == ["running", "pruned", "running", "pruned"]
    assert [trial.epochs for trial in search.trials()] == [1, 1]
    assert search.best() is None
    with pytest.raises(ValueError, match="no trial is complete"):
        search.train_best()


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_the_pruners_stop_a_trial_that_falls_behind(tmp_path, pruner):
    config = Config.from_dict(ASKED).with_values({"training": {"epochs": 4}})
    search = Search(config, RANGES, tmp_path, pruner=pruner)
    for _ in range(6):
        good = search.study.ask()
        for step in range(1, 5):
            good.report(0.9, step)
            good.should_prune()
        search.study.tell(good, 0.9)
    search.run(8)
    assert any(trial.state == "pruned" and trial.epochs < 4 for trial in search.trials()[6:])


def test_a_loss_that_is_not_finite_is_told_and_the_search_goes_on(tmp_path):
    config = Config.from_dict(ASKED).with_values({"training": {"epochs": 1}})
    search = Search(config, {"delta_t": OneOf((1e30,))}, tmp_path)
    search.run(2)
    assert [trial.state for trial in search.trials()] == ["pruned", "pruned"]
    assert all("not finite" in trial.fault for trial in search.trials())


def test_a_metric_that_is_better_lower_is_minimised(tmp_path):
    search = search_in(tmp_path, metric="loss", epochs=1)
    search.run(3)
    assert search.best().value == min(trial.value for trial in search.trials())
    assert search.study.best_value == search.best().value


def test_no_trial_begins_after_the_timeout(tmp_path):
    search = search_in(tmp_path, epochs=1)
    assert search.run(5, timeout=0) == "timeout"
    assert not search.trials()
    begun = time.monotonic()
    assert search.run(500, timeout=1) == "timeout"
    assert time.monotonic() - begun < 20
    assert search.trials()


@pytest.mark.parametrize(
    ("ranges", "training", "message"),
    [
        (RANGES, {"epochs": 3}, "another search .*training epochs: 2 there, 3 here"),
        ({"alpha": Between(0.0, 5.0)}, {}, "ranges learning_rate: '0.001:0.1:log' there, None here"),
        ({"delta_t": Between(-1.0, 1.0)}, {}, "the range delta_t=-1:1: delta_t must be greater than 0"),
        ({"nothing": OneOf((1,))}, {}, "has no setting 'nothing'"),
        ({}, {}, "nothing to search"),
    ],
)
def test_a_mistake_is_told_before_anything_is_tried(tmp_path, ranges, training, message):
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
        told = {"params": {"learning_rate": rate, "alpha": float(alpha)}, "distributions": space}
        search.study.add_trial(optuna.trial.create_trial(value=math.log10(rate), **told))
    found = search.importances()
    assert found["learning_rate"] > 10 * found["alpha"]
    assert sum(found.values()) == pytest.approx(1)


def test_the_plot_shows_trials_of_every_state(tmp_path):
    states = [("complete", 0.5), ("pruned", None), ("fail", None), ("complete", 0.7), ("running", None)]
    trials = [Trial(n, state, value, {}, 1, 1.0) for n, (state, value) in enumerate(states)]
    for importances in ({}, {"alpha": 0.3, "learning_rate": 0.7}):
        path = plot_search(trials, "accuracy", importances, tmp_path / "plot.png", title="five")
        assert path.read_bytes().startswith(b"\x89PNG")


# ---- processes -----------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys, torch
torch.set_num_threads(1)
from chronode.training.config import Config
from chronode.training.ranges import Between
from chronode.training.tune import Search
config = Config.from_dict(json.loads(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
search = Search(config, {"learning_rate": Between(1e-3, 1e-1, log=True)}, sys.argv[2])
try:
    search.run(int(sys.argv[3]), on_event=lambda event: print("event", flush=True))
except KeyboardInterrupt:
    print("stopped")
"""


def start(folder, trials, **training):
    told = {**ASKED, "training": {**ASKED["training"], **training}}
    command = [sys.executable, "-c", PROGRAM, json.dumps(told), str(folder), str(trials)]
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
        told, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
        assert not errors
        assert "event" in told  # each had its share
    search = search_in(tmp_path, {"learning_rate": Between(1e-3, 1e-1, log=True)})
    trials = search.trials()
    assert len(trials) == 12
    assert {trial.state for trial in trials} <= {"complete", "pruned"}
    assert len({trial.settings["learning_rate"] for trial in trials}) == 12


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_was_stopped_or_killed_leaves_a_search_that_goes_on(tmp_path, how):
    worker = start(tmp_path, 3, epochs=500)
    go(worker)
    assert worker.stdout.readline() == "event\n"
    worker.send_signal(how)
    told, errors = worker.communicate(timeout=120)
    assert (worker.returncode == 0 and "stopped" in told) if how == signal.SIGINT else worker.returncode == -how
    assert "Traceback" not in errors
    search = search_in(tmp_path, {"learning_rate": Between(1e-3, 1e-1, log=True)}, epochs=500)

    def stop(event):
        if isinstance(event, EpochDone):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.run(1, on_event=stop)
    assert [trial.state for trial in search.trials()] == ["fail", "fail"]
