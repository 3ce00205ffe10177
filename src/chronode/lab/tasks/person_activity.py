"""Activities of a person from four body tags that are read in turn: a task of the mmRNN and LTC papers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Scaler, Sequences, from_list, split, windows
from ...settings import one_of
from ..datasets._download import folder
from ._parts import add, located, range_windows, scaled, shuffled
from ._text_files import Kind, read_table

FILE = "ConfLongDemo_JSI.txt"
TAGS = {
    "010-000-024-033": "left ankle",
    "010-000-030-096": "right ankle",
    "020-000-033-111": "chest",
    "020-000-032-221": "belt",
}
CLASSES = ("lying", "sitting", "standing up", "walking", "falling", "on all fours", "sitting on the ground")
ACTIVITIES = {
    "lying down": "lying",
    "lying": "lying",
    "sitting down": "sitting",
    "sitting": "sitting",
    "standing up from lying": "standing up",
    "standing up from sitting": "standing up",
    "standing up from sitting on the ground": "standing up",
    "walking": "walking",
    "falling": "falling",
    "on all fours": "on all fours",
    "sitting on the ground": "sitting on the ground",
}
"""The eleven activities of the file -> the seven classes of Latent ODE, in the order of mmRNN."""
COLUMNS: dict[str, Kind] = {
    "recording": "text",
    "tag": tuple(TAGS),
    "ticks": "whole",
    "date": "text",
    "x": "number",
    "y": "number",
    "z": "number",
    "activity": tuple(ACTIVITIES),
}
TICK = np.timedelta64(100, "ns")
BIN = 100_000
"""Resolution to which Latent ODE rounds times: 10 ms."""
FIRST_GAP = 5.0
"""dt of the first row of a recording in the authors' code, in units of 100 ms."""
CUTS = {"mmrnn": (32, 16), "ltc": (32, 16), "latent-ode": (50, 25)}
"""Features -> length and stride of windows."""
HELD = 0.1
"""Share of the authors' training windows that is validation; they have none and select by the test part."""


def read(path: Path, features: str = "mmrnn") -> Sequences:
    """Reads the recordings as series with an activity at each step and times in units of 100 ms since the first row.

    A few rows have a time 5 ms before the previous row; rows are sorted by time.

    Args:
        path: The folder.
        features: "mmrnn": each row of the file is a step with the tag (one of four) and x, y, z; "ltc": the same,
            but without times; "latent-ode": times rounded to 10 ms, a step combines all readings of that time: x, y, z
            of all four tags (0 if not read, the mean if read twice), then whether each was read.
    """
    one_of("features", features, CUTS)
    table = _by_time(read_table(located(path, FILE), COLUMNS, header=False))
    class_of = np.array([CLASSES.index(name) for name in ACTIVITIES.values()])
    table["activity"] = class_of[table["activity"]]
    values, channels = _rows(table)
    if features == "latent-ode":
        table, values, channels = _binned(table)
    names, starts = np.unique(table["recording"], return_index=True)
    pieces = [slice(*ends) for ends in zip(starts, [*starts[1:], len(values)], strict=True)]
    times = [table["ticks"][piece] * TICK for piece in pieces]
    timed: dict[str, Any] = {} if features == "ltc" else {"times": times, "unit": "100 ms"}
    return from_list(
        [values[piece] for piece in pieces],
        target=[table["activity"][piece] for piece in pieces],
        per_step=True,
        classes=CLASSES,
        target_names=["activity"],
        channels=channels,
        ids=names.tolist(),
        **timed,
    )


def _by_time(table: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Sorts rows by recording and time, with times relative to the first row of each recording."""
    recording = table["recording"].astype(str)
    order = np.lexsort((table["ticks"], recording))
    table = {name: column[order] for name, column in {**table, "recording": recording}.items()}
    first = np.unique(table["recording"], return_index=True, return_inverse=True)
    table["ticks"] = table["ticks"] - table["ticks"][first[1]][first[2]]
    return table


def _rows(table: dict[str, NDArray[Any]]) -> tuple[NDArray[np.float64], list[str]]:
    positions = np.stack([table[axis] for axis in "xyz"], axis=1)
    return np.concatenate([np.eye(len(TAGS))[table["tag"]], positions], axis=1), [*TAGS.values(), *"xyz"]


def _binned(table: dict[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64], list[str]]:
    """Merges all rows of a recording with equal rounded times into one step, with the activity of the last of them."""
    rounded = np.rint(table["ticks"] / BIN).astype(np.int64)
    is_new = np.ones(len(rounded), dtype=bool)
    is_new[1:] = (np.diff(rounded) != 0) | (table["recording"][1:] != table["recording"][:-1])
    step = np.cumsum(is_new) - 1
    last = np.flatnonzero(np.append(is_new[1:], True))
    positions = np.stack([table[axis] for axis in "xyz"], axis=1)
    sums, counts = np.zeros((len(last), len(TAGS), 3)), np.zeros((len(last), len(TAGS), 1))
    np.add.at(sums, (step, table["tag"]), positions)
    np.add.at(counts, (step, table["tag"]), 1)
    values = (sums / np.maximum(counts, 1)).reshape(len(last), -1)
    read_then = np.repeat(counts[:, :, 0] > 0, 3, axis=1).astype(np.float64)
    names = [f"{tag} {axis}" for tag in TAGS.values() for axis in "xyz"]
    steps = {name: column[last] for name, column in table.items()} | {"ticks": rounded[last] * BIN}
    return steps, np.concatenate([values, read_then], axis=1), [*names, *(f"{name} read" for name in names)]


def _make(protocol: str, seed: int, *, features: str) -> Parts:
    recordings = read(folder("person_activity"), features)
    length, stride = CUTS[features]
    if protocol == "clean":
        train, valid, test = split(windows(recordings, length, stride, lead="gap"), stratify=False, seed=seed)
        if features == "latent-ode":  # a zero there means "not read" and must stay 0
            return Parts(train, valid, test)
        return scaled(train, valid, test, Scaler.fit(train, skip=TAGS.values()))
    if features != "latent-ode":
        recordings = recordings[:-1]  # the authors' loop ends before it stores the last recording
    if features == "mmrnn":
        recordings = replace(recordings, lead=np.full(len(recordings), FIRST_GAP))
    pieces = range_windows(recordings, length, stride)
    if features == "ltc":
        return Parts(*shuffled(pieces, 27731))
    rest, _, test = shuffled(pieces, 98841 if features == "mmrnn" else 42, valid=0.0, test=0.2)
    held = max(1, int(HELD * len(rest)))  # the windows are already in random order
    return Parts(rest[held:], rest[:held], test)


# 25 recordings have 164,860 rows; their individual lengths are not published and assumed equal here.
add("person-activity", _make)
