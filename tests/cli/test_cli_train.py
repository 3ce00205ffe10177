"""`chronode train`, `runs` and `show`: what is printed, what is in the folder, what is refused."""

import json
import os
import signal
import subprocess
import sys
from unittest import mock

import pytest
import torch
import yaml
from commands import MAIN, QUICK, VITALS, chronode, write_vitals

import chronode as package
from chronode.model import SequenceModel


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run that several tests look at: (folder of all, what was printed)."""
    home = tmp_path_factory.mktemp("finished")
    data = write_vitals(home / "vitals.csv")
    told = chronode("train", data, *VITALS, *QUICK, "--epochs", 4, "--output", home / "run", plots=True)
    return home, told.out


# ---- what it prints and writes ------------------------------------------------------------------------------


def test_it_tells_the_facts_the_split_the_model_and_the_scores(finished):
    home, out = finished
    assert f"{home / 'vitals.csv'}: " in out
    assert "→ 40 series, 4-8 observations, median gap" in out
    assert "2 classes (65 % well)" in out
    assert "time unit: hours" in out
    assert "split by patient 70/15/15 (28/6/6 series)" in out
    assert "model: mmrnn H=8 (why: irregular times, missing values; see `chronode models`)" in out
    assert "mmrnn  epoch 4/4  loss" in out
    assert "majority" in out
    assert f"next: chronode predict {home / 'run'}" in out


def test_the_folder_holds_all_that_was_promised_and_no_pickle(finished):
    folder = finished[0] / "run"
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "environment.json", "metrics.jsonl", "curves.png", "confusion.png", "data.json"}
    assert names >= {"model.safetensors", "model.json", "predictions.csv", "summary.json", "checkpoints"}
    for path in folder.rglob("*"):
        assert path.suffix not in (".pkl", ".pickle", ".pt", ".pth", ".ckpt"), path
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_it_learns_what_the_pulse_tells(here):
    data = write_vitals(here / "vitals.csv", patients=60)
    told = chronode("train", data, *VITALS, *QUICK, "--epochs", 12, "--json")
    summary = json.loads(told.out)
    assert summary["run"] == "runs/vitals-1"
    assert summary["test"]["accuracy"] > 0.85 > summary["baselines"]["majority"]["accuracy"] > 0.5
    assert "epoch 12/12" in told.err


def test_the_next_run_gets_the_next_folder_and_runs_lists_both(here):
    data = write_vitals(here / "vitals.csv")
    for _ in range(2):
        chronode("train", data, *VITALS, *QUICK, "--epochs", 1)
    listed = json.loads(chronode("runs", "--json").out)
    assert [row["run"] for row in listed] == ["runs/vitals-1", "runs/vitals-2"]
    assert all(row["status"] == "finished" and row["model"] == "mmrnn" for row in listed)
    table = chronode("runs").out
    assert "vitals-2" in table and "accuracy" in table


def test_show_tells_what_was_asked_and_how_it_went(finished):
    folder = finished[0] / "run"
    told = chronode("show", folder).out
    assert "finished, mmrnn on" in told
    assert "hidden 8" in told
    assert "made with: " in told
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


def test_baseline_also_trains_an_lstm(here):
    data = write_vitals(here / "vitals.csv")
    told = chronode("train", data, *VITALS, *QUICK, "--epochs", 1, "--baseline").out
    assert "lstm-dt  epoch 1/1" in told
    assert "│ lstm-dt" in told


def test_values_are_measured_beside_their_mean_and_residuals_are_drawn(here):
    data = write_vitals(here / "vitals.csv", outcome=lambda row: float(row["patient"][1:]) + 0.5)
    summary = json.loads(chronode("train", data, *VITALS, *QUICK, "--epochs", 1, "--json", plots=True).out)
    assert set(summary["test"]) == {"loss", "rmse", "mae", "r2"}
    # Patients are numbered 0.5 ... 39.5: their mean is off by about sqrt(1600 / 12) in their own units.
    assert 5 < summary["baselines"]["mean"]["rmse"] < 20
    assert (here / "runs/vitals-1/residuals.png").is_file()


def test_a_forecast_of_one_long_series_is_split_by_time_and_beside_the_last_value(here):
    rows = "\n".join(f"{t},{(-1) ** t}" for t in range(120))
    (here / "wave.csv").write_text(f"t,x\n{rows}\n")
    flags = ("--time", "t", "--forecast", 2, "--window", 10, "--stride", 5)
    told = chronode("train", "wave.csv", *flags, *QUICK, "--epochs", 2, "--model", "lstm").out
    assert "split by time 70/15/15" in told
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
    told = yaml.safe_load(text)
    assert set(told) == {"data", "model", "training"}
    assert told["data"]["target"] == ["outcome"] and told["training"]["learning_rate"] == 0.02
    (tmp_path / "run.yaml").write_text(text)
    chronode("train", "--config", tmp_path / "run.yaml", "--output", tmp_path / "again")
    weights = [(folder / "model.safetensors").read_bytes() for folder in (home / "run", tmp_path / "again")]
    assert weights[0] == weights[1]


def test_flags_go_before_the_file(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "training: {epochs: 7, clip: 0.5, learning_rate: 1e-3}\nmodel: {settings: {dropout: 0.5}}"
    )
    told = yaml.safe_load(
        chronode(
            "train", "x.csv", "--config", tmp_path / "a.yaml", "--epochs", 3, "--set", "memory=low", "--print-config"
        ).out
    )
    assert (told["training"]["epochs"], told["training"]["clip"]) == (3, 0.5)
    assert told["training"]["learning_rate"] == 0.001  # YAML itself takes 1e-3 for text
    assert told["model"]["settings"] == {"dropout": 0.5, "memory": "low"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("training: {epoch: 3}", "Did you mean 'epochs'"),
        ("trainig: {epochs: 3}", "no section 'trainig'"),
        ("model: {epochs: 3}", "'epochs' belongs to training"),
        ("training: {epochs: many}", "whole number"),
        ("- 1", "sections data, model and training"),
        ("a: [", "no YAML"),
        ("data: !!python/object/apply:os.system ['true']", "no YAML"),
    ],
)
def test_a_wrong_config_is_refused_by_name(text, told, tmp_path):
    (tmp_path / "a.yaml").write_text(text)
    done = chronode("train", "x.csv", "--config", tmp_path / "a.yaml", "--print-config", code=2)
    assert told in done.err and "a.yaml" in done.err


# ---- refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("vitals.csv",), "say what is to be learnt: --target"),
        (("vital.csv", "--target", "outcome"), "Did you mean 'vitals.csv'"),
        (("bitstraem",), "Did you mean 'bitstream'"),
        (("vitals.csv", "--target", "outcom", "--id", "patient"), "Did you mean 'outcome'"),
        (("vitals.csv", *VITALS, "--model", "mmrn"), "Did you mean 'mmrnn'"),
        (("vitals.csv", *VITALS, "--set", "solvr=euler"), "solvr"),
        (("vitals.csv", *VITALS, "--set", "dropout"), "NAME=VALUE"),
        (("vitals.csv", *VITALS, "--epochs", "0"), "at least 1"),
        (("vitals.csv", *VITALS, "--metric", "acuracy"), "accuracy"),
        (("vitals.csv", *VITALS, "--schedule", "linear"), "choose one of"),
        (("vitals.csv", "--forecast", "2", *VITALS), "leave the target out"),
        (("bitstream", "--target", "x"), "is a task and brings its own data"),
        ((), "name a file or a task"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_folder(words, told, here):
    write_vitals(here / "vitals.csv", patients=12)
    done = chronode("train", *words, code=2)
    assert told in done.err
    assert "Traceback" not in done.err
    assert not (here / "runs").exists()


def test_a_class_that_training_lacks_is_told(here):
    lines = [f"{i % 2},{i % 3}.5:{'up' if i % 2 else 'down'}" for i in range(20)]
    (here / "a.ts").write_text("@univariate true\n@classLabel true up down side\n@data\n" + "\n".join(lines))
    told = chronode("train", "a.ts", *QUICK, "--epochs", 1, "--model", "lstm").out
    assert "no training series has the class 'side'" in told


def test_a_loss_that_is_not_finite_ends_with_the_step_the_ids_and_what_to_try(here):
    data = write_vitals(here / "vitals.csv", outcome=lambda row: float(row["patient"][1:]) + 0.5)
    wild = ("--lr", "1e30", "--clip", "0", "--optimizer", "sgd")
    done = chronode("train", data, *VITALS, *QUICK, *wild, "--epochs", 5, "-o", "run", code=1)
    assert "not finite at epoch" in done.err and "series p" in done.err and "learning_rate" in done.err
    assert json.loads((here / "run/summary.json").read_text())["status"] == "failed"
    weights = SequenceModel.load(here / "run/model").state_dict()
    assert all(tensor.isfinite().all() for tensor in weights.values())
    assert "fault: " in chronode("show", "run").out


def test_too_little_memory_suggests_a_smaller_batch_and_low_memory(here):
    data = write_vitals(here / "vitals.csv")
    fault = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")
    with mock.patch.object(torch.Tensor, "backward", side_effect=fault):
        done = chronode("train", data, *VITALS, *QUICK, "-o", "run", code=1)
    assert "batch_size=4" in done.err and 'memory="low"' in done.err


def test_a_full_disk_is_told_with_the_way_on(here):
    data = write_vitals(here / "vitals.csv")
    with mock.patch("chronode.training.store.Store.save", side_effect=_full_disk):
        done = chronode("train", data, *VITALS, *QUICK, "-o", "run", code=1)
    assert "the disk is full" in done.err and "chronode train --resume run" in done.err


def _full_disk(*_):
    from chronode._files import DiskFull

    raise DiskFull("the disk is full: run/x could not be written")


# ---- going on ------------------------------------------------------------------------------------------------


def test_a_finished_run_says_so_and_more_epochs_go_on_as_if_asked_at_once(here):
    data = write_vitals(here / "vitals.csv")
    asked = ("train", data, *VITALS, *QUICK)
    chronode(*asked, "--epochs", 5, "-o", "five")
    chronode(*asked, "--epochs", 2, "-o", "two")
    before = (here / "two/model.safetensors").read_bytes()
    assert "two is finished" in chronode("train", "--resume", "two").out
    assert (here / "two/model.safetensors").read_bytes() == before
    chronode("train", "--resume", "two", "--epochs", 5)
    assert (here / "two/model.safetensors").read_bytes() == (here / "five/model.safetensors").read_bytes()
    assert json.loads((here / "two/summary.json").read_text())["epochs"] == 5


def test_a_resumed_run_refuses_other_data_other_settings_and_other_versions(here):
    data = write_vitals(here / "vitals.csv")
    chronode("train", data, *VITALS, *QUICK, "--epochs", 1, "-o", "run")
    assert "leave out --hidden" in chronode("train", "--resume", "run", "--hidden", 9, code=2).err
    assert "is no run folder" in chronode("train", "--resume", here, code=2).err
    (here / "vitals.csv").rename(here / "moved.csv")
    assert "is not there" in chronode("train", "--resume", "run", "--epochs", 2, code=2).err
    chronode("train", "moved.csv", "--resume", "run", "--epochs", 2)
    write_vitals(here / "moved.csv", seed=1)
    assert "has changed since" in chronode("train", "--resume", "run", "--epochs", 3, code=2).err
    told = json.loads((here / "run/run.json").read_text())
    (here / "run/run.json").write_text(json.dumps({**told, "version": 99}))
    for words in (("train", "--resume", "run"), ("show", "run"), ("predict", "run", "moved.csv"), ("evaluate", "run")):
        assert "version 99" in chronode(*words, code=2).err
    assert "version 99" in chronode("runs", here).err


def test_a_folder_with_something_in_it_is_refused(here):
    data = write_vitals(here / "vitals.csv")
    (here / "run").mkdir()
    (here / "run/thesis.tex").write_text("mine")
    assert "is not empty (thesis.tex" in chronode("train", data, *VITALS, *QUICK, "-o", "run", code=2).err


def test_ctrl_c_ends_cleanly_and_the_run_goes_on_to_the_same_weights(here):
    data = write_vitals(here / "vitals.csv", patients=120)
    asked = ("train", str(data), *VITALS, *QUICK, "--epochs", "20")
    words = [sys.executable, "-c", MAIN, *asked, "-o", "stopped"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes, env=environment) as process:
        assert process.stdout is not None
        assert any("epoch 2/20" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "go on by: chronode train --resume stopped" in errors
    assert "Traceback" not in errors
    assert "interrupted" in chronode("show", "stopped").out
    chronode("train", "--resume", "stopped")
    chronode(*asked, "-o", "whole")
    assert (here / "stopped/model.safetensors").read_bytes() == (here / "whole/model.safetensors").read_bytes()


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "runs", "show"])
def test_every_command_has_help_with_an_example(command):
    assert f"Example: chronode {command}" in chronode(command, "--help").out
