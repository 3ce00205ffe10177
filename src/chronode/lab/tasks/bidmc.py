"""BIDMC (Pimentel et al. 2016): respiratory and heart rate from a pulse oximeter and an electrocardiogram."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, Target, from_list, read_csv, split, windows
from ...settings import one_of
from ..datasets._download import folder
from ._parts import add, located, scaled
from .eigenworms import joined

RATE = 125  # samples per second
LENGTH = 32 * RATE
STRIDE = 3 * RATE
CHANNELS = ("PLETH", "II")
SOURCES = ("recordings", "archive")


def read_columns(path: Path, names: tuple[str, ...]) -> NDArray[np.float64]:
    """Reads `(rows, names)` from a file of a recording; NaN where a cell is empty or NaN."""
    table, _ = read_csv(path)
    for name in names:
        if name not in table.column_names:
            raise ValueError(
                f"{path}, line 1: column {name!r} is missing; the columns are {', '.join(table.column_names)}."
            )
        if not str(table.schema.field(name).type) == "double":
            raise ValueError(f"{path}: column {name!r} contains values that are not numbers.")
    return np.stack([table[name].to_numpy() for name in names], axis=1)


def read_recordings(top: Path, numeric: str) -> Sequences:
    """Reads windows of 32 s, every 3 s, of each recording in `top`; the group of a window is its recording.

    The target is the mean of the monitor readings (one per second) over the window; windows without any reading are
    dropped.

    Args:
        top: Folder with bidmc_01_Signals.csv, bidmc_01_Numerics.csv, ...
        numeric: The reading: "RESP" (breaths per minute) or "HR" (beats per minute).
    """
    files = sorted(top.glob("bidmc_*_Signals.csv"))
    if not files:
        raise ValueError(f"{top}: no bidmc_*_Signals.csv found.")
    recordings, readings = [], []
    for file in files:
        signals = read_columns(file, CHANNELS)
        per_second = read_columns(file.with_name(file.name.replace("Signals", "Numerics")), (numeric,))[:, 0]
        if len(signals) < LENGTH or len(per_second) < len(signals) // RATE:
            seconds = f"{len(signals) / RATE:g} s of signals and {len(per_second)} readings"
            raise ValueError(f"{file}: {seconds}; expected at least 32 s, and one reading per second.")
        recordings.append(signals)
        readings.append(per_second)
    names = [file.name.split("_")[1] for file in files]
    cut = windows(from_list(recordings, ids=np.array(names), channels=CHANNELS), LENGTH, STRIDE)
    rates = np.concatenate(
        [_means(per_second, len(signals)) for per_second, signals in zip(readings, recordings, strict=True)]
    )
    rates = rates.astype(np.float32)[:, None]
    labeled = replace(cut, target=Target(rates, names=(numeric,))).labeled()
    left_out = len(cut) - len(labeled)
    return labeled.with_notes(*([f"{left_out} windows without a reading of {numeric} dropped."] if left_out else []))


def _means(readings: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """Returns the mean reading of each window of a recording; NaN where there is none."""
    seconds, every = LENGTH // RATE, STRIDE // RATE
    views = np.lib.stride_tricks.sliding_window_view(readings, seconds)[: (samples - LENGTH) // RATE + 1 : every]
    there = np.isfinite(views)
    sums, counts = np.where(there, views, 0).sum(1), there.sum(1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _make(protocol: str, seed: int, *, source: str, numeric: str, archive: str) -> Parts:
    one_of("source", source, SOURCES)
    if source == "recordings":
        series = read_recordings(located(folder("bidmc"), "bidmc_01_Signals.csv").parent, numeric)
    elif protocol == "clean":
        raise ValueError("the archive does not identify recordings: use protocol='paper', or source='recordings'.")
    else:
        series = joined(folder("bidmc_tser"), archive)
    train, valid, test = split(series, by="group" if protocol == "clean" else "series", seed=seed)
    return scaled(train, valid, test)


add("bidmc-rr", partial(_make, numeric="RESP", archive="BIDMC32RR"))
add("bidmc-hr", partial(_make, numeric="HR", archive="BIDMC32HR"))
