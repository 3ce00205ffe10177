"""Room occupancy from air and light, minute by minute: a task of the LTC paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...data import Parts, Scaler, Sequences, concat, from_list, windows
from ...settings import one_of
from ..datasets._download import folder
from ._parts import add, blocks, located, range_windows, scaled, shuffled
from ._text_files import Kind, read_table

FEATURES = ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")
TESTS = {"both": ("datatest", "datatest2"), "datatest": ("datatest",), "datatest2": ("datatest2",)}
LENGTH, TEST_STRIDE = 16, 8


def read(path: Path, name: str, *, timed: bool = True) -> Sequences:
    """Reads one of the three files (datatraining, datatest, datatest2) as one series.

    Args:
        path: The folder.
        name: Name of the file without .txt; its header has no name for the column of row numbers.
        timed: Whether to use times in minutes; otherwise there are no times.
    """
    columns: dict[str, Kind] = {"row": "text", "date": "date", **dict.fromkeys(FEATURES, "number")}
    table = read_table(located(path, f"{name}.txt"), {**columns, "Occupancy": ("0", "1")})
    return from_list(
        [np.stack([table[feature] for feature in FEATURES], axis=1)],
        times=[table["date"]] if timed else None,
        unit="minutes" if timed else None,
        target=[table["Occupancy"]],
        classes=["empty", "occupied"],
        target_names=["Occupancy"],
        channels=FEATURES,
        ids=[name],
    )


def _make(protocol: str, seed: int, *, test: str) -> Parts:
    path, files = folder("occupancy"), TESTS[one_of("test", test, TESTS)]
    timed = protocol == "clean"
    room = read(path, "datatraining", timed=timed)
    rooms = concat([read(path, name, timed=timed) for name in files])
    if protocol == "clean":
        train, valid = blocks(room, LENGTH, (1, TEST_STRIDE), (0.85, 0.15))
        return scaled(train, valid, windows(rooms, LENGTH, TEST_STRIDE, lead="gap"))
    train, valid, _ = shuffled(range_windows(room, LENGTH, 1), 893429, test=0.0)
    return scaled(train, valid, range_windows(rooms, LENGTH, TEST_STRIDE), Scaler.fit(room))


add("occupancy", _make)
