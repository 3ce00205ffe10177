"""The race that chooses a model: what decides, that it is repeatable, and that both front ends run the same one."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from commands import chronode

from chronode import ModelSpec
from chronode.data import Scaler, from_list, split
from chronode.data._split import split_for_training
from chronode.estimators import SequenceClassifier, SequenceRegressor
from chronode.judge import fit_start
from chronode.judge._auto import _lengthened, race, selection_metric
from chronode.judge._baselines import linear_validation
from chronode.judge._candidates import Candidate, Plan, candidates_for, hard_candidates, many_updates
from chronode.judge._race import RaceEntry, beats, decide
from chronode.lab.tasks import Parts
from chronode.model import LINEAR
from chronode.runs import Run, Store
from chronode.runs._results import _race_summary
from chronode.training import Objective, Settings, fit
from chronode.training._assembly import together
from chronode.training._settings import seconds_of


def products(rows=90, seed=0):
    """Series whose class is the sign of the product of two values: nothing for a linear model."""
    x = np.random.default_rng(seed).normal(size=(rows, 4, 2))
    labels = np.where(x[:, 1, 0] * x[:, 2, 0] > 0, "same", "other")
    return from_list(list(x), target=list(labels))


def parts_of(s, seed=0):
    train, valid = split(s, (0.8, 0.2), seed=seed)
    return Parts(train, valid, valid)


# ---- the race -----------------------------------------------------------------------------------------------


def test_a_network_wins_where_a_linear_model_sees_nothing():
    s = products(240)
    x = from_list(list(s.values.reshape(240, 4, 2)), target=list(np.array(s.classes)[s.target.values]))
    candidates = [Candidate("lstm", {"hidden_size": 16}), Candidate("lstm", {"hidden_size": 1})]
    settings = Settings(epochs=20, batch_size=8, learning_rate=0.02, refit=True)
    found = race(parts_of(x), Objective.for_data(x), settings, candidates, start="linear")
    assert found.winner is candidates[0] and found.settings.epochs > 5
    assert found.entries[0].name == "lstm H=16"
    assert found.metric == "loss" and "3-fold cross-validation" in found.reason and LINEAR in found.reason
    assert found.entries[0].value < min(entry.value for entry in found.entries[1:])


def test_the_head_pools_where_that_is_clearly_better():
    # The class is the sign of the mean of the products of two channels: one value of a long series says little.
    x = np.random.default_rng(0).normal(size=(600, 12, 2))
    s = from_list(list(x), target=np.where((x[..., 0] * x[..., 1]).mean(1) > 0, "same", "other").tolist())
    settings = Settings(epochs=20, batch_size=16, learning_rate=0.01)
    options = {"start": "none", "pools": ("mean",), "budget": "5m"}
    found = race(parts_of(s), Objective.for_data(s), settings, [Candidate("rnn", {"hidden_size": 16})], **options)
    assert [entry.name for entry in found.entries] == ["rnn H=16 pool=mean", "rnn H=16"]
    assert found.winner.network["pool"] == "mean" and found.chosen is found.entries[0]


def test_what_features_do_not_see_is_left_to_networks_that_see_every_step():
    """The class is the sign of the one value of many that is marked; a network that finds it ends the race."""
    rng = np.random.default_rng(0)
    x = np.stack([rng.choice([-1.0, 1.0], size=(500, 30)), np.zeros((500, 30))], axis=2)
    marked = rng.integers(0, 20, 500)
    x[np.arange(500), marked, 1] = 5.0
    s = from_list(list(x), target=np.where(x[np.arange(500), marked, 0] > 0, "plus", "minus").tolist())
    candidates, hard, notes = candidates_for(s, {}, small=False), hard_candidates(s, {}), []
    found = race(
        *(parts_of(s), Objective.for_data(s), Settings(epochs=15), candidates),
        start="summaries",
        hard=hard,
        pools=("mean",),
        on_event=lambda note: notes.append(note.text),
    )
    assert found.winner == hard[0] and found.chosen.metrics["accuracy"] > 0.95
    assert {entry.name for entry in found.entries} == {str(hard[0]), LINEAR}
    assert notes[0].startswith(LINEAR) and "s left" in notes[1] and len(notes) == 3
    plan = many_updates([*hard, *candidates], parts_of(s), Settings().completed(500), 11.2)
    assert plan.candidates == [*hard, candidates[2]]  # the cheapest of the others
    assert 800 <= plan.epochs * 25 < 825 and plan.patience * 25 >= 500
    assert hard_candidates(s, {"pool": "last"}) == []
    long = many_updates([*hard, *candidates], parts_of(s), Settings().completed(500), 1e6)
    assert long.candidates == [*hard, *candidates] and 6_000 <= long.epochs * 25 < 6_025
    assert long.patience == long.epochs // 4


def test_a_race_runs_in_one_process(monkeypatch):
    """Further processes would begin with the race, too; only the run of the winner is shared."""
    monkeypatch.setattr("chronode.training._runner.leading", lambda *given: pytest.fail("several processes"))
    s = products(60)
    candidates = [Candidate("rnn", {"hidden_size": size}) for size in (2, 3)]
    found = race(parts_of(s), Objective.for_data(s), Settings(epochs=1, devices=2), candidates, start="none")
    assert len(found.entries) == 2 and found.settings.devices == 2


def test_a_head_that_pools_is_not_chosen_by_chance():
    s = products(60)
    # After no useful training, both heads predict about the same.
    settings = Settings(epochs=1, batch_size=60, learning_rate=1e-6)
    candidate = Candidate("rnn", {"hidden_size": 4})
    found = race(parts_of(s), Objective.for_data(s), settings, [candidate], start="none", pools=("mean", "max"))
    assert found.winner is candidate and len(found.entries) == 3


def test_the_linear_model_is_kept_where_no_network_is_clearly_better():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5, 1))
    s = from_list(list(x), target=[float(value) for value in x.mean((1, 2))])
    settings = Settings(epochs=2, refit=True)
    found = race(parts_of(s), Objective.for_data(s), settings, [Candidate("gru", {"hidden_size": 4})])
    assert found.settings.epochs == 0 and found.chosen.name == LINEAR
    fitted = fit(parts_of(s), ModelSpec.for_data(s, "gru", 4), found.settings, start="linear")
    linear = fit_start(together(*split(s, (0.8, 0.2))), s[:0])
    assert fitted.model(s.batch().x).detach().numpy() == pytest.approx(linear.outputs(s).numpy(), abs=1e-5)


def test_a_network_has_to_be_better_series_by_series_by_more_than_a_standard_error():
    goal = replace(Objective.for_data(products(30)), metric="loss")
    rows = torch.linspace(0.2, 0.8, 100)
    linear = RaceEntry(LINEAR, 0.5, {"loss": 0.5, "accuracy": 0.9}, 0, rows=rows)
    # A small gain of every series is more certain than a large one of a few.
    steady = RaceEntry("gru", 0.49, {"loss": 0.49, "accuracy": 0.91}, 3, rows=rows - 0.01)
    few = rows.clone()
    few[::50] -= 0.5
    few[1::50] += 0.4
    assert beats(steady, linear, goal) and not beats(replace(steady, rows=few), linear, goal)
    ranked = replace(linear, metrics={"accuracy": 0.9, "auroc": 0.8})
    assert not beats(replace(steady, metrics=ranked.metrics), ranked, goal)
    assert beats(replace(steady, metrics={"accuracy": 0.9, "auroc": 0.9}), ranked, goal)
    assert not beats(replace(steady, folds=1), replace(linear, folds=3), goal)
    assert beats(replace(steady, metrics={"rmse": 0.1}), replace(linear, metrics={"rmse": 0.5}), goal)


@pytest.mark.parametrize(("loss", "epochs", "left"), [(0.51, 0, "the linear"), (0.499, 50, "gru H=64 with a linear")])
def test_networks_that_are_never_better_than_the_start_are_not_trained_in_full(loss, epochs, left):
    goal, rows = replace(Objective.for_data(products(30)), metric="loss"), torch.linspace(0.2, 0.8, 100)
    linear = RaceEntry(LINEAR, 0.5, {"loss": 0.5, "accuracy": 0.9}, 0, rows=rows)
    gru, entry = Candidate("gru"), RaceEntry("gru H=64", loss, {"loss": loss, "accuracy": 0.9}, 3, rows=rows)
    found = decide([(entry, gru)], (entry, gru), linear, goal, Settings(), {"early_stop"}, 1)
    assert found.settings.epochs == epochs and found.reason.startswith(left)
    assert found.chosen is (entry if epochs else linear)
    asked = decide([(entry, gru)], (entry, gru), linear, goal, Settings(epochs=7), {"early_stop"}, 1)
    assert asked.settings.epochs == 7


def test_a_winner_that_stopped_improving_is_trained_to_its_best_epoch():
    goal, rows = replace(Objective.for_data(products(30)), metric="loss"), torch.linspace(0.2, 0.8, 100)
    linear, gru = RaceEntry(LINEAR, 0.5, {"loss": 0.5, "accuracy": 0.9}, 0, rows=rows), Candidate("gru")
    entry = RaceEntry("gru H=64", 0.4, {"loss": 0.4, "accuracy": 0.95}, 3, rows=rows - 0.1, stalled=True)

    def settings(entry, asked):
        made = decide([(entry, gru)], (entry, gru), linear, goal, asked, {"early_stop"}, 1).settings
        return made.epochs, made.early_stop

    assert settings(entry, Settings()) == (3, 0)
    assert settings(replace(entry, stalled=False), Settings()) == (50, None)
    assert settings(entry, Settings(epochs=7)) == (7, None)
    assert settings(entry, Settings(schedule="cosine")) == (50, None)  # other rates in a longer training


def test_a_winner_trains_at_least_as_long_as_in_the_race():
    plan = Plan([], 1, 120, 30, {})
    made = _lengthened(Settings(), plan, {"early_stop"})
    assert (made.epochs, made.early_stop) == (120, 30)
    assert _lengthened(Settings(early_stop=4), plan, ()).early_stop == 4
    for kept in (Settings(epochs=9), Settings(epochs=0), Settings(refit=True)):
        assert _lengthened(kept, plan, {"early_stop"}) == kept
    assert _lengthened(Settings(), plan._replace(epochs=20), {"early_stop"}) == Settings()


def test_a_better_order_of_a_rare_class_counts_where_accuracy_does_not():
    goal, rows = replace(Objective.for_data(products(30)), metric="loss"), torch.linspace(0.2, 0.8, 100)
    linear = RaceEntry(LINEAR, 0.5, {"loss": 0.5, "accuracy": 0.87, "auroc": 0.85}, 0, rows=rows)
    network = RaceEntry("gru", 0.49, {"loss": 0.49, "accuracy": 0.869, "auroc": 0.86}, 3, rows=rows - 0.01)
    assert beats(network, linear, goal)
    assert not beats(replace(network, metrics={**network.metrics, "auroc": 0.84}), linear, goal)
    without = replace(linear, metrics={"loss": 0.5, "accuracy": 0.87})
    assert not beats(replace(network, metrics={"loss": 0.49, "accuracy": 0.869}), without, goal)


def test_the_same_data_and_seed_give_the_same_race():
    one, other = (
        race(parts_of(products()), Objective.for_data(products()), Settings(epochs=2, seed=3), c, start="linear")
        for c in [[Candidate("gru", {"hidden_size": 4}), Candidate("lstm", {"hidden_size": 4})]] * 2
    )
    assert one == other


def test_a_candidate_that_cannot_be_trained_is_listed_with_its_fault():
    x = np.random.default_rng(0).normal(size=(60, 4, 2))
    s = from_list(list(x), target=[float(value) for value in x.sum((1, 2))])
    wild = Candidate("rnn", {"hidden_size": 4}, {"weight_decay": 1e5})  # the weights explode at once
    options = {"start": "none"}
    settings = Settings(epochs=5, optimizer="sgd", learning_rate=0.01)
    found = race(parts_of(s), Objective.for_data(s), settings, [wild, Candidate("gru")], **options)
    assert found.winner.model == "gru" and found.entries[0].name == "gru H=64"
    assert found.entries[-1].name.startswith("rnn") and found.entries[-1].value != found.entries[-1].value
    assert "learning_rate" in found.entries[-1].fault
    with pytest.raises(ValueError, match="no candidate could be trained: .*learning_rate"):
        race(parts_of(s), Objective.for_data(s), settings, [wild], **options)


@pytest.mark.parametrize("seconds", [0.001, 1.0, 1e6])
def test_a_budget_limits_epochs_and_candidates(seconds):
    s = products(60)
    few = race(
        parts_of(s), Objective.for_data(s), Settings(epochs=4), candidates_for(s, {}, small=True), budget=seconds
    )
    trained = [entry for entry in few.entries if entry.name != LINEAR]
    assert len(trained) == (1 if seconds < 0.1 else 3)
    assert max(entry.epochs for entry in trained) <= (1 if seconds < 0.1 else 4)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("2m", 120), ("0.5h", 1800), ("45", 45), (7, 7)])
def test_budgets(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3m", "0s", "2 weeks"])
def test_what_is_not_a_budget_is_refused(text):
    with pytest.raises(ValueError, match="not a duration such as 90s, 2m or 1h"):
        seconds_of(text)


def test_candidates_suit_the_times_and_the_missing_values():
    s = products(10)
    irregular = from_list([[1.0, 2.0, 3.0]], times=[[0.0, 1.0, 5.0]], target=[1.0])
    missing = from_list([[1.0, np.nan, 3.0]], target=[1.0])
    for series, model in ((s, "lstm"), (irregular, "lstm-dt"), (missing, "gru-d")):
        assert candidates_for(series, {}, small=True)[0].model == model
        many = candidates_for(series, {}, small=False)
        assert many[0 if series.has_missing else 1].model == model
    assert {c.network["hidden_size"] for c in candidates_for(s, {"hidden_size": 8}, small=True)} == {8}


# ---- what is chosen by --------------------------------------------------------------------------------------


def test_the_loss_selects_unless_a_task_has_a_metric():
    s = from_list([[float(i)] for i in range(100)], target=["ill"] * 12 + ["well"] * 88)
    goal = Objective.for_data(s)
    assert selection_metric(goal) == "loss" and selection_metric(replace(goal, metric="auroc")) == "auroc"


def test_settings_of_the_user_are_not_changed():
    asked = Settings(epochs=7, batch_size=5, refit=False)
    made = asked.completed(5000)
    assert (made.epochs, made.batch_size, made.refit) == (7, 5, False)
    assert Settings().completed(5000).batch_size == 64


# ---- refit --------------------------------------------------------------------------------------------------


def test_series_together_do_not_depend_on_the_split():
    s = products(50)
    one, other = (together(*split(s, (0.8, 0.2), seed=seed)) for seed in (0, 7))
    assert one.ids.tolist() == other.ids.tolist() == s.ids.tolist()
    assert np.array_equal(one.base_values, other.base_values) and np.array_equal(one.base_values, s.base_values)
    assert np.array_equal(one.target.values, s.target.values)


def test_series_together_keep_their_weights():
    s = products(20)
    assert s.target is not None
    weighted = replace(s, weights=np.arange(20, dtype=np.float32))
    whole = together(*split(weighted, (0.8, 0.2), seed=1))
    assert whole.weights.tolist() == list(range(20))
    train, valid = split(weighted, (0.8, 0.2), seed=1)
    assert valid.target is not None
    unweighted = replace(valid, weights=None)
    mixed = together(train, unweighted)
    assert mixed.weights[valid.ids].tolist() == [1.0] * len(valid)


def test_a_refit_learns_from_all_series_and_keeps_the_last_weights():
    s = products(50)
    spec = ModelSpec.for_data(s, "gru", 4)
    one = fit(parts_of(s, 0), spec, Settings(epochs=4, refit=True, learning_rate=0.05))
    other = fit(parts_of(s, 7), spec, Settings(epochs=4, refit=True, learning_rate=0.05))
    assert one.best_epoch == other.best_epoch == 4
    for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_training_may_have_no_epochs_but_not_fewer():
    with pytest.raises(ValueError, match="epochs"):
        Settings(epochs=-1)
    assert Settings(epochs=0).epochs == Settings(epochs=0, refit=True).epochs == 0


def test_a_state_saved_before_there_was_a_refit_resumes(tmp_path):
    s, store = products(40), Store(tmp_path)
    spec = ModelSpec.for_data(s, "gru", 4)
    fit(parts_of(s), spec, Settings(epochs=1), store=store)
    tensors, facts = store.latest()
    del facts["about"]["refit"]
    store.save(tensors, facts)
    assert len(fit(parts_of(s), spec, Settings(epochs=2), store=store, resume=True).history) == 2


# ---- the command line and the estimators --------------------------------------------------------------------


def table_of(path, rows=60, regression=False):
    """A long table of series with irregular times."""
    rng = np.random.default_rng(1)
    lines = []
    for row in range(rows):
        x = rng.normal(size=6).round(3)
        y = x[1] * x[2] + x.mean()
        label = round(float(y), 4) if regression else ("up" if y > 0 else "down")
        times = np.cumsum(rng.uniform(0.5, 2, 6)).round(3)
        lines += [{"id": f"s{row:03}", "t": t, "x": v, "y": label} for t, v in zip(times, x, strict=True)]
    frame = pd.DataFrame(lines)
    frame.to_csv(path, index=False)
    return frame


FLAGS = ("--target", "y", "--id", "id", "--time", "t", "--epochs", 2, "--budget", "20s", "--seed", 3)


@pytest.mark.parametrize(
    ("rows", "judged", "regression"),
    [(60, "3-fold cross-validation", False), (60, "3-fold cross-validation", True), (600, "validation", False)],
)
def test_command_line_and_estimator_give_the_same_numbers(tmp_path, rows, judged, regression):
    frame = table_of(tmp_path / "a.csv", rows, regression=regression)
    output = chronode("train", tmp_path / "a.csv", *FLAGS, "-o", tmp_path / "run").out
    assert f"race, {judged}" in output
    answers = pd.read_csv(tmp_path / "run/predictions.csv")
    tested = frame["id"].isin(answers["id"])
    kind = SequenceRegressor if regression else SequenceClassifier
    model = kind(epochs=2, budget="20s", random_state=3)
    model.fit(frame[~tested], "y", id="id", time="t")
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["race"]["reason"] == model.race_.reason
    assert f"model: {model.race_.reason}" in model.notes_
    if rows < 500:
        assert summary["valid"] == pytest.approx(model.race_.chosen.metrics)
    else:
        sizes = json.loads((tmp_path / "run/data.json").read_text())["series"]
        assert sizes == {"train": 420, "valid": 90, "test": 90}
        assert [row["valid_loss"] for row in Run.open(tmp_path / "run").metrics()] == pytest.approx(
            [epoch.valid_loss for epoch in model.history_]
        )
    rest = frame[tested].drop(columns="y")
    if regression:
        expected = answers.sort_values("id")["y"].to_numpy()
        found = model.predict(rest)
    else:
        columns = [c for c in answers.columns if c.endswith("up")]
        expected = answers.sort_values("id")[columns[0]].to_numpy()
        found = model.predict_proba(rest)[:, list(model.classes_).index("up")]
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_a_run_holds_what_was_chosen_and_resumes_without_another_race(tmp_path):
    table_of(tmp_path / "a.csv")
    chronode("train", tmp_path / "a.csv", *FLAGS, "--start", "none", "-o", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert run.config["model"]["model"] in ("mmrnn", "lstm-dt") and run.config["training"]["refit"] is True
    entries = run.load_json("race.json")["entries"]
    assert len(entries) == 5 and {"candidate", "loss", "epochs"} <= entries[0].keys()
    epochs = run.config["training"]["epochs"]
    assert len(run.metrics()) == epochs >= 1
    output = chronode("train", "--resume", tmp_path / "run", "--epochs", epochs + 1).out
    assert f"epoch {epochs + 1}/{epochs + 1}" in output and "race, " not in output


def test_the_linear_start_of_a_refit_is_reported_as_the_race_measured_it(tmp_path):
    run = Run.create(tmp_path / "run", {"training": {"refit": True}})
    entries = [{"candidate": "lstm", "loss": 0.1}, {"candidate": "linear start alone", "loss": 0.2}]
    run.save_json("race.json", {"chosen": {"loss": 0.1}, "entries": entries})
    summary = _race_summary(run, {"start": {"metric": "loss", "valid": 0.01, "features": "values"}})
    assert summary["valid"] == {"loss": 0.1} and summary["start"]["valid"] == 0.2
    assert "start" not in _race_summary(run, {})


def test_a_named_model_is_not_raced_and_a_refit_of_it_chooses_its_epochs(tmp_path):
    frame = table_of(tmp_path / "a.csv")
    named = ("--model", "gru", "--hidden", 4)
    output = chronode("train", tmp_path / "a.csv", *FLAGS, *named, "-o", tmp_path / "one").out
    assert "race, " not in output and not (tmp_path / "one/race.json").exists()
    linear = json.loads((tmp_path / "one/summary.json").read_text())["linear"]
    series, times = zip(*((g[["x"]].to_numpy(), g["t"].to_numpy()) for _, g in frame.groupby("id")), strict=True)
    labels = frame.groupby("id")["y"].first().tolist()
    whole = from_list(list(series), times=list(times), ids=sorted(set(frame["id"])), target=labels)
    train, valid, test = split_for_training(whole, seed=3)
    scaler = Scaler.fit(train)
    parts = Parts(scaler.transform(train), scaler.transform(valid), scaler.transform(test))
    expected = linear_validation(Objective.for_data(parts.train), parts)
    assert linear == {"metric": "accuracy", "valid": pytest.approx(expected["accuracy"])}
    assert f"a linear start (--start linear) would begin at accuracy {linear['valid']:.4g} on the validation" in output
    output = chronode("train", tmp_path / "a.csv", *FLAGS, *named, "--refit", "-o", tmp_path / "two").out
    assert "gru H=4" in output and "on the training and validation series together" in output
    assert Run.open(tmp_path / "two").config["model"]["start"] == "none"


def test_print_config_leaves_the_choice_open_and_forecasts_have_the_usual_model(tmp_path):
    assert "model: auto" in chronode("train", "a.csv", "--target", "y", "--print-config").out
    rows = "\n".join(f"{t},{(-1) ** t}" for t in range(60))
    (tmp_path / "wave.csv").write_text(f"t,x\n{rows}\n")
    flags = ("--time", "t", "--forecast", 2, "--window", 10, "--hidden", 4, "--epochs", 1)
    output = chronode("train", tmp_path / "wave.csv", *flags, "-o", tmp_path / "run").out
    assert "model: mmrnn H=4 (default: " in output


def test_an_estimator_with_few_series_or_a_name_has_no_race():
    x = np.random.default_rng(0).normal(size=(40, 1, 5))
    y = x.mean((1, 2))
    assert SequenceRegressor("gru", hidden_size=4, epochs=1).fit(x, y).race_ is None
    assert SequenceRegressor(epochs=1).fit(x[:4], y[:4]).race_ is None
    refitted = SequenceRegressor("gru", hidden_size=4, epochs=2, refit=True, random_state=0).fit(x, y)
    assert refitted.race_.winner.model == "gru" and refitted.best_epoch_ == refitted.race_.chosen.epochs
