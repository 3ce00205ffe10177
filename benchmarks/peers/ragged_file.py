"""Writes the file that all packages get: JapaneseVowels, made irregular. Runs where aeon is installed, which ships it.

    python ragged_file.py train.csv test.csv

JapaneseVowels (Kudo et al. 1999): nine speakers say two vowels; 12 coefficients, 7 to 29 frames 6.4 ms apart. Here 30%
of the frames are dropped (at least four stay) and 20% of the remaining cells are empty.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from protocol import ID, LABEL, STEP_MS, TIME

DROPPED_FRAMES, EMPTY_CELLS, FEWEST = 0.3, 0.2, 4


def main() -> None:
    from aeon.datasets import load_japanese_vowels

    for seed, (part, path) in enumerate(zip(("train", "test"), sys.argv[1:3], strict=True)):
        series, labels, *_ = load_japanese_vowels(split=part)
        write(Path(path), [each.T for each in series], labels, np.random.default_rng(seed))


def write(path: Path, series: list[NDArray[Any]], labels: Any, rng: np.random.Generator) -> None:
    """Writes `series` of shape `(frames, channels)` with frames and cells left out."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([ID, TIME, *(f"c{channel + 1}" for channel in range(series[0].shape[1])), LABEL])
        for number, (values, label) in enumerate(zip(series, labels, strict=True)):
            kept = rng.random(len(values)) >= DROPPED_FRAMES
            kept[rng.choice(len(values), FEWEST, replace=False)] = True
            for frame in np.flatnonzero(kept):
                empty = rng.random(values.shape[1]) < EMPTY_CELLS
                cells = ["" if gone else f"{value:.6g}" for value, gone in zip(values[frame], empty, strict=True)]
                out.writerow([f"u{number:03d}", f"{frame * STEP_MS:.1f}", *cells, label])


if __name__ == "__main__":
    main()
