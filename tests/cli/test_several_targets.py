"""Several targets or channels of different units: a row of metrics each, and overall figures only of scaled values."""

import csv
import json
import re
from collections import defaultdict

import numpy as np
import pytest
from commands import chronode
from sklearn import metrics as sk

from chronode.runs import Run, load, prepared_of, read_card

SMALL = ("--model", "gru", "--hidden", 4, "--epochs", 1, "--batch-size", 32, "--seed", 0, "--threads", 1)
HORIZON = 3


def written(path, heads, rows):
    path.write_text("\n".join([heads, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture(scope="module")
def forecast(tmp_path_factory):
    """A forecast of a temperature and of a pressure, which is a thousand times as large."""
    folder, rng = tmp_path_factory.mktemp("forecast"), np.random.default_rng(0)
    temperature = 20 + np.sin(np.arange(150) / 4) + 0.1 * rng.normal(size=150)
    pressure = 1e5 + 1e3 * rng.normal(size=150).cumsum()
    rows = zip(range(150), temperature, pressure, strict=True)
    data = written(folder / "weather.csv", "hour,temperature,pressure", rows)
    common = ("--time", "hour", "--forecast", HORIZON, "--window", 12, *SMALL)
    printed = chronode("train", data, *common, "-o", folder / "run", plots=True).out
    return folder / "run", data, printed


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    """Two numbers of each series, one of them in thousands."""
    folder, rng = tmp_path_factory.mktemp("regression"), np.random.default_rng(1)
    rows = []
    for series in range(40):
        level, cost = rng.normal(), 5000 + 900 * rng.normal()
        rows += [(series, step, level + 0.3 * rng.normal(), cost / 1000, level, cost) for step in range(5)]
    return written(folder / "levels.csv", "id,t,x,y,level,cost", rows)


def test_a_forecast_has_metrics_of_each_channel_in_its_own_units(forecast):
    run, _, printed = forecast
    found = json.loads((run / "summary.json").read_text())
    pairs = defaultdict(lambda: ([], []))
    columns = list(csv.DictReader((run / "predictions.csv").read_text().splitlines()))
    model = load(run)
    test = prepared_of(model).parts.test
    predicted, true = np.stack(model.predict(test).values), np.asarray(test.target.given)
    for place, name in enumerate(model.output_names()):
        pairs[name.partition("+")[0]][0].append(true[:, place])
        pairs[name.partition("+")[0]][1].append(predicted[:, place])
    assert len(columns) and list(found["targets"]) == ["temperature", "pressure"] == list(pairs)
    for name, (known, own) in pairs.items():
        scores = found["targets"][name]["test"]
        known, own = np.transpose(known), np.transpose(own)
        assert scores["mae"] == pytest.approx(sk.mean_absolute_error(known, own), rel=1e-4)
        assert scores["rmse"] == pytest.approx(np.sqrt(np.square(known - own).mean()), rel=1e-4)
        assert scores["r2"] == pytest.approx(sk.r2_score(known, own), abs=1e-3)
        assert found["targets"][name]["baselines"].keys() == found["baselines"].keys()
    scale = np.asarray(model.scaler.target_std)
    assert found["test"]["mae"] == pytest.approx(np.abs((predicted - true) / scale).mean(), rel=1e-4)
    assert "mae (scaled)" in printed and "temperature" in printed and "pressure" in printed


def test_every_place_has_a_row_of_each_target(forecast, tmp_path):
    run, data, _ = forecast
    found = json.loads((run / "summary.json").read_text())["targets"]
    shown, report = chronode("show", run).out, (run / "report.html").read_text()
    chronode("pack", run, "-o", tmp_path / "m.chronode")
    card = read_card(tmp_path / "m.chronode")
    evaluated = json.loads(chronode("evaluate", run, "--json").out)
    listed = chronode("evaluate", run).out
    for name, own in found.items():
        mae = f"{own['test']['mae']:.4g}"
        assert mae in shown and mae in listed and mae in card and f"<td>{name}</td>" in report
        assert evaluated["targets"][name]["metrics"] == pytest.approx(own["test"])
        assert evaluated["targets"][name]["baselines"]["last value"] == pytest.approx(own["baselines"]["last value"])
    elsewhere = json.loads(chronode("evaluate", run, data, "--json").out)
    assert (
        elsewhere["targets"]["pressure"]["metrics"]["mae"] > 50 * elsewhere["targets"]["temperature"]["metrics"]["mae"]
    )
    assert "(scaled)" in chronode("show", run).out
    assert Run.open(run).summary().targets.keys() == found.keys()


def test_targets_that_are_not_scaled_have_no_pooled_error(regression, tmp_path):
    columns = ("--id", "id", "--time", "t", "--target", "level,cost")
    chronode("train", regression, *columns, *SMALL, "-o", tmp_path / "scaled")
    chronode("train", regression, *columns, *SMALL, "--no-scale", "-o", tmp_path / "raw")
    scaled, raw = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("scaled", "raw"))
    assert {"rmse", "mae", "r2"} <= scaled["test"].keys() and scaled["test"]["rmse"] < 10
    assert raw["test"].keys() == {"loss", "r2"}
    assert raw["targets"]["cost"]["test"]["mae"] > 100 > raw["targets"]["level"]["test"]["mae"]
    each = [own["test"]["r2"] for own in scaled["targets"].values()]
    assert scaled["test"]["r2"] == pytest.approx(np.mean(each), abs=1e-3)
    folds = json.loads(chronode("evaluate", tmp_path / "scaled", "--folds", 2, "--json").out)
    assert folds["metrics"]["rmse"] < 10 and folds["intervals"]["mae"][1] < 10  # pooled, they would be in hundreds
    table = chronode("evaluate", tmp_path / "scaled", "--first", 2).out
    assert "rmse (scaled)" in table and "r2 (mean)" in table
    refused = chronode("train", regression, *columns, *SMALL, "--no-scale", "--metric", "mae", code=2)
    assert "--metric" in refused.err and "Traceback" not in refused.err


def test_checks_measure_scaled_errors(forecast):
    run, data, _ = forecast
    scaled = json.loads((run / "summary.json").read_text())["test"]["rmse"]
    found = json.loads(chronode("check", run, data, "--json", code=None).out)["metric"]
    assert found["metric"] == "rmse (scaled)" and found["before"] == pytest.approx(scaled, rel=1e-3)


@pytest.mark.slow  # tracing a forecast takes seconds
def test_exports_measure_scaled_errors(forecast, tmp_path):
    run, data, _ = forecast
    printed = chronode("export", run, "--format", "onnx", "--verify", data, "-o", tmp_path / "onnx").out
    exported, own = map(float, re.search(r"rmse \(scaled\) (\S+) \(chronode (\S+)\)", printed).groups())
    assert exported == pytest.approx(own, rel=1e-3) and own < 100
