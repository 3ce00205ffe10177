"""`chronode threshold`: chosen on the validation part, stored with the model, used by every prediction."""

import csv
import io
import json

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode, write_vitals

from chronode.judge import choose_threshold
from chronode.runs import load, prepared_of, set_threshold
from chronode.stream import Stream


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("threshold")
    rng = np.random.default_rng(0)
    noisy = {"hr": lambda row: f"{rng.normal(85, 20):.1f}"}
    write_vitals(home / "vitals.csv", patients=80, **noisy)
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 4, "--output", home / "run")
    return home


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_threshold_is_that_of_the_validation_part(home):
    said = json.loads(chronode("threshold", home / "run", "--cost", "fn=9,fp=1", "--json").out)
    trained = load(home / "run")
    assert trained.objective.threshold == said["threshold"]
    valid = prepared_of(trained).parts.valid
    chances = np.stack(trained.predict(valid).values)[:, trained.objective.classes.index("ill")]
    ill = valid.with_classes(trained.objective.classes).target.values == trained.objective.classes.index("ill")
    assert said["threshold"] == choose_threshold(chances, ill, cost={"fn": 9, "fp": 1})
    found = said["rates"]["validation"]
    assert found["sensitivity"][1] == pytest.approx(np.mean(chances[ill] >= said["threshold"]))


def test_predict_evaluate_stream_and_a_packed_model_use_it(home, tmp_path):
    chances = [float(row["p_ill"]) for row in rows(chronode("predict", home / "run", home / "vitals.csv").out)]
    cut = float(np.quantile(chances, 0.8))
    chronode("threshold", home / "run", "--value", cut)
    found = rows(chronode("predict", home / "run", home / "vitals.csv").out)
    assert [row["outcome"] == "ill" for row in found] == [float(row["p_ill"]) >= cut for row in found]
    assert 0 < sum(row["outcome"] == "ill" for row in found) < 0.4 * len(found)
    scores = json.loads(chronode("evaluate", home / "run", home / "vitals.csv", "--json").out)["metrics"]
    true = [int(row["patient"][1:]) % 3 == 0 for row in found]
    caught = [row["outcome"] == "ill" for row, own in zip(found, true, strict=True) if own]
    assert scores["sensitivity"] == pytest.approx(np.mean(caught))
    chronode("pack", home / "run", "-o", tmp_path / "model.chronode")
    assert load(tmp_path / "model.chronode").objective.threshold == pytest.approx(cut)
    stream = Stream(load(home / "run"))
    said = stream.observe("p", "2024-01-01 10:00", {"hr": 70.0, "temp": 37.0})
    assert (said["outcome"] == "ill") == (said["p_ill"] >= cut)
    chronode("threshold", home / "run", "--value", said["p_ill"] - 1e-3)
    assert Stream(load(home / "run")).observe("p", "2024-01-01 10:00", {"hr": 70.0, "temp": 37.0})["outcome"] == "ill"


def test_the_report_shows_it_and_it_can_be_reset(home):
    chronode("threshold", home / "run", "--value", 0.37)
    page = (home / "run/report.html").read_text()
    for text in ("ROC curve", "Precision and recall", "Decision curve", "0.37 (stored)"):
        assert text in page
    chronode("threshold", home / "run", "--reset")
    assert load(home / "run").objective.threshold is None
    assert "(stored)" not in (home / "run/report.html").read_text()


def test_a_refitted_model_is_judged_by_a_copy_without_the_validation_part(home, tmp_path):
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 2, "--refit", "--output", tmp_path / "run")
    done = chronode("threshold", tmp_path / "run", "--sensitivity", 0.5)
    assert "copy" in done.out
    assert load(tmp_path / "run").objective.threshold is not None


def test_refusals(home, tmp_path):
    assert "--cost" in chronode("threshold", home / "run", "--cost", "fn=5;fp", code=2).err
    assert "only one" in chronode("threshold", home / "run", "--cost", "fn=5,fp=1", "--value", 0.5, code=2).err
    chronode("pack", home / "run", "-o", tmp_path / "model.chronode")
    with pytest.raises(ValueError, match="packed"):
        set_threshold(tmp_path / "model.chronode", 0.5)
    data = [f"{w},{t},{np.sin(t + w):.4f}" for w in range(6) for t in range(12)]
    (tmp_path / "wave.csv").write_text("w,t,x\n" + "\n".join(data) + "\n")
    flags = ("--id", "w", "--time", "t", "--forecast", 2, "--model", "gru", "--epochs", 1, "-o", tmp_path / "wave")
    chronode("train", tmp_path / "wave.csv", *flags, *QUICK)
    assert "two classes" in chronode("threshold", tmp_path / "wave", "--value", 0.5, code=2).err
