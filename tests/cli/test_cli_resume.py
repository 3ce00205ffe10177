"""`chronode train --resume`: a run goes on as if it had never stopped, or says what has changed."""

import json
import os
import signal
import subprocess
import sys
from unittest import mock

import pytest
from commands import MAIN, QUICK, VITALS, chronode, write_vitals
from work_folder import vitals_file, work_folder

here = pytest.fixture(work_folder)
vitals = pytest.fixture(vitals_file)


def test_a_finished_run_says_so_and_more_epochs_continue_as_if_asked_at_once(here, vitals):
    asked = ("train", vitals, *VITALS, *QUICK)
    chronode(*asked, "--epochs", 5, "-o", "five")
    chronode(*asked, "--epochs", 2, "-o", "two")
    before = (here / "two/model.safetensors").read_bytes()
    assert "two is finished" in chronode("train", "--resume", "two").out
    assert (here / "two/model.safetensors").read_bytes() == before
    chronode("train", "--resume", "two", "--epochs", 5)
    assert (here / "two/model.safetensors").read_bytes() == (here / "five/model.safetensors").read_bytes()
    assert json.loads((here / "two/summary.json").read_text())["epochs"] == 5


def test_a_resumed_run_refuses_other_data_other_settings_and_other_versions(here, vitals):
    chronode("train", vitals, *VITALS, *QUICK, "--epochs", 1, "-o", "run")
    assert "remove --hidden" in chronode("train", "--resume", "run", "--hidden", 9, code=2).err
    assert "is not a run folder" in chronode("train", "--resume", here, code=2).err
    vitals.rename(here / "moved.csv")
    assert "was not found" in chronode("train", "--resume", "run", "--epochs", 2, code=2).err
    chronode("train", "moved.csv", "--resume", "run", "--epochs", 2)
    write_vitals(here / "moved.csv", seed=1)
    assert "has changed since" in chronode("train", "--resume", "run", "--epochs", 3, code=2).err
    content = json.loads((here / "run/run.json").read_text())
    (here / "run/run.json").write_text(json.dumps({**content, "version": 99}))
    for words in (("train", "--resume", "run"), ("show", "run"), ("predict", "run", "moved.csv"), ("evaluate", "run")):
        assert "version 99" in chronode(*words, code=2).err
    assert "version 99" in chronode("runs", here).err


def test_a_run_that_was_divided_in_another_way_is_refused(here, vitals):
    """Its test part would contain series of its training; other files can still be predicted."""
    chronode("train", vitals, *VITALS, *QUICK, "--epochs", 1, "-o", "run")
    facts = json.loads((here / "run/data.json").read_text())
    (here / "run/data.json").write_text(json.dumps({**facts, "parts": {}}))
    assert "data.json: parts is not a known field" in chronode("evaluate", "run", code=2).err
    facts["reading"]["scaler"]["mean"][0] += 0.01
    (here / "run/data.json").write_text(json.dumps(facts))
    for command in (("evaluate", "run"), ("train", "--resume", "run", "--epochs", 2)):
        assert "its test part is not known" in chronode(*command, code=2).err
    chronode("predict", "run", vitals, "-o", "now.csv")


def test_a_resumed_run_refuses_another_file(here, vitals):
    chronode("train", vitals, *VITALS, *QUICK, "--epochs", 1, "-o", "run")
    write_vitals(here / "other.csv", seed=1)
    for more in ((), ("--epochs", 2)):  # also for a run that is finished
        refused = chronode("train", "other.csv", "--resume", "run", *more, code=2).err
        assert "run was trained on other data (vitals.csv), not on other.csv" in refused
        assert "omit --resume to train on other.csv" in refused
        assert "is finished" not in refused
    assert "nothing.csv: no such file" in chronode("train", "nothing.csv", "--resume", "run", code=2).err
    (here / "copy.csv").write_bytes(vitals.read_bytes())
    chronode("train", "copy.csv", "--resume", "run", "--epochs", 2)


def test_ctrl_c_ends_cleanly_and_the_run_resumes_to_the_same_weights(here):
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
    assert "resume with: chronode train --resume stopped" in errors
    assert "Traceback" not in errors
    assert "interrupted" in chronode("show", "stopped").out
    chronode("train", "--resume", "stopped")
    chronode(*asked, "-o", "whole")
    assert (here / "stopped/model.safetensors").read_bytes() == (here / "whole/model.safetensors").read_bytes()


def test_a_run_killed_while_its_report_is_drawn_gets_it_when_resumed(here, vitals):
    asked = ("train", vitals, *VITALS, *QUICK, "--epochs", 1, "-o", "run")

    def killed(*arguments):
        raise KeyboardInterrupt

    with mock.patch("chronode.report.run_page.draw_run", killed):
        chronode(*asked, plots=True, code=1)
    assert not (here / "run/report.html").exists()
    model = (here / "run/model.safetensors").read_bytes()
    assert "run is finished" in chronode("train", "--resume", "run", plots=True).out
    drawn = (here / "run/report.html").read_bytes()
    assert b"Best and worst" in drawn
    assert (here / "run/model.safetensors").read_bytes() == model
    (here / "run/report.html").unlink()
    vitals.unlink()  # without the data the run is still finished
    done = chronode("train", "--resume", "run", plots=True)
    assert "report.html could not be written" in done.out
    assert "run is finished" in done.out
