"""`chronode train`, `runs` and `show`: what is printed, what is in the folder, what a config file changes."""

import json

import numpy as np
import pytest
import yaml
from commands import QUICK, VITALS, chronode, write_vitals
from work_folder import vitals_file, work_folder

import chronode as package

here = pytest.fixture(work_folder)
vitals = pytest.fixture(vitals_file)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run that several tests look at: (folder of all, what was printed)."""
    home = tmp_path_factory.mktemp("finished")
    data = write_vitals(home / "vitals.csv")
    output = chronode("train", data, *VITALS, *QUICK, "--epochs", 4, "--output", home / "run", plots=True)
    return home, output.out


# ---- what it prints and writes ------------------------------------------------------------------------------


def test_it_tells_the_facts_the_split_the_model_and_the_scores(finished):
    home, out = finished
    assert f"{home / 'vitals.csv'}: " in out
    assert "→ 40 series, 4-8 observations each, median gap:" in out
    assert '2 classes (class "well": 65%)' in out
    assert "time unit: hours" in out
    assert "split by patient 70/15/15 (28/6/6 series)" in out
    assert "model: mmrnn H=8" in out
    assert "mmrnn  epoch 4/4  loss" in out
    assert "majority" in out
    assert f"next: chronode show {home / 'run'} --open" in out


def test_the_folder_holds_all_that_was_promised_and_no_pickle(finished):
    folder = finished[0] / "run"
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "environment.json", "metrics.jsonl", "report.html", "data.json"}
    assert names >= {"model.safetensors", "model.json", "predictions.csv", "summary.json", "checkpoints"}
    for path in folder.rglob("*"):
        assert path.suffix not in (".pkl", ".pickle", ".pt", ".pth", ".ckpt"), path
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4


def test_it_learns_what_the_pulse_tells(here):
    data = write_vitals(here / "vitals.csv", patients=60)
    output = chronode("train", data, *VITALS, *QUICK, "--epochs", 12, "--json")
    summary = json.loads(output.out)
    assert summary["run"] == "runs/vitals-1"
    assert summary["test"]["accuracy"] > 0.85 > summary["baselines"]["majority"]["accuracy"] > 0.5
    assert "/12  loss" in output.err
    assert summary["stopped"] == "early"  # next to no loss is left


def test_the_next_run_gets_the_next_folder_and_runs_lists_both(vitals):
    for _ in range(2):
        chronode("train", vitals, *VITALS, *QUICK, "--epochs", 1)
    listed = json.loads(chronode("runs", "--json").out)
    assert [row["run"] for row in listed] == ["runs/vitals-1", "runs/vitals-2"]
    assert all(row["status"] == "finished" and row["model"] == "mmrnn" for row in listed)
    table = chronode("runs").out
    assert "vitals-2" in table and "accuracy" in table


def test_show_tells_what_was_asked_and_how_it_went(finished):
    folder = finished[0] / "run"
    output = chronode("show", folder).out
    assert "finished, mmrnn on" in output
    assert "hidden 8" in output
    assert "made with: " in output
    whole = json.loads(chronode("show", folder, "--json").out)
    assert len(whole["metrics"]) == 4
    assert whole["environment"]["chronode"] == package.__version__
    assert whole["config"]["training"]["epochs"] == 4


def test_a_task_is_trained_by_its_name(here):
    few = ("--option", "train=64", "--option", "valid=16", "--option", "test=16")
    summary = json.loads(chronode("train", "bitstream", *few, *QUICK, "--epochs", 1, "--model", "gru", "--json").out)
    assert summary["run"] == "runs/bitstream-1"
    assert set(summary["test"]) == {"loss", "accuracy"}


def test_a_ts_file_needs_no_target(here):
    lines = [f"{i % 2},{i % 3}.5,{i % 2}:{'up' if i % 2 else 'down'}" for i in range(20)]
    (here / "a.ts").write_text("@univariate true\n@classLabel true up down\n@data\n" + "\n".join(lines))
    summary = json.loads(chronode("train", "a.ts", *QUICK, "--epochs", 1, "--model", "lstm", "--json").out)
    assert "accuracy" in summary["test"]


def test_baseline_also_trains_an_lstm(vitals):
    output = chronode("train", vitals, *VITALS, *QUICK, "--epochs", 1, "--baseline").out
    assert "lstm-dt  epoch 1/1" in output
    assert " lstm-dt ┃" in output


def test_values_are_measured_beside_their_mean_and_residuals_are_drawn(here):
    data = write_vitals(here / "vitals.csv", outcome=lambda row: float(row["patient"][1:]) + 0.5)
    summary = json.loads(chronode("train", data, *VITALS, *QUICK, "--epochs", 1, "--json", plots=True).out)
    assert set(summary["test"]) == {"loss", "rmse", "mae", "r2"}
    # Patients are numbered 0.5 ... 39.5: their mean is off by about sqrt(1600 / 12) in their own units.
    assert 5 < summary["baselines"]["mean"]["rmse"] < 20
    assert "mean residual" in (here / "runs/vitals-1/report.html").read_text()


def test_a_forecast_of_one_long_series_is_split_by_time_and_beside_the_last_value(here):
    rows = "\n".join(f"{t},{(-1) ** t}" for t in range(120))
    (here / "wave.csv").write_text(f"t,x\n{rows}\n")
    flags = ("--time", "t", "--forecast", 2, "--window", 10, "--stride", 5)
    output = chronode("train", "wave.csv", *flags, *QUICK, "--epochs", 2, "--model", "lstm").out
    assert "split by time 70/15/15" in output
    summary = json.loads((here / "runs/wave-1/summary.json").read_text())
    # One step ahead the wave has changed its sign (off by 2), two steps ahead it is back.
    assert summary["baselines"]["last value"]["rmse"] == pytest.approx(2**0.5, rel=1e-4)
    assert summary["baselines"]["last value"]["mae"] == pytest.approx(1.0, rel=1e-4)


# ---- config files --------------------------------------------------------------------------------------------


def test_a_printed_config_gives_the_same_run(finished, tmp_path):
    home, _ = finished
    asked = ("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 4)
    text = chronode(*asked, "--print-config").out
    assert not (tmp_path / "runs").exists()
    content = yaml.safe_load(text)
    assert set(content) == {"data", "model", "training"}
    assert content["data"]["target"] == ["outcome"] and content["training"]["learning_rate"] == 0.02
    (tmp_path / "run.yaml").write_text(text)
    chronode("train", "--config", tmp_path / "run.yaml", "--output", tmp_path / "again")
    weights = [(folder / "model.safetensors").read_bytes() for folder in (home / "run", tmp_path / "again")]
    assert weights[0] == weights[1]


def test_flags_go_before_the_file(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "training: {epochs: 7, clip: 0.5, learning_rate: 1e-3}\nmodel: {settings: {dropout: 0.5}}"
    )
    flags = ("--epochs", 3, "--set", "memory=low")
    output = yaml.safe_load(chronode("train", "x.csv", "--config", tmp_path / "a.yaml", *flags, "--print-config").out)
    assert (output["training"]["epochs"], output["training"]["clip"]) == (3, 0.5)
    assert output["training"]["learning_rate"] == 0.001  # YAML itself takes 1e-3 for text
    assert output["model"]["settings"] == {"dropout": 0.5, "memory": "low"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training: {epoch: 3}", "Did you mean 'epochs'"),
        ("trainig: {epochs: 3}", "no section 'trainig'"),
        ("model: {epochs: 3}", "'epochs' belongs to training"),
        ("training: {epochs: many}", "whole number"),
        ("- 1", "sections data, model and training"),
        ("a: [", "not valid YAML"),
        ("data: !!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_a_wrong_config_is_refused_by_name(text, expected, tmp_path):
    (tmp_path / "a.yaml").write_text(text)
    done = chronode("train", "x.csv", "--config", tmp_path / "a.yaml", "--print-config", code=2)
    assert expected in done.err and "a.yaml" in done.err


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "runs", "show"])
def test_every_command_has_help_with_an_example(command):
    assert f"Example: chronode {command}" in chronode(command, "--help").out


# ---- baselines -----------------------------------------------------------------------------------------------


def test_a_model_that_loses_to_a_baseline_is_reported_with_three_remedies(here):
    rows = "\n".join(f"{t},{t % 7 + 0.1 * t}" for t in range(150))
    (here / "saw.csv").write_text(f"t,x\n{rows}\n")
    flags = ("--time", "t", "--forecast", 3, "--start", "none", "--output", "run")
    output = chronode("train", "saw.csv", *flags, *QUICK, "--epochs", 1, "--model", "gru").out
    assert 'The model is the baseline "seasonal naive (7)"' in output
    assert output.count(";") >= 2 and "a lower learning rate (--lr 0.001)" in output
    summary = json.loads((here / "run/summary.json").read_text())
    assert summary["notes"][-1].startswith('The model is the baseline "seasonal naive (7)"')
    assert "Baselines: the model is not healthy" in chronode("analyze", "health", "run").out


def test_a_forecast_has_a_linear_start_that_the_summary_tells_of(here):
    rows = "\n".join(f"{t},{t % 7 + 0.1 * t}" for t in range(150))
    (here / "saw.csv").write_text(f"t,x\n{rows}\n")
    output = chronode("train", "saw.csv", "--time", "t", "--forecast", 3, *QUICK, "--epochs", 1, "--output", "run").out
    assert "linear start alone" in output
    assert "linear start (values): validation loss" in output
    summary = json.loads((here / "run/summary.json").read_text())
    assert summary["start"]["features"] == "values"
    assert summary["test"]["mae"] < 0.2 * summary["baselines"]["last value"]["mae"]


def test_intervals_of_a_training_are_what_predict_writes(here):
    rows = "\n".join(f"{t},{t % 4 + 0.1 * t:.2f}" for t in range(60))
    (here / "saw.csv").write_text(f"t,x\n{rows}\n")
    flags = ("--time", "t", "--forecast", 3, "--intervals", "80", "--epochs", 1, "--output", "run")
    chronode("train", "saw.csv", *flags, *QUICK)
    assert chronode("predict", "run", "saw.csv").out.splitlines()[0] == "series,t,channel,forecast,lower_80,upper_80"
    output = chronode("train", "saw.csv", "--target", "x", "--intervals", "80", code=2).err
    assert "--intervals" in output and "--forecast" in output


def test_one_series_with_a_label_at_every_step_has_a_linear_start_and_a_report(here):
    rng = np.random.default_rng(0)
    level = np.repeat(rng.normal(size=40) * 3, 10) + rng.normal(size=400) / 5
    rows = "\n".join(f"{t},{x:.3f},{'high' if x > 0 else 'low'}" for t, x in enumerate(level))
    (here / "log.csv").write_text(f"t,x,state\n{rows}\n")
    output = chronode(
        "train", "log.csv", "--time", "t", "--target", "state", "--epochs", 2, "--output", "run", plots=True
    ).out
    assert "linear start (summaries): validation loss" in output
    summary = json.loads((here / "run/summary.json").read_text())
    assert summary["test"]["accuracy"] > 0.9 > summary["baselines"]["majority"]["accuracy"]
    assert "<svg" in (here / "run/report.html").read_text()
    chronode("train", "log.csv", "--time", "t", "--target", "state", "--model", "gru", *QUICK, "--output", "named")
    found = json.loads((here / "named/summary.json").read_text())["baselines"]
    assert found["linear (summaries)"]["accuracy"] > found["majority"]["accuracy"]
