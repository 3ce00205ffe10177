"""Electric power of a household, minute by minute for four years: a task of the LTC paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...data import Parts, Scaler, Sequences, from_list
from ...training import Sizes, Task, add_task
from ..datasets._download import folder
from ._protocols import blocks, range_windows, scaled, shuffled
from ._publisher import located
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


add_task(
    Task(
        name="power",
        what="Household power: active power from voltage, current and sub-meters",
        make=_make,
        sizes=Sizes(train=48389, valid=6325, test=9339, steps=LENGTH, channels=len(FEATURES)),
        loss="squared",
        metric="mse",
        protocols={
            "clean": "the first 75% of the minutes are training, the next 10% validation, the last 15% test; "
            "windows of 32 minutes without overlap; scaled by the training minutes; missing readings (1.25%) stay "
            "missing, a missing power is ignored, and windows without any power are dropped",
            "paper": "windows of 32 minutes, shuffled (RandomState 23489), 10% validation, 15% test; missing readings "
            "are replaced by the previous one. Leaks: windows do not overlap, but those just before and after a test "
            "window are in training; mean and standard deviation include the test minutes",
        },
        data="power",
    )
)
