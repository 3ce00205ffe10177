"""`evaluate --folds`: every series is predicted once, by a model that has not seen it."""

import csv
import json

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode, write_vitals

from chronode.runs import Config, cross_validate
from chronode.settings import SettingError


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("folds")
    write_vitals(home / "vitals.csv")
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 4, "--output", home / "run")
    return home


def test_metrics_are_those_of_the_out_of_fold_predictions(home, tmp_path):
    done = chronode("evaluate", home / "run", "--folds", 4, "-o", tmp_path / "oof.csv", "--json")
    said = json.loads(done.out)
    with open(tmp_path / "oof.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["patient"] for row in rows) == [f"p{i:02d}" for i in range(40)]
    assert {row["fold"] for row in rows} == {"1", "2", "3", "4"}
    right = [row["outcome"] == row["true_outcome"] for row in rows]
    assert said["metrics"]["accuracy"] == pytest.approx(np.mean(right))
    for fold, scores in enumerate(said["folds"], 1):
        own = [hit for hit, row in zip(right, rows, strict=True) if row["fold"] == str(fold)]
        assert scores["accuracy"] == pytest.approx(np.mean(own))
    low, high = said["intervals"]["accuracy"]
    assert low <= said["metrics"]["accuracy"] <= high


def test_a_series_is_not_seen_by_the_model_that_predicts_it(tmp_path):
    """The value of each patient is unique and the labels are random: only a model that saw a patient can know it."""
    rng = np.random.default_rng(0)
    labels, values = rng.choice(["a", "b"], 40), rng.permutation(40)
    lines = [f"p{patient},{t},{values[patient]},{labels[patient]}" for patient in range(40) for t in range(3)]
    (tmp_path / "random.csv").write_text("\n".join(["patient,t,x,y", *lines]) + "\n")
    config = {"data": {"source": str(tmp_path / "random.csv"), "target": "y", "id": "patient", "time": "t"}}
    config |= {"model": {"model": "gru", "hidden_size": 4}, "training": {"epochs": 30, "learning_rate": 0.05}}
    found = cross_validate(Config.from_dict(config), 4)
    assert found.scores["accuracy"] < 0.8  # nothing can be known of a random label


def test_refusals(home, tmp_path):
    config = {"data": {"source": str(home / "vitals.csv"), "id": "patient", "time": "charted_at", "horizon": 2}}
    with pytest.raises(SettingError) as refused:
        cross_validate(Config.from_dict(config), 3)
    assert refused.value.argument == "folds"
    assert "--folds 20" in chronode("evaluate", home / "run", "--folds", 30, code=2).err
    assert ".csv" in chronode("evaluate", home / "run", "--folds", 3, "-o", "page.html", code=2).err
