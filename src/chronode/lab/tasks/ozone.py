"""Ozone days in Houston, 1998 to 2004, from daily weather: a task of the LTC paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...data import Parts, Scaler, Sequences, from_list
from ..datasets._download import folder
from ._parts import add, blocks, located, range_windows, scaled, shuffled
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


add("ozone", _make)
