"""`chronode compare` and `chronode sweep` from end to end, on tiny data."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml
from commands import chronode, run

from chronode.runs import Run

SMALL = ("--option", "train=64", "--option", "valid=32", "--option", "test=32", "--hidden", "4", "--epochs", "1")
NOT_FINITE = ("--set", "unicornn.delta_t=1.0e+30")


def test_compare_prints_a_table_writes_a_report_and_keeps_its_runs(tmp_path):
    command = ("compare", "bitstream", "--models", "gru, rnn", "--seeds", "2", *SMALL, "-o", str(tmp_path / "runs"))
    output = run(*command).stdout
    assert "gru, seed 1: test loss" in output
    assert "mean ± standard deviation" in output
    assert re.search(r"│ baseline: (majority|linear .*|nearest by DTW) +│", output)
    assert "Test accuracy: runs" in (tmp_path / "runs" / "comparison.html").read_text()
    again = run(*command, "--json")
    assert "4 of 4 runs already exist" in again.stderr
    found = json.loads(again.stdout)
    assert found == json.loads((tmp_path / "runs" / "comparison.json").read_text())
    assert found["metric"] == "accuracy"
    assert {model["model"] for model in found["models"]} == {"gru", "rnn"}
    for model in found["models"]:
        scores = [one["test"]["accuracy"] for one in model["runs"]]
        assert (model["mean"], model["spread"]) == pytest.approx((np.mean(scores), np.std(scores, ddof=1)))
        assert f"{model['mean']:.4g} ± {model['spread']:.2g}" in output
        assert model["parameters"] > 0
        assert model["seconds_per_epoch"] > 0
    best, other = found["models"]
    assert best["mean"] >= other["mean"]
    by_seed = [{one["seed"]: one["test"]["accuracy"] for one in model["runs"]} for model in (best, other)]
    gaps = np.array([by_seed[1][seed] - by_seed[0][seed] for seed in by_seed[0]])
    half = 12.7062047 * gaps.std(ddof=1) / 2**0.5  # 97.5% of Student's t with one degree of freedom
    difference = found["differences"][other["model"]]
    assert [difference[key] for key in ("mean", "low", "high", "n")] == pytest.approx(
        [gaps.mean(), gaps.mean() - half, gaps.mean() + half, 2]
    )
    table = list(csv.DictReader(io.StringIO(run(*command, "--format", "csv").stdout)))
    assert [row["model"] for row in table[:2]] == [best["model"], other["model"]]
    assert float(table[1]["difference to best"].split()[0]) == pytest.approx(gaps.mean(), rel=1e-2)
    assert "--format" in chronode(*command, "--format", "word", code=2).err


def test_compare_ends_with_code_1_if_a_model_fails(tmp_path):
    command = ("compare", "bitstream", "--models", "unicornn,rnn", "--seeds", "1", *SMALL, *NOT_FINITE)
    output = run(*command, "-o", str(tmp_path), code=1).stdout
    assert re.search(r"│ unicornn +│ +failed │", output)
    assert (
        "unicornn, seed 0: the loss is not finite" in output or "unicornn, seed 0: a gradient is not finite" in output
    )
    assert "rnn, seed 0: test loss" in output


def test_compare_takes_a_file(tmp_path):
    rows = [f"{n},{t},{n % 2 + 0.1 * t},{n % 2}" for n in range(20) for t in range(3)]
    (tmp_path / "a.csv").write_text("\n".join(["id,t,x,y", *rows]) + "\n")
    options = ("--target", "y", "--id", "id", "--time", "t", "--hidden", "2", "--epochs", "1", "--seeds", "1")
    done = run("compare", str(tmp_path / "a.csv"), "--models", "rnn", *options, "-o", str(tmp_path / "runs"), "--json")
    assert set(json.loads(done.stdout)["models"][0]["test"]) > {"accuracy", "loss", "f1", "auroc", "balanced_accuracy"}


def test_forecasts_are_compared_with_the_defaults_of_forecasts(tmp_path):
    waves = "\n".join(f"{t},{np.sin(t / 3):.4f}" for t in range(120))
    (tmp_path / "waves.csv").write_text(f"t,x\n{waves}\n")
    source = (tmp_path / "waves.csv", "--time", "t", "--forecast", 3, "--hidden", 4)
    output = chronode("compare", *source, "--models", "gru,rnn", "--seeds", 1, "-o", tmp_path / "runs").out
    assert "baseline: linear (values)" in output
    found = json.loads((tmp_path / "runs" / "comparison.json").read_text())
    assert found["metric"] == "rmse"
    used = [json.loads((tmp_path / "runs" / one.name / "config.json").read_text()) for one in tmp_path.glob("runs/*-*")]
    names = ("epochs", "batch_size", "early_stop", "metric")
    assert [[config["training"][name] for name in names] for config in used] == [[50, 4, 10, "loss"]] * 2
    flags = ("--models", "gru", "--seeds", 1, "--epochs", 2, "-o", tmp_path / "short")
    chronode("compare", *source, *flags)
    assert len(Run.open(next(tmp_path.glob("short/gru-*"))).metrics()) == 2


def test_sweep_searches_tests_the_best_and_writes_a_config_for_train(tmp_path):
    folder = tmp_path / "sweep"
    command = ("sweep", "bitstream", "--model", "unicornn", *SMALL, "--range", "layers=1,2", "--fix", "dropout=0.1")
    command = (*command, "--range", "lr=1e-3:1e-2:log", "--batch-size", "32", "-o", str(folder))
    output = run(*command, "--trials", "2").stdout
    assert "unicornn: learning_rate 0.001:0.01:log, num_layers 1,2, delta_t 0.01:0.5:log, alpha 0:31" in output
    assert "2/2  trial 1: accuracy" in output
    assert f"next: chronode train --config {folder / 'best.yaml'}" in output
    found = json.loads(run(*command, "--trials", "3", "--json").stdout)
    assert [trial["number"] for trial in found["trials"]] == [0, 1, 2]
    assert found["best"]["value"] == max(trial["value"] for trial in found["trials"] if trial["value"] is not None)
    assert set(found["test"]) == {"loss", "accuracy"}
    assert "best so far" in (folder / "search.html").read_text()
    shown = yaml.safe_load(run("train", "--config", str(folder / "best.yaml"), "--print-config").stdout)
    assert shown == yaml.safe_load((folder / "best.yaml").read_text())
    assert shown["training"]["learning_rate"] == found["best"]["settings"]["learning_rate"]
    assert shown["model"]["num_layers"] == found["best"]["settings"]["num_layers"]
    assert shown["model"]["settings"]["dropout"] == 0.1
    assert (shown["model"]["hidden_size"], shown["training"]["batch_size"]) == (4, 32)


def test_sweep_without_any_good_trial_ends_with_code_1(tmp_path):
    fixed = ("--fix", "lr=0.01", "--fix", "dropout=0", "--fix", "layers=1", "--fix", "alpha=1")
    command = ("sweep", "bitstream", "--model", "unicornn", *SMALL, *fixed, "--batch-size", "32", "--range")
    done = run(*command, "delta_t=1e30", "--trials", "1", "-o", str(tmp_path), code=1)
    assert "no trial was completed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("compare", "bitstream", "--models", "gruu"), "Did you mean 'gru'"),
        (("compare", "bitstreem", "--models", "gru"), "Did you mean 'bitstream'"),
        (("compare", "bitstream", "--models", ","), "models is empty"),
        (("compare", "bitstream", "--seeds", "0"), "--seeds"),
        (("sweep", "bitstream", "--model", "unicorn"), "Did you mean 'unicornn'"),
        (("sweep", "bitstream", "--model", "gru", "--range", "delta_t=1:2"), "no setting 'delta_t'"),
        (("sweep", "bitstream", "--range", "hidden=1,2", "--hidden", "4"), "hidden_size is both fixed and searched"),
        (("sweep", "bitstream", "--pruner", "best", "--option", "train=8"), "pruner='best' is not supported"),
    ],
)
def test_a_mistake_ends_with_one_line_and_code_2(tmp_path, monkeypatch, arguments, expected):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments, code=2)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["compare", "sweep"])
def test_help_has_an_example(command):
    assert f"Example: chronode {command} bitstream" in run(command, "--help").stdout


def test_sweep_says_what_to_install(tmp_path, monkeypatch):
    for name in ("chronode.search._sweep", "chronode.search._trials"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "optuna", None)
    done = run("sweep", "bitstream", *SMALL, "-o", str(tmp_path), code=2)
    assert done.stderr == "chronode: tuning needs optuna: pip install 'chronode[tune]'\n"


COMPARE = ("compare", "--models", "gru,rnn")
SWEEP = ("sweep", "--model", "gru", "--range", "layers=1,2")


@pytest.mark.slow
@pytest.mark.parametrize("command", [COMPARE, SWEEP])
def test_ctrl_c_ends_with_one_line_and_the_same_command_resumes(tmp_path, command):
    name, *options = command
    words = [name, "bitstream", *options, *SMALL[:-1], "4000", "-o", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-c", "from chronode.cli import main; main()", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = time.monotonic()
    while not _epochs(tmp_path):
        assert process.poll() is None
        assert time.monotonic() - begun < 120
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    assert "Run the same command to resume." in errors
    assert "Traceback" not in errors


def _epochs(folder):
    """Returns the number of trained epochs, by the files that a comparison or a search leaves."""
    if not (folder / "study.db").is_file():
        return sum(len(path.read_text().splitlines()) for path in folder.glob("*/metrics.jsonl"))
    with contextlib.closing(sqlite3.connect(folder / "study.db")) as study:
        try:
            return study.execute("select count(*) from trial_intermediate_values").fetchone()[0]
        except sqlite3.OperationalError:  # the tables are being made
            return 0
