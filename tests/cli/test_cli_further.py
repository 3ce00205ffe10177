"""`chronode train NEW --from RUN`: weights, scaling and classes are kept, and never made worse in validation."""

import json
import shutil

import numpy as np
import pytest
import torch
from commands import QUICK, VITALS, chronode, write_vitals

from chronode.runs import load


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("further")
    write_vitals(home / "vitals.csv")
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 3, "--output", home / "run")
    write_vitals(home / "new.csv", patients=30, seed=8, ward=lambda row: "b")
    return home


def weights(folder):
    return load(folder).model.state_dict()


def test_without_epochs_it_is_the_same_model(home, tmp_path):
    done = chronode("train", home / "new.csv", "--from", home / "run", "--epochs", 0, "-o", tmp_path / "run")
    assert "'ward'" in done.out  # a column that the model does not use
    old, new = weights(home / "run"), weights(tmp_path / "run")
    assert all(torch.equal(old[name], new[name]) for name in old if old[name].dtype.is_floating_point)
    first, second = (load(folder) for folder in (home / "run", tmp_path / "run"))
    assert first.scaler == second.scaler
    assert first.objective.classes == second.objective.classes
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["test"] == pytest.approx(summary["baselines"]["before (--from)"])


def test_training_goes_on_from_the_old_weights(home, tmp_path):
    flags = ("--epochs", 1, "--lr", 1e-5, "-o", tmp_path / "run")
    chronode("train", home / "new.csv", "--from", home / "run", *flags)
    old, new = weights(home / "run"), weights(tmp_path / "run")
    moved = [(new[name] - old[name]).abs().max() for name in old if old[name].dtype == torch.float32]
    assert 0 < max(moved) < 1e-3
    trained = load(tmp_path / "run")
    # The row of the old model is what it scores on the new test part.
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    said = (tmp_path / "run/predictions.csv").read_text().splitlines()[1:]
    patients = {row.split(",")[0] for row in said}
    series = load(home / "run").series(home / "new.csv", labeled=True)
    part = series[np.isin(series.ids, list(patients))]
    assert len(part) == len(patients) == trained.facts["data"]["series"]["test"]
    scores = load(home / "run").evaluate(part)
    assert summary["baselines"]["before (--from)"]["loss"] == pytest.approx(scores["loss"], rel=1e-4)


def test_weights_that_validate_worse_are_not_kept(home, tmp_path):
    flags = ("--epochs", 1, "--lr", 1.5, "-o", tmp_path / "run")
    done = chronode("train", home / "new.csv", "--from", home / "run", *flags)
    assert "its weights are kept" in done.out
    old, new = weights(home / "run"), weights(tmp_path / "run")
    assert all(torch.equal(old[name], new[name]) for name in old if old[name].dtype.is_floating_point)


def test_the_run_is_usable_after_its_origin_is_gone(home, tmp_path):
    shutil.copytree(home / "run", tmp_path / "old")
    chronode("train", home / "new.csv", "--from", tmp_path / "old", "--epochs", 1, "-o", tmp_path / "run")
    before = json.loads(chronode("evaluate", tmp_path / "run", "--json").out)
    shutil.rmtree(tmp_path / "old")
    assert json.loads(chronode("evaluate", tmp_path / "run", "--json").out)["metrics"] == before["metrics"]
    done = chronode("train", "--resume", tmp_path / "run", "--epochs", 2, code=2)
    assert "--from" in done.err


def test_a_forecast_is_trained_further(tmp_path):
    for name, shift in (("a", 0.0), ("b", 0.5)):
        rows = [f"{w},{t},{np.sin(t / 3 + w + shift):.4f}" for w in range(6) for t in range(40)]
        (tmp_path / f"{name}.csv").write_text("w,t,x\n" + "\n".join(rows) + "\n")
    flags = ("--id", "w", "--time", "t", "--forecast", 2, "--model", "gru", "--epochs", 1)
    chronode("train", tmp_path / "a.csv", *flags, *QUICK, "-o", tmp_path / "run")
    chronode("train", tmp_path / "b.csv", "--from", tmp_path / "run", "--epochs", 1, "-o", tmp_path / "next")
    old, new = (load(tmp_path / name) for name in ("run", "next"))
    assert (old.reading.window, old.scaler) == (new.reading.window, new.scaler)
    assert len(chronode("predict", tmp_path / "next", tmp_path / "b.csv").out.splitlines()) == 1 + 6 * 2


def test_other_classes_columns_and_options_are_refused(home, tmp_path):
    write_vitals(tmp_path / "c.csv", outcome=lambda row: "cured")
    assert "'cured'" in chronode("train", tmp_path / "c.csv", "--from", home / "run", code=2).err
    write_vitals(tmp_path / "d.csv", hr=None)
    refused = chronode("train", tmp_path / "d.csv", "--from", home / "run", code=2).err
    assert "hr" in refused
    assert "--from" in refused
    assert "--hidden-size" in chronode("train", home / "new.csv", "--from", home / "run", "--hidden", 4, code=2).err
    assert "does not exist" in chronode("train", home / "new.csv", "--from", tmp_path / "none", code=2).err
