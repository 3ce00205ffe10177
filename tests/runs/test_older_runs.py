"""Run folders and estimators of an earlier version: the same predictions and test metrics, or a refusal with a cure.

The files in `older/` were written by version 0.1.0 at commit b7e7a99, which divided series in another way and
forecast at every step: `chronode train`, `chronode predict` and `SequenceClassifier.save`.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import chronode

from chronode.estimators import SequenceClassifier, SequenceForecaster
from chronode.runs import Trained

OLDER = Path(__file__).parent / "older"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(OLDER, tmp_path / "older"))
    return Path()


def numbers(path, column):
    with open(path, newline="") as file:
        return np.array([float(row[column]) for row in csv.DictReader(file)])


@pytest.mark.parametrize(("run", "known", "column"), [("run", "predicted", "p_ill"), ("forecast", "forecasts", "hr+1")])
def test_predictions_are_the_same(run, known, column):
    chronode("predict", run, "vitals.csv", "-o", "now.csv")
    before = numbers(f"{known}.csv", column)
    assert len(before) in (24, 96)
    np.testing.assert_allclose(numbers("now.csv", column), before, rtol=1e-5)


@pytest.mark.parametrize("run", ["run", "forecast"])
def test_the_test_part_is_the_one_that_was_held_out(run):
    trained = Trained.load(run)
    now = trained.evaluate(trained.series(labeled=True))
    then = json.loads(Path(run, "summary.json").read_text())["test"]
    assert {name: now[name] for name in then} == pytest.approx(then, rel=1e-5)


def test_a_run_is_resumed():
    chronode("train", "--resume", "run", "--epochs", 2)
    assert json.loads(Path("run/summary.json").read_text())["epochs"] == 2
    assert len(Path("run/metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("command", [("evaluate", "run"), ("train", "--resume", "run", "--epochs", 2)])
def test_a_run_that_was_divided_in_an_unknown_way_is_refused(command):
    facts = json.loads(Path("run/data.json").read_text())
    facts["reading"]["scaler"]["mean"][0] += 0.01
    Path("run/data.json").write_text(json.dumps(facts))
    assert "divided the data in another way: its test part is not known" in chronode(*command, code=2).err
    chronode("predict", "run", "vitals.csv", "-o", "now.csv")


def test_a_classifier_predicts_as_before():
    rng, labels = np.random.default_rng(0), np.array(["a", "b"] * 8)
    series = rng.normal(size=(16, 2, 5)) + (labels == "a")[:, None, None]
    known = np.loadtxt("classifier/probabilities.txt")
    np.testing.assert_allclose(SequenceClassifier.load("classifier").predict_proba(series), known, rtol=1e-5)


def test_a_forecaster_that_learned_in_another_way_is_refused():
    with pytest.raises(ValueError, match=r"estimator\.json: this forecaster was saved by an earlier .*: fit it again"):
        SequenceForecaster.load("forecaster")
