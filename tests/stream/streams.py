"""Trained models and events that the tests of streams share."""

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
from commands import MAIN, QUICK, VITALS, chronode, write_vitals

from chronode.stream._lines import Lines


def train_vitals(home):
    """A run on classes per patient in `home / "run"`, and new patients in `home / "new.csv"`."""
    write_vitals(home / "vitals.csv")
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 2, "--output", home / "run")
    write_vitals(home / "new.csv", patients=9, seed=5, outcome=None)
    return home


def train_wave(home):
    """A run that forecasts two steps of one of two channels at every step, in `home / "run"`; times are numbers."""
    rows = [f"{w},{0.5 * t},{np.sin(t + w):.4f},{w}" for w in range(6) for t in range(12)]
    (home / "wave.csv").write_text("w,t,x,y\n" + "\n".join(rows) + "\n")
    flags = ("--id", "w", "--time", "t", "--forecast", 2, "--channels", "x", "--per-step", "--model", "gru")
    chronode("train", home / "wave.csv", *flags, *QUICK, "--epochs", 2, "--output", home / "run")
    return home


def table(text):
    """The rows of a CSV text."""
    return list(csv.DictReader(io.StringIO(text)))


def events(path):
    """The rows of a CSV file in the order of their times, so that series come mixed."""
    rows = table(path.read_text())
    return sorted(rows, key=lambda row: row.get("charted_at") or float(row["t"]))


def as_lines(rows):
    return [json.dumps({name: cell for name, cell in row.items() if cell != ""}) for row in rows]


def answered(stream, lines, size=1000):
    """Returns the output of `Lines`, and its count of errors."""
    out = []
    followed = Lines(stream, out.append)
    for start in range(0, len(lines), size):
        followed.process(lines[start : start + size])
    return "".join(out), followed.errors


def run_stream(home, text, *flags, code=0):
    """`chronode stream` in a process of its own."""
    command = [sys.executable, "-c", MAIN, "stream", str(home / "run"), *map(str, flags)]
    done = subprocess.run(command, input=text.encode(), capture_output=True, env={**os.environ, "COLUMNS": "160"})
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()
