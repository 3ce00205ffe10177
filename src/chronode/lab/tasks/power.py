"""Electric power of a household, minute by minute for four years: a task of the LTC paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...data import Parts, Scaler, Sequences, from_list
from ..datasets._download import folder
from ._parts import add, blocks, located, range_windows, scaled, shuffled
from ._text_files import Kind, held, read_table

FILE = "household_power_consumption.txt"
TARGET = "Global_active_power"
FEATURES = (
    "Global_reactive_power",
    "Voltage",
    "Global_intensity",
    "Sub_metering_1",
    "Sub_metering_2",
    "Sub_metering_3",
)
LENGTH = 32


def read(path: Path, *, hold: bool = False) -> Sequences:
    """Reads the minutes of the household as one series without times, since there is a row for every minute.

    Args:
        path: The folder.
        hold: Whether to replace a missing reading ("?") by the previous one, as in the authors' code; otherwise NaN.
    """
    columns: dict[str, Kind] = {"Date": "text", "Time": "text", **dict.fromkeys((TARGET, *FEATURES), "number")}
    table = read_table(located(path, FILE), columns, separator=";", missing=("?", ""))
    numbers = {name: held(table[name]) if hold else table[name] for name in (TARGET, *FEATURES)}
    return from_list(
        [np.stack([numbers[name] for name in FEATURES], axis=1)],
        target=[numbers[TARGET]],
        target_names=[TARGET],
        channels=FEATURES,
        ids=["power"],
    )


def _make(protocol: str, seed: int) -> Parts:
    path = folder("power")
    if protocol == "clean":
        train, valid, test = blocks(read(path), LENGTH, (LENGTH,) * 3)
        return scaled(train.labeled(), valid.labeled(), test.labeled())
    minutes = read(path, hold=True)
    return scaled(*shuffled(range_windows(minutes, LENGTH, LENGTH), 23489), Scaler.fit(minutes))


add("power", _make)
