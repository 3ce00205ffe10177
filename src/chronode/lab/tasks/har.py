"""Human activity from a smartphone at the waist: six classes, the two of iRNN and ERNN, and the 561 features of LTC."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, from_list, from_numpy, split, windows
from ...settings import one_of
from ..datasets._download import folder
from ._parts import add, located, range_windows, scaled, shuffled
from ._text_files import read_matrix, same_length

FOLDER = "UCI HAR Dataset"
SIGNALS = tuple(f"{sensor}_{axis}" for sensor in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
CLASSES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
PAIR = ("sitting, laying or upstairs", "standing, walking or downstairs")
IN_PAIR = np.array([1, 0, 1, 0, 1, 0])
"""The HAR-2 class of each of CLASSES."""
SCALINGS = ("channel", "step")
STEPS, FEATURES, LENGTH, TEST_STRIDE = 128, 561, 16, 8


def read(path: Path, part: str, *, merged: bool = False) -> Sequences:
    """Reads the published "train" or "test" windows of 128 steps of nine signals; the group is the subject.

    Args:
        path: The folder.
        part: "train" or "test".
        merged: Whether to use the two classes of HAR-2 instead of six.
    """
    root = located(path, FOLDER) / part
    files = [root / "Inertial Signals" / f"{signal}_{part}.txt" for signal in SIGNALS]
    signals = {file: read_matrix(file, STEPS) for file in files}
    activity, subject = _labels(root, part)
    same_length({root / f"y_{part}.txt": activity, **signals})
    return from_numpy(
        np.stack(list(signals.values()), axis=2),
        order="NTD",
        target=IN_PAIR[activity] if merged else activity,
        classes=PAIR if merged else CLASSES,
        target_names=["activity"],
        channels=SIGNALS,
        ids=[f"{part} {row}" for row in range(len(activity))],
        groups=subject,
    )


def read_features(path: Path, part: str, *, by_subject: bool) -> Sequences:
    """Reads the 561 features of each window as steps: the variant of the LTC paper.

    Args:
        path: The folder.
        part: "train" or "test".
        by_subject: Whether there is one series per subject; otherwise one for the whole file, as in the authors' code.
    """
    root = located(path, FOLDER) / part
    file = root / f"X_{part}.txt"
    if not file.exists():
        raise ValueError(f"{file} is missing: features='handmade' needs it, features='raw' does not.")
    values = read_matrix(file, FEATURES)
    activity, subject = _labels(root, part)
    same_length({root / f"y_{part}.txt": activity, file: values})
    names = np.unique(subject).tolist() if by_subject else [part]
    rows = [np.flatnonzero(subject == name) if by_subject else np.arange(len(subject)) for name in names]
    return from_list(
        [values[piece] for piece in rows],
        target=[activity[piece] for piece in rows],
        per_step=True,
        classes=CLASSES,
        target_names=["activity"],
        ids=names,
    )


def _labels(root: Path, part: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (activity from 0, subject) of each window."""
    files = [root / f"{name}_{part}.txt" for name in ("y", "subject")]
    columns = [read_matrix(file, 1)[:, 0] for file in files]
    same_length(dict(zip(files, columns, strict=True)))
    for file, column, most in zip(files, columns, (len(CLASSES), np.inf), strict=True):
        wrong = np.flatnonzero((column % 1 != 0) | (column < 1) | (column > most))
        if len(wrong):
            expected = f"a whole number from 1 to {most}" if most < np.inf else "a subject's number"
            raise ValueError(f"{file}, line {int(wrong[0]) + 1:,}: {column[wrong[0]]:g} is not {expected}.")
    return columns[0].astype(np.int64) - 1, columns[1].astype(np.int64)


def _make(protocol: str, seed: int, *, merged: bool = False, features: str = "raw", scaling: str = "channel") -> Parts:
    path = folder("har")
    if one_of("features", features, ("raw", "handmade")) == "handmade":
        return _make_features(path, protocol, seed)
    pool, test = read(path, "train", merged=merged), read(path, "test", merged=merged)
    if one_of("scaling", scaling, SCALINGS) == "step":
        pool, test = _scaled_steps(pool, test)
    train, valid = split(pool, (0.85, 0.15), stratify=False, seed=seed)
    return Parts(train, valid, test) if scaling == "step" else scaled(train, valid, test)


def _scaled_steps(pool: Sequences, test: Sequences) -> tuple[Sequences, Sequences]:
    """Scales every step of every channel by its own mean and deviation over the training windows, as in EdgeML."""
    steps = pool.values.reshape(len(pool), -1)
    mean, deviation = steps.mean(axis=0, dtype=np.float64), steps.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1.0

    def own(s: Sequences) -> Sequences:
        values = (s.values.reshape(len(s), -1) - mean) / deviation
        return replace(s.compact(), base_values=values.reshape(-1, s.num_channels).astype(np.float32))

    return own(pool), own(test)


def _make_features(path: Path, protocol: str, seed: int) -> Parts:
    by_subject = protocol == "clean"
    pool, test = (read_features(path, part, by_subject=by_subject) for part in ("train", "test"))
    if by_subject:
        train, valid = split(windows(pool, LENGTH, 1), (0.85, 0.15), stratify=False, seed=seed)
        return scaled(train, valid, windows(test, LENGTH, TEST_STRIDE))
    train, valid, _ = shuffled(range_windows(pool, LENGTH, 1), 893429, test=0.0)
    return Parts(train, valid, range_windows(test, LENGTH, TEST_STRIDE))


add("har", _make)
add("har-2", partial(_make, merged=True))
