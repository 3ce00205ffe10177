"""Ensembles of runs: the mean of the outputs, as one run that the other commands take."""

import csv
import io
import json

import numpy as np
import pytest
import torch
from commands import QUICK, VITALS, chronode, write_vitals

from chronode.runs import best_runs, load, prepared_of

SHORT = (*VITALS, *QUICK, "--epochs", 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("ensemble")
    write_vitals(home / "vitals.csv")
    for name, more in (("mmrnn", ()), ("gru", ("--model", "gru", "--start", "linear")), ("ltc", ("--seed", 3))):
        chronode("train", home / "vitals.csv", *SHORT, *more, "-o", home / "runs" / name)
    return home


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_output_is_the_mean_of_the_runs(home):
    runs = [home / "runs" / name for name in ("mmrnn", "gru")]
    done = chronode("ensemble", *runs, "-o", home / "both", plots=True)
    assert "mean of mmrnn, " in done.out and "combined: validation loss" in done.out
    both, each = load(home / "both"), [load(run) for run in runs]
    batch = prepared_of(both).parts.test.batch()
    with torch.no_grad():
        outputs = [trained.model(batch.x, **batch.inputs) for trained in (both, *each)]
    torch.testing.assert_close(outputs[0], (outputs[1] + outputs[2]) / 2)
    summary = json.loads((home / "both" / "summary.json").read_text())
    assert {"mmrnn", "gru", "majority"} <= set(summary["baselines"]) and summary["status"] == "finished"
    assert "<h2" in (home / "both" / "report.html").read_text()
    assert both.model.num_weights == sum(trained.model.num_weights for trained in each)
    chronode("pack", home / "both", "-o", home / "both.chronode")
    rows = [table(chronode("predict", home / name, home / "vitals.csv").out) for name in ("both", "both.chronode")]
    assert rows[0] == rows[1] and len(rows[0]) == 40
    chronode("evaluate", home / "both", home / "vitals.csv")
    chronode("check", home / "both", home / "vitals.csv")
    chronode("threshold", home / "both", "--cost", "fn=5,fp=1")
    chronode("show", home / "both")


def test_what_needs_one_network_is_refused_with_the_cure(home):
    if not (home / "both").exists():
        chronode("ensemble", home / "runs" / "mmrnn", home / "runs" / "gru", "-o", home / "both")
    both = load(home / "both")
    for capability in ("stream", "export c", "explain"):
        assert "ensemble of" in both.can(capability).reason and "one of its runs" in both.can(capability).cure
    assert "one of its runs" in chronode("evaluate", home / "both", "--folds", 2, code=2).err
    refused = chronode("train", home / "vitals.csv", "--from", home / "both", code=2).err
    assert "pass one of its runs" in refused
    refused = chronode("ensemble", home / "both", home / "runs" / "gru", code=2).err
    assert "is an ensemble already" in refused
    refused = chronode("ensemble", home / "runs" / "mmrnn", home / "runs" / "ltc", code=2).err
    assert "different series (seed differs)" in refused and "same data, options of the data and seed" in refused
    assert "at least two finished runs" in chronode("ensemble", home / "runs" / "gru", code=2).err


def test_the_best_runs_by_validation(home):
    values = {path: load(path).facts["summary"]["valid"]["loss"] for path in (home / "runs").iterdir()}
    assert best_runs([home / "runs"], 2) == sorted(values, key=lambda path: values[path])[:2]
    assert best_runs([home / "runs"]) == sorted(values)


def test_a_forecast_has_intervals(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{t},{np.sin(t / 3) + 0.1 * rng.normal():.3f}" for t in range(150)]
    (tmp_path / "wave.csv").write_text("\n".join(["t,x", *rows]) + "\n")
    common = (tmp_path / "wave.csv", "--time", "t", "--forecast", 3, "--window", 12, *QUICK, "--epochs", 1)
    for name in ("gru", "rnn"):
        chronode("train", *common, "--model", name, "-o", tmp_path / "runs" / name)
    chronode("ensemble", tmp_path / "runs", "--best", 2, "-o", tmp_path / "both")
    rows = table(chronode("predict", tmp_path / "both", tmp_path / "wave.csv", "--intervals", 80).out)
    assert len(rows) == 3 and float(rows[0]["lower_80"]) < float(rows[0]["forecast"]) < float(rows[0]["upper_80"])
