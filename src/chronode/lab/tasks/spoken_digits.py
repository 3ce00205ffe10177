"""Free Spoken Digit Dataset: which digit is spoken, from the raw sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...data import Parts, Sequences, Target
from ..datasets._download import folder
from ._parts import add, located, scaled
from .speech import read_wave

RATE = 8_000  # samples per second
TAKES = {"test": range(0, 5), "valid": range(5, 10), "train": range(10, 50)}


def read(top: Path, takes: range) -> Sequences:
    """Reads the recordings of these takes of all digits and speakers, in the order of their names."""
    sounds, labels, names = [], [], []
    for file in sorted(top.glob("*.wav")):
        digit, take = _parsed(file)
        if take in takes:
            sounds.append(read_wave(file, RATE))
            labels.append(digit)
            names.append(file.stem)
    if not sounds:
        raise ValueError(f"{top}: no recordings of the takes {takes.start} to {takes.stop - 1} found.")
    lengths = np.array([len(sound) for sound in sounds])
    return Sequences(
        base_values=np.concatenate(sounds)[:, None],
        base_times=None,
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        ids=np.array(names),
        groups=np.array(names),
        target=Target(np.array(labels, np.int32), classes=tuple("0123456789"), names=("digit",)),
        channels=("sound",),
    )


def _parsed(file: Path) -> tuple[int, int]:
    """Returns digit and take from a name such as 7_jackson_32.wav."""
    digit, speaker, take = [*file.stem.split("_"), "", ""][:3]
    if not (digit.isdigit() and len(digit) == 1 and speaker and take.isdigit()):
        raise ValueError(f"{file}: expected a name such as 7_jackson_32.wav (digit, speaker, take).")
    return int(digit), int(take)


def _make(protocol: str, seed: int) -> Parts:
    """Creates the parts; the split is published, so both protocols are the same and the seed has no effect."""
    top = located(folder("free_spoken_digits"), "recordings")
    train, valid, test = (read(top, TAKES[part]) for part in ("train", "valid", "test"))
    return scaled(train, valid, test)


add("spoken-digits", _make)
