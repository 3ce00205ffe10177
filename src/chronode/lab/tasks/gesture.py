"""Gesture phase segmentation of people telling stories, frame by frame: a task of the LTC paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...data import Parts, Scaler, Sequences, from_list, split, windows
from ...settings import one_of
from ..datasets._download import folder
from ._parts import add, located, scaled, shuffled
from ._text_files import Kind, read_table

# In the order of the authors, on which their shuffled parts depend.
FILES = ("a3", "b1", "b3", "c1", "c3", "a2", "a1")
PHASES = {"D": "rest", "P": "preparation", "S": "stroke", "H": "hold", "R": "retraction"}
FEATURES = tuple(str(number) for number in range(1, 33))
LENGTH, STRIDE = 32, 16


def read(path: Path, group: str = "file") -> Sequences:
    """Reads the seven processed files (velocities and accelerations of hands and wrists), one series each.

    Args:
        path: The folder.
        group: Groups that no split may divide: "file" (a story) or "user" (the first letter of the file: a, b or c).
    """
    one_of("group", group, ("file", "user"))
    columns: dict[str, Kind] = {**dict.fromkeys(FEATURES, "number"), "Phase": tuple(PHASES)}
    tables = [read_table(located(path, f"{name}_va3.csv"), columns) for name in FILES]
    return from_list(
        [np.stack([table[feature] for feature in FEATURES], axis=1) for table in tables],
        target=[table["Phase"] for table in tables],
        per_step=True,
        classes=list(PHASES.values()),
        target_names=["phase"],
        channels=FEATURES,
        ids=list(FILES),
        groups=list(FILES) if group == "file" else [name[0] for name in FILES],
    )


def _make(protocol: str, seed: int, *, group: str) -> Parts:
    stories = read(folder("gesture_phase"), group)
    if protocol == "clean":
        train, valid, test = split(windows(stories, LENGTH, STRIDE), stratify=False, seed=seed)
        return scaled(train, valid, test)
    # The authors drop the rest after the last full window, then add windows shifted by half a window.
    whole = replace(stories, lengths=stories.lengths // LENGTH * LENGTH)
    pieces = windows(whole, LENGTH, STRIDE)
    shown = pieces.values.astype(np.float64)  # frames count once per window, as in their code
    scaler = Scaler(FEATURES, tuple(shown.mean(0).tolist()), tuple(shown.std(0).tolist()))
    return scaled(*shuffled(pieces, 23489), scaler)


add("gesture", _make)
