"""Daily and sports activities from 45 signals of five motion sensors: a task of the iRNN and ERNN papers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, counted, from_numpy, split
from ..datasets._download import folder
from ._parts import add, located, scaled
from ._text_files import Kind, read_table

ACTIVITIES = (
    "sitting",
    "standing",
    "lying on the back",
    "lying on the right side",
    "ascending stairs",
    "descending stairs",
    "standing in a lift",
    "moving about in a lift",
    "walking in a parking lot",
    "walking on a flat treadmill",
    "walking on an inclined treadmill",
    "running on a treadmill",
    "exercising on a stepper",
    "exercising on a cross trainer",
    "cycling lying",
    "cycling upright",
    "rowing",
    "jumping",
    "playing basketball",
)
UNITS = ("torso", "right arm", "left arm", "right leg", "left leg")
SENSORS = ("acceleration", "rotation", "magnetic field")
CHANNELS = tuple(f"{unit} {sensor} {axis}" for unit in UNITS for sensor in SENSORS for axis in "xyz")
STEPS = 125
TEST_PERSONS = (5, 6, 7, 8)
COLUMNS: dict[str, Kind] = dict.fromkeys(CHANNELS, "number")


def read(path: Path) -> Sequences:
    """Reads all segments of 5 s, `data/a01/p1/s01.txt` and so on; the group is the person."""
    files = sorted(located(path, "data").glob("a[0-9][0-9]/p[1-8]/s[0-9][0-9].txt"))
    if not files:
        raise ValueError(f"{path}: no segments such as a01/p1/s01.txt found in data.")
    numbers = [[int(number) for number in re.findall(r"\d+", "/".join(file.parts[-3:]))] for file in files]
    activity, person, _ = np.array(numbers).T
    if activity.min() < 1 or activity.max() > len(ACTIVITIES):
        wrong = files[int(np.flatnonzero((activity < 1) | (activity > len(ACTIVITIES)))[0])]
        raise ValueError(f"{wrong}: the activities are a01 to a{len(ACTIVITIES)}.")
    # One activity at a time: parsing its small files together takes a third of the time; all at once, much memory.
    values = [_segments([files[row] for row in np.flatnonzero(activity == each)]) for each in np.unique(activity)]
    return from_numpy(
        np.concatenate(values),
        order="NTD",
        target=activity - 1,
        classes=ACTIVITIES,
        target_names=["activity"],
        channels=CHANNELS,
        ids=["/".join(file.with_suffix("").parts[-3:]) for file in files],
        groups=person,
    )


def _segments(files: Sequence[Path]) -> NDArray[np.float32]:
    """Returns the segments, `(files, 125, 45)`."""
    texts = [file.read_bytes() for file in files]
    if all(text.count(b"\n") + (not text.endswith(b"\n")) == STEPS for text in texts):
        try:
            joined = b"\n".join(text.removesuffix(b"\n") for text in texts)
            table = read_table(files[0].parent, COLUMNS, content=joined, header=False)
            return _matrix(table).reshape(len(files), STEPS, len(CHANNELS))
        except ValueError:
            pass  # parsed one by one below, to name the wrong file
    segments = []
    for file in files:
        segments.append(_matrix(read_table(file, COLUMNS, header=False)))
        if len(segments[-1]) != STEPS:
            raise ValueError(f"{file} has {counted(len(segments[-1]), 'line')} instead of {STEPS}.")
    return np.stack(segments)


def _matrix(table: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    return np.stack([table[name] for name in CHANNELS], axis=1).astype(np.float32)


def _make(protocol: str, seed: int) -> Parts:
    segments = read(folder("dsa19"))
    is_test = np.isin(segments.groups, TEST_PERSONS)
    pool, test = segments[~is_test], segments[is_test]
    if protocol == "clean":
        train, valid = split(pool, (0.75, 0.25), stratify=False, seed=seed)
    else:
        train, valid = split(pool, (0.8, 0.2), by="series", seed=seed)
    return scaled(train, valid, test)


# 19 activities x 8 persons x 60 segments
add("dsa-19", _make)
