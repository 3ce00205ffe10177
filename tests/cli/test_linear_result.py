"""A result that is a linear model is called one everywhere, and metrics of two classes name the positive one."""

import csv
import json

import pyarrow.parquet
import pytest
from commands import QUICK, VITALS, chronode, write_vitals
from sklearn import metrics as sk

from chronode.estimators import SequenceClassifier
from chronode.runs import Run, load, read_card

TITLE = "linear start alone (linear model on"


def wrong(row):
    return int(row["patient"][1:]) % 5 == 1


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A run without a named model, on series that a linear model tells apart."""
    folder = tmp_path_factory.mktemp("raced")
    data = write_vitals(folder / "vitals.csv", patients=30)
    small = ("--start", "linear", "--budget", "1s", "--epochs", 2, "--hidden", 4, "--threads", 1)
    printed = chronode("train", data, *VITALS, *small, "-o", folder / "run", plots=True).out
    return folder / "run", data, printed


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of a network that learns next to nothing after its linear start."""
    folder = tmp_path_factory.mktemp("trained")
    # Some labels are wrong, so that the metrics of the two classes differ.
    data = write_vitals(folder / "vitals.csv", patients=60, outcome=lambda row: "ill" if wrong(row) else row["outcome"])
    idle = (*QUICK[:-2], "--lr", "1e-9", "--epochs", 2, "--start", "linear", "--positive", "well")
    printed = chronode("train", data, *VITALS, *idle, "-o", folder / "run", plots=True).out
    return folder / "run", data, printed


def test_every_place_names_the_linear_model(raced, tmp_path):
    run, data, printed = raced
    assert "the linear start alone" in printed
    assert json.loads((run / "summary.json").read_text())["model"].startswith(TITLE)
    report = (run / "report.html").read_text()
    assert f"<h1>run: {TITLE}" in report
    assert "mmrnn on" not in report
    assert "of 0" not in report
    assert "No epoch was finished" not in report
    listed = json.loads(chronode("runs", run.parent, "--json").out)[0]
    assert listed["model"].startswith(TITLE)
    assert listed["network"] == Run.open(run).config["model"]["model"]
    shown = chronode("show", run).out
    assert TITLE in shown.splitlines()[0]
    assert "0 epochs" not in shown
    assert "best epoch 0" not in shown
    assert TITLE in chronode("evaluate", run).out
    chronode("pack", run, "-o", tmp_path / "m.chronode")
    assert f"# {TITLE}" in read_card(tmp_path / "m.chronode")
    chronode("predict", run, data, "-o", tmp_path / "out.parquet")
    about = pyarrow.parquet.read_schema(tmp_path / "out.parquet").metadata
    assert about[b"chronode.model"].decode().startswith(TITLE)


def test_the_race_and_the_usual_metric_are_in_the_report(raced):
    run, _, _ = raced
    report, race = (run / "report.html").read_text(), json.loads((run / "race.json").read_text())
    assert len(race["entries"]) >= 2
    for entry in race["entries"]:
        assert f">{entry['candidate']}</td>" in report
        assert entry["spread"] is not None or entry["folds"] == 1  # over the folds
    head = report.partition("<h2>")[0]
    assert head.index("test accuracy") < head.index("best baseline") < head.index("parameters")
    assert " to 1</small>" in head  # the interval of a perfect score
    assert "best baseline: linear" not in head  # which is the model itself


def test_a_network_that_was_trained_in_vain_says_what_decided(trained):
    run, _, printed = trained
    start, series = Run.open(run).summary().start, json.loads((run / "data.json").read_text())["series"]
    assert start.epoch in (1, 2)
    assert start.chance == pytest.approx(series["valid"] ** -0.5)
    for text in (printed, (run / "report.html").read_text()):
        assert f"{start.valid:.4g} alone, {start.network:.4g} in epoch {start.epoch}" in text


def test_a_network_that_adds_something_is_named_with_its_start(tmp_path):
    data = write_vitals(tmp_path / "vitals.csv", patients=30)
    asked = (*VITALS, *QUICK, "--epochs", 2, "--start", "linear", "-o", tmp_path / "run")
    noisy = ("--log", "hr", "--metric", "loss")
    chronode("train", data, *asked, *noisy)
    model, summary = load(tmp_path / "run").model, Run.open(tmp_path / "run").summary()
    assert summary.model == model.title
    assert model.is_linear == (summary.best_epoch == 0)
    model.head.bias.data += 1.0
    assert model.title == "linear start + mmrnn"


@pytest.mark.parametrize(("fixture", "positive"), [("raced", "ill"), ("trained", "well")])
def test_metrics_of_two_classes_are_those_of_the_positive_one(fixture, positive, request, tmp_path):
    run, _, printed = request.getfixturevalue(fixture)
    rows = list(csv.DictReader((run / "predictions.csv").open()))
    true, called = ([row[name] for row in rows] for name in ("true_outcome", "outcome"))
    chance = [float(row[f"p_{positive}"]) for row in rows]
    found = json.loads((run / "summary.json").read_text())
    other = "ill" if positive == "well" else "well"
    wanted = {
        "f1": sk.f1_score(true, called, pos_label=positive),
        "auprc": sk.average_precision_score([label == positive for label in true], chance),
        "balanced_accuracy": sk.balanced_accuracy_score(true, called),
        "sensitivity": sk.recall_score(true, called, pos_label=positive),
        "specificity": sk.recall_score(true, called, pos_label=other),
    }
    if fixture == "trained":
        assert wanted["f1"] != pytest.approx(sk.f1_score(true, called, pos_label=other))
    again = json.loads(chronode("evaluate", run, "--json").out)
    assert found["positive"] == again["positive"] == SequenceClassifier.load(run).positive_ == positive
    for name, value in wanted.items():
        assert found["test"][name] == pytest.approx(value), name
        assert again["metrics"][name] == pytest.approx(value), name
    chronode("pack", run, "-o", tmp_path / "m.chronode")
    tables = (printed, chronode("show", run).out, chronode("evaluate", run).out, read_card(tmp_path / "m.chronode"))
    for text in (*tables, (run / "report.html").read_text()):
        for name in ("f1", "auprc", "sensitivity", "specificity"):
            assert f"{name} ({positive})" in text
        assert "balanced accuracy" in text


def test_a_positive_class_that_is_none_is_refused(tmp_path):
    data = write_vitals(tmp_path / "vitals.csv", patients=12)
    refused = chronode("train", data, *VITALS, *QUICK, "--positive", "sick", code=2).err
    assert "--positive sick" in refused
    assert "'ill', 'well'" in refused
    numbers = ("--target", "temp", "--id", "patient", "--time", "charted_at", "--ignore", "outcome")
    assert "needs two classes" in chronode("train", data, *numbers, *QUICK, "--positive", "ill", code=2).err
