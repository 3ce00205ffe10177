"""`chronode check`: exit codes, features, predictions and the metric."""

import json

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode, write_vitals


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("check")
    write_vitals(home / "vitals.csv", patients=60)
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 4, "--output", home / "run")
    return home


def test_data_like_those_of_training_end_with_0(home, tmp_path):
    new = write_vitals(tmp_path / "new.csv", patients=30, seed=4, outcome=None)
    done = chronode("check", home / "run", new)
    assert "nothing has changed" in done.out
    said = json.loads(chronode("check", home / "run", new, "--json").out)
    assert said["changed"] == []
    assert said["metric"] is None  # no labels
    assert said["predictions"]["names"] == ["prediction: p(ill)"]


def test_a_shift_ends_with_3_and_is_named(home, tmp_path):
    rng = np.random.default_rng(0)
    new = write_vitals(tmp_path / "new.csv", patients=40, seed=4, temp=lambda row: f"{rng.normal(39.5, 0.3):.2f}")
    said = json.loads(chronode("check", home / "run", new, "--json", "-o", tmp_path / "page.html", code=3).out)
    assert "temp: level" in said["changed"]
    assert not any(name.startswith("hr") for name in said["changed"])
    assert "temp: level (changed)" in (tmp_path / "page.html").read_text()
    assert said["metric"]["before"] >= 0


def test_wrong_labels_make_the_metric_worse(home, tmp_path):
    new = write_vitals(
        tmp_path / "new.csv", patients=40, seed=4, outcome=lambda row: ["well", "ill"][row["outcome"] == "well"]
    )
    said = json.loads(chronode("check", home / "run", new, "--json", code=3).out)
    assert said["changed"][-1].endswith("is worse")
    assert said["metric"]["now"] > said["metric"]["before"]


def test_a_forecast_of_one_series(tmp_path):
    rng = np.random.default_rng(0)
    x = np.sin(np.arange(400) / 5) + 0.1 * rng.normal(size=400)
    lines = [f"{t},{value:.4f}" for t, value in enumerate(x)]
    (tmp_path / "a.csv").write_text("t,x\n" + "\n".join(lines[:300]) + "\n")
    (tmp_path / "b.csv").write_text("t,x\n" + "\n".join(lines[300:]) + "\n")
    wild = [f"{t},{4 * value:.4f}" for t, value in enumerate(x[300:])]
    (tmp_path / "c.csv").write_text("t,x\n" + "\n".join(wild) + "\n")
    flags = ("--time", "t", "--forecast", 2, "--model", "gru", "--epochs", 1, "-o", tmp_path / "run")
    chronode("train", tmp_path / "a.csv", *flags, *QUICK)
    chronode("check", tmp_path / "run", tmp_path / "b.csv")
    said = json.loads(chronode("check", tmp_path / "run", tmp_path / "c.csv", "--json", code=3).out)
    assert "x: spread" in said["changed"]


def test_refusals(home, tmp_path):
    chronode("pack", home / "run", "-o", tmp_path / "model.chronode")
    assert "run folder" in chronode("check", tmp_path / "model.chronode", home / "vitals.csv", code=2).err
    assert ".html" in chronode("check", home / "run", home / "vitals.csv", "-o", "page.csv", code=2).err
