"""EigenWorms (UEA archive): classification of mutant worms by their movement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...data import Parts, Sequences, concat, read_ts, split
from ...training import Sizes, Task, add_task
from ..datasets._download import folder
from ._protocols import scaled
from ._publisher import located


def joined(top: Path, name: str) -> Sequences:
    """Reads NAME_TRAIN.ts and NAME_TEST.ts as one set; every series is its own group."""
    both = concat(read_ts(located(top, f"{name}_{part}.ts")) for part in ("TRAIN", "TEST"))
    # Both files number their series from 0.
    return replace(both, ids=np.arange(len(both)), groups=np.arange(len(both)))


def _make(protocol: str, seed: int) -> Parts:
    worms = joined(folder("eigenworms"), "EigenWorms")
    train, valid, test = split(worms, stratify=protocol == "clean", seed=seed)
    return scaled(train, valid, test)


add_task(
    Task(
        name="eigenworms",
        what="EigenWorms: wild type or one of four mutants from 17,984 steps",
        make=_make,
        sizes=Sizes(train=181, valid=39, test=39, steps=17_984, channels=6, classes=5),
        loss="cross_entropy",
        metric="accuracy",
        protocols={
            "clean": "the joined parts of the archive, split 70/15/15% at random, stratified by mutant",
            "paper": "the same, without stratification",
        },
        data="eigenworms",
    )
)
