"""Parts of the data on the command line: without a test part, with two shares, and with a test file."""

import csv
import json

import numpy as np
import pytest
from commands import QUICK, VITALS, chronode, write_vitals
from work_folder import vitals_file, work_folder

from chronode.data import read
from chronode.data._split import split_for_training
from chronode.runs import Config, prepare

here = pytest.fixture(work_folder)
vitals = pytest.fixture(vitals_file)
SHORT = (*QUICK, "--epochs", 1)


def facts(run, name="data"):
    return json.loads((run / f"{name}.json").read_text())


def series_of(path):
    return read(path, id="patient", time="charted_at", target="outcome")


@pytest.mark.parametrize("more", [(), ("--baseline",)])
def test_a_run_without_a_test_part_is_finished_and_says_so(here, vitals, more):
    done = chronode("train", vitals, *VITALS, *SHORT, *more, "--split", "0.8,0.2,0", "-o", here / "run", plots=not more)
    assert facts(here / "run")["series"] == {"train": 32, "valid": 8, "test": 0}
    summary = facts(here / "run", "summary")
    assert summary["status"] == "finished" and summary["test"] == {} and summary["valid"]["loss"] > 0
    assert "no test part" in done.out and "predictions.csv" not in done.out
    assert not (here / "run" / "predictions.csv").exists()
    assert more or "<h2" in (here / "run" / "report.html").read_text()
    chronode("show", here / "run")
    chronode("runs", here)
    for command in ("evaluate", "predict"):
        refused = chronode(command, here / "run", code=2).err
        assert "no test part" in refused and "pass a file" in refused
    scores = json.loads(chronode("evaluate", here / "run", vitals, "--json").out)
    assert scores["series"] == 40 and scores["baselines"]["majority"]
    chronode("pack", here / "run", "-o", here / "model.chronode")
    chronode("train", "--resume", here / "run", "--epochs", 2)
    assert facts(here / "run", "summary")["epochs"] == 2


def test_a_forecast_and_targets_per_step_need_no_test_part(here):
    rng = np.random.default_rng(0)
    lines = [f"{t},{np.sin(t / 3) + 0.1 * rng.normal():.3f},{t % 5}" for t in range(120)]
    (here / "wave.csv").write_text("\n".join(["t,x,y", *lines]) + "\n")
    common = (here / "wave.csv", "--time", "t", "--split", "0.8,0.2,0", *SHORT)
    chronode("train", *common, "--forecast", 3, "-o", here / "a", plots=True)
    chronode("train", *common, "--target", "y", "-o", here / "b")
    for run in ("a", "b"):
        sizes = facts(here / run)["series"]
        assert sizes["test"] == 0 and sizes["valid"] > 0


def test_two_shares_are_training_and_test(here, vitals):
    done = chronode("train", vitals, *VITALS, *SHORT, "--split", "0.75,0.25", "-o", here / "run")
    assert "training and test" in done.out
    sizes = facts(here / "run")["series"]
    held = split_for_training(series_of(vitals), (0.75 * 70 / 85, 0.75 * 15 / 85, 0.25))
    assert sizes == {"train": len(held[0]), "valid": len(held[1]), "test": 10}
    with (here / "run" / "predictions.csv").open() as file:
        assert [row["patient"] for row in csv.DictReader(file)] == held[2].ids.tolist()
    chronode("evaluate", here / "run")


@pytest.mark.parametrize("split", ["0.8", "0.5,0.2", "0.5,0.2,0.2,0.1", "-0.5,1,0.5", "0,1"])
def test_shares_that_cannot_be_used_are_refused_by_name(here, vitals, split):
    assert "--split" in chronode("train", vitals, *VITALS, *SHORT, f"--split={split}", code=2).err


def test_without_a_validation_part_the_training_part_chooses(here, vitals):
    done = chronode("train", vitals, *VITALS, *SHORT, "--split", "0.8,0,0.2", "-o", here / "run")
    assert "no validation part" in done.out
    assert facts(here / "run")["series"] == {"train": 32, "valid": 32, "test": 8}


def test_the_test_part_may_be_another_file(here, vitals):
    later = write_vitals(here / "later.csv", patients=9, seed=5, patient=lambda row: f"q{row['patient']}")
    common = ("train", vitals, *VITALS, *SHORT, "--test", later)
    done = chronode(*common, "-o", here / "run", plots=True)
    assert "later.csv" in done.out and "also in" not in done.out
    assert facts(here / "run")["series"] == {"train": 33, "valid": 7, "test": 9}
    test = facts(here / "run", "summary")["test"]
    scores = json.loads(chronode("evaluate", here / "run", later, "--json").out)["metrics"]
    assert scores == pytest.approx(test, rel=1e-6)
    assert json.loads(chronode("evaluate", here / "run", "--json").out)["series"] == 9
    with (here / "run" / "predictions.csv").open() as file:
        assert {row["patient"] for row in csv.DictReader(file)} == {f"qp{i:02d}" for i in range(9)}
    # Training sees nothing of it.
    other = write_vitals(here / "other.csv", patients=5, seed=6)
    chronode(*common[:-1], other, "-o", here / "again")
    assert facts(here / "again")["reading"] == facts(here / "run")["reading"]
    assert (here / "again" / "model.safetensors").read_bytes() == (here / "run" / "model.safetensors").read_bytes()
    assert any("5 ids" in note and "p00" in note for note in facts(here / "again")["notes"])
    later.write_text(later.read_text().replace("well", "ill", 4))
    assert "later.csv has changed" in chronode("evaluate", here / "run", code=2).err


def test_shares_beside_a_test_file_are_training_and_validation(here, vitals):
    later = write_vitals(here / "later.csv", patients=9, seed=5)
    common = ("train", vitals, *VITALS, *SHORT, "--test", later)
    for split in ("0.9,0.1", "0.9,0.1,0"):
        chronode(*common, "--split", split, "-o", here / split)
        assert facts(here / split)["series"] == {"train": 36, "valid": 4, "test": 9}
    refused = chronode(*common, "--split", "0.6,0.2,0.2", code=2).err
    assert "--test" in refused and "two shares" in refused
    assert "no such file" in chronode(*common[:-1], here / "late.csv", code=2).err
    assert "later.csv" in chronode(*common[:-1], here / "late.csv", code=2).err
    assert "--test" in chronode("train", "bitstream", "--test", later, code=2).err


def test_a_forecast_is_tested_on_the_series_of_another_file(here):
    for name, size in (("wave.csv", 120), ("later.csv", 40)):
        lines = [f"{t},{np.sin(t / 3):.3f}" for t in range(size)]
        (here / name).write_text("\n".join(["t,x", *lines]) + "\n")
    chronode(
        *("train", here / "wave.csv", "--time", "t", "--forecast", 3, *SHORT),
        *("--test", here / "later.csv", "-o", here / "run"),
    )
    found = facts(here / "run", "summary")["test"]
    scores = json.loads(chronode("evaluate", here / "run", here / "later.csv", "--json").out)["metrics"]
    assert scores["rmse"] == pytest.approx(found["rmse"], rel=1e-6)


def test_comparisons_need_a_test_part(here, vitals):
    common = ("compare", vitals, *VITALS, "--models", "gru,lstm", "--epochs", 1, "--split", "0.8,0.2,0")
    assert "test part" in chronode(*common, code=2).err


def test_sources_name_both_files(here, vitals):
    later = write_vitals(here / "later.csv", patients=9, seed=5)
    asked = {"source": str(vitals), "id": "patient", "time": "charted_at", "target": "outcome", "test": str(later)}
    prepared = prepare(Config.from_dict({"data": asked, "model": {"model": "gru"}}))
    assert prepared.source["test"]["file"] == "later.csv" and len(prepared.source["test"]["sha256"]) == 64
