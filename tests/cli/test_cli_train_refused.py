"""`chronode train` when something is wrong, before or in training: one message with the cure, and no traceback."""

import json
import os
from unittest import mock

import pytest
import torch
from commands import QUICK, VITALS, chronode, write_vitals
from work_folder import vitals_file, work_folder

from chronode.model._model import SequenceModel
from chronode.runs import Run
from chronode.storage._files import DiskFull

here = pytest.fixture(work_folder)
vitals = pytest.fixture(vitals_file)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("vitals.csv",), "a target is missing: pass --target"),
        (("vital.csv", "--target", "outcome"), "Did you mean 'vitals.csv'"),
        (("bitstraem",), "Did you mean 'bitstream'"),
        (("vitals.csv", "--target", "outcom", "--id", "patient"), "Did you mean --target outcome?"),
        (("vitals.csv", *VITALS, "--model", "mmrn"), "Did you mean 'mmrnn'"),
        (("vitals.csv", *VITALS, "--set", "solvr=euler"), "solvr"),
        (("vitals.csv", *VITALS, "--set", "dropout"), "NAME=VALUE"),
        (("vitals.csv", *VITALS, "--epochs", "-1"), "at least 0"),
        (("vitals.csv", *VITALS, "--metric", "acuracy"), "accuracy"),
        (("vitals.csv", *VITALS, "--lr", "1e38"), "must be less than 1000000.0, got 1e+38"),
        (("vitals.csv", *VITALS, "--schedule", "linear"), "choose one of"),
        (("vitals.csv", "--forecast", "2", *VITALS), "pass --channels outcome instead of --target outcome"),
        (("bitstream", "--target", "x"), "is a task with its own data"),
        ((), "pass a file or a task"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_folder(words, expected, here):
    write_vitals(here / "vitals.csv", patients=12)
    done = chronode("train", *words, code=2)
    assert expected in done.err
    assert "Traceback" not in done.err
    assert not (here / "runs").exists()


def test_a_class_that_training_lacks_is_reported(here):
    lines = [f"{i % 2},{i % 3}.5:{'up' if i % 2 else 'down'}" for i in range(20)]
    (here / "a.ts").write_text("@univariate true\n@classLabel true up down side\n@data\n" + "\n".join(lines))
    output = chronode("train", "a.ts", *QUICK, "--epochs", 1, "--model", "lstm").out
    assert "no training series has the class 'side'" in output


def test_a_loss_that_is_not_finite_ends_with_the_step_the_ids_and_what_to_try(here):
    data = write_vitals(here / "vitals.csv", outcome=lambda row: float(row["patient"][1:]) + 0.5)
    wild = ("--lr", "9e5", "--clip", "0", "--optimizer", "sgd")
    done = chronode("train", data, *VITALS, *QUICK, *wild, "--epochs", 5, "-o", "run", code=1)
    assert "not finite at epoch" in done.err and "series p" in done.err and "--learning-rate" in done.err
    assert json.loads((here / "run/summary.json").read_text())["status"] == "failed"
    weights = SequenceModel.load(here / "run/model").state_dict()
    assert all(tensor.isfinite().all() for tensor in weights.values())
    assert "error: " in chronode("show", "run").out


def test_an_exploded_loss_is_not_a_finished_run(here):
    data = write_vitals(here / "vitals.csv", outcome=lambda row: float(row["patient"][1:]) + 0.5)
    done = chronode("train", data, *VITALS, *QUICK, "--lr", "1e3", "--epochs", 5, "-o", "run", code=1)
    assert "chronode: the loss has exploded: " in done.err and "--learning-rate 1000 is probably too high" in done.err
    summary = json.loads((here / "run/summary.json").read_text())
    assert summary["status"] == "failed" and summary["fault"].startswith("the loss has exploded")
    assert "error: the loss has exploded" in chronode("show", "run").out


def test_too_little_memory_suggests_a_smaller_batch_and_low_memory(vitals):
    fault = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")
    with mock.patch.object(torch.Tensor, "backward", side_effect=fault):
        done = chronode("train", vitals, *VITALS, *QUICK, "-o", "run", code=1)
    assert "--batch-size 4" in done.err and "--set memory=low" in done.err


def test_a_full_disk_is_reported_with_the_way_on(vitals):
    fault = DiskFull("the disk is full: run/x could not be written")
    with mock.patch("chronode.runs._checkpoints.Store.save", side_effect=fault):
        done = chronode("train", vitals, *VITALS, *QUICK, "-o", "run", code=1)
    assert "the disk is full" in done.err and "chronode train --resume run" in done.err


def test_a_folder_with_something_in_it_is_refused(here, vitals):
    (here / "run").mkdir()
    (here / "run/thesis.tex").write_text("mine")
    assert "is not empty (it contains thesis.tex" in chronode("train", vitals, *VITALS, *QUICK, "-o", "run", code=2).err


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused_before_a_folder_is_made(here, vitals):
    done = chronode("train", vitals, *VITALS, *QUICK, "--accelerator", "gpu", "-o", "run", code=2)
    assert "--accelerator gpu: torch cannot find a GPU" in done.err and not (here / "run").exists()


@pytest.mark.parametrize("command", ["train", "sweep", "compare"])
def test_a_folder_whose_name_is_not_text_is_refused_at_the_start(command, here, vitals):
    name = os.fsdecode(b"run\xff")
    done = chronode(command, vitals, *VITALS, "--epochs", 1, "-o", name, code=2)
    assert "--output" in done.err
    assert "UTF-8" in done.err
    assert "series" not in done.out  # nothing was read yet
    assert not (here / name).exists()
    with pytest.raises(ValueError, match="UTF-8"):
        Run.create(here / name, {})
