"""Ozone days in Houston, 1998 to 2004, from daily weather: a task of the LTC paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...data import Parts, Scaler, Sequences, from_list
from ...training import Sizes, Task, add_task
from ..datasets._download import folder
from ._protocols import blocks, range_windows, scaled, shuffled
from ._publisher import located
from ._text_files import Kind, read_table

FILE = "eighthr.data"
FEATURES = (
    *(f"WSR{hour}" for hour in range(24)),
    *("WSR_PK", "WSR_AV"),
    *(f"T{hour}" for hour in range(24)),
    *("T_PK", "T_AV", "T85", "RH85", "U85", "V85", "HT85", "T70", "RH70", "U70", "V70", "HT70"),
    *("T50", "RH50", "U50", "V50", "HT50", "KI", "TT", "SLP", "SLP_", "Precp"),
)
LENGTH, STRIDE = 32, 4


def read(path: Path, *, timed: bool = True) -> Sequences:
    """Reads the days of `eighthr.data` as one series; missing readings are NaN.

    Args:
        path: The folder.
        timed: Whether to use times in days (a few days are missing from the file); otherwise there are no times.
    """
    columns: dict[str, Kind] = {"date": "date", **dict.fromkeys(FEATURES, "number"), "ozone": ("0.", "1.")}
    table = read_table(located(path, FILE), columns, header=False, missing="?", dates="%m/%d/%Y")
    return from_list(
        [np.stack([table[name] for name in FEATURES], axis=1)],
        times=[table["date"]] if timed else None,
        unit="days" if timed else None,
        target=[table["ozone"]],
        classes=["normal day", "ozone day"],
        target_names=["ozone"],
        channels=FEATURES,
        ids=["ozone"],
    )


def _make(protocol: str, seed: int) -> Parts:
    path = folder("ozone")
    if protocol == "clean":
        train, valid, test = blocks(read(path), LENGTH, (STRIDE,) * 3)
        return scaled(train, valid, test)
    days = read(path, timed=False)
    days = replace(days, base_values=np.nan_to_num(days.base_values))
    mean, std = float(days.base_values.mean(dtype=np.float64)), float(days.base_values.std(dtype=np.float64))
    scaler = Scaler(FEATURES, (mean,) * len(FEATURES), (std,) * len(FEATURES))
    return scaled(*shuffled(range_windows(days, LENGTH, STRIDE), 23489), scaler)


add_task(
    Task(
        name="ozone",
        what="Ozone level detection: ozone days from 72 daily weather features",
        make=_make,
        sizes=Sizes(train=468, valid=56, test=88, steps=LENGTH, channels=len(FEATURES), classes=2),
        loss="cross_entropy",
        metric="f1",
        protocols={
            "clean": "the first 75% of the days are training, the next 10% validation, the last 15% test; windows "
            "of 32 days every 4 days inside each; scaled per channel by the training days; missing readings stay "
            "missing; times in days",
            "paper": "windows of 32 days every 4 days, shuffled (RandomState 23489), 10% validation, 15% test; "
            "missing readings are 0; one mean and standard deviation for all 72 channels. Leaks: neighboring windows "
            "share 28 days and are in different parts; mean and standard deviation include the test days. The authors' "
            "code then swaps batch and time, so that its parts are days of a window; this is not reproduced here",
        },
        data="ozone",
        class_weights=(0.1, 1.6),
    )
)
