"""Trained models and events that the tests of streams share."""

import csv
import io

import numpy as np
from commands import QUICK, VITALS, chronode, write_vitals


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
