"""EigenWorms (UEA archive): classification of mutant worms by their movement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...data import Parts, Sequences, concat, read_ts, split
from ..datasets._download import folder
from ._parts import add, located, scaled


def joined(top: Path, name: str) -> Sequences:
    """Reads NAME_TRAIN.ts and NAME_TEST.ts as one set; every series is its own group."""
    both = concat(read_ts(located(top, f"{name}_{part}.ts")) for part in ("TRAIN", "TEST"))
    # Both files number their series from 0.
    return replace(both, ids=np.arange(len(both)), groups=np.arange(len(both)))


def _make(protocol: str, seed: int) -> Parts:
    worms = joined(folder("eigenworms"), "EigenWorms")
    train, valid, test = split(worms, stratify=protocol == "clean", seed=seed)
    return scaled(train, valid, test)


add("eigenworms", _make)
