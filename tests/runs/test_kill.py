"""`chronode train` killed by SIGKILL at any moment goes on and ends with the same weights, bit for bit."""

import json
import random

import pytest
from commands import QUICK, VITALS, chronode, write_vitals
from victims import victims

# The victim is forked from a process that has imported everything, so that a kill costs no start-up.
WORK = """
import contextlib, os, sys, time
import matplotlib.figure, pandas, pyarrow.compute, pyarrow.csv
import safetensors.torch, torch
import chronode.cli.app, chronode.training._runner, chronode.runs._train, chronode.report.run_page
torch.set_num_threads(1)
from chronode.cli import main

class Ear:
    # Says the first word when so many lines were printed.

    def __init__(self, say, lines):
        self.say, self.lines = say, lines

    def write(self, text):
        for _ in range(text.count("\\n")):
            self.lines -= 1
            if self.lines == 0:
                self.say("begun")

    def flush(self):
        pass

    def isatty(self):
        return False


def work(say, lines, *words):
    ear = Ear(say, lines)
    if not lines:
        say("begun")
    sys.argv = ["chronode", *words]
    with contextlib.redirect_stdout(ear), contextlib.redirect_stderr(ear):
        main()
    say("done")
    time.sleep(60)
"""
HARD = ("--subsample", "0.8", "--average", "ema", "--average-decay", "0.9", "--schedule", "cosine", "--seed", "3")
# These series are learned within a few epochs; without this, a run would be over before the kills.
LONG = ("--early-stop", "0")


def lines_of(folder):
    """The metrics of all epochs, without the seconds, which no run has twice."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def next_words(asked, folder):
    """The command that goes on; a run that was killed before its folder was one is asked for again."""
    begun = (folder / "run.json").is_file()
    return ("train", "--resume", str(folder)) if begun else (*asked, "--output", str(folder))


def kill(times, rng, asked, folder):
    """Kills the training so often, and resumes it each time; returns after which epochs the kills came.

    A kill comes at a random moment after the start, or after some more lines (an epoch each) were printed: so it
    hits every stage of a run, and the run gets on, however slow the machine is.
    """
    epochs = []
    with victims(WORK) as killed_after:
        for _ in range(times):
            said = killed_after(rng.uniform(0, 0.05), rng.choice((0, 0, 1, 2, 3, 4)), *next_words(asked, folder))
            assert "done" not in said, f"it was done before the last kill: {epochs}"
            epochs.append(len(lines_of(folder)) if (folder / "metrics.jsonl").is_file() else 0)
    return epochs


@pytest.mark.parametrize("times", [10, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_at_random_moments_change_no_bit(times, tmp_path):
    data = write_vitals(tmp_path / "vitals.csv", patients=60)
    asked = ("train", str(data), *VITALS, *QUICK, *HARD, *LONG, "--epochs", "60")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    chronode(*asked, "--output", whole)
    epochs = kill(times, random.Random(times), asked, killed)
    assert len(set(epochs)) > times / 5, f"the kills came at few places: {epochs}"
    chronode("train", "--resume", killed)
    for name in ("model.safetensors", "model.json", "predictions.csv", "data.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert lines_of(killed) == lines_of(whole)
    ends = [json.loads((folder / "summary.json").read_text()) for folder in (whole, killed)]
    assert {**ends[0], "seconds": 0} == {**ends[1], "seconds": 0}


def test_another_seed_gives_other_weights(tmp_path):
    """The values that the test above compares can differ."""
    data = write_vitals(tmp_path / "vitals.csv")
    for seed in (1, 2):
        chronode("train", data, *VITALS, *QUICK, "--epochs", 1, "--seed", seed, "--output", tmp_path / str(seed))
    files = [(tmp_path / str(seed) / "model.safetensors").read_bytes() for seed in (1, 2)]
    assert files[0] != files[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "hard", [("--optimizer", "rmsprop", "--tbptt", "3"), ("--optimizer", "sgd", "--average", "swa")]
)
def test_kills_change_no_bit_whatever_the_optimizer(hard, tmp_path):
    data = write_vitals(tmp_path / "vitals.csv", patients=60)
    asked = ("train", str(data), *VITALS, *QUICK, *hard, *LONG, "--epochs", "40")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    chronode(*asked, "--output", whole)
    kill(8, random.Random(1), asked, killed)
    chronode(*next_words(asked, killed))
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
