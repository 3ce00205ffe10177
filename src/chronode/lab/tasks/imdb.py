"""Large Movie Review Dataset (Maas et al. 2011): sentiment of IMDB reviews."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...data import Batch, Parts, Sequences, split
from ...settings import flag, whole
from ..datasets._download import folder
from ._parts import add, located
from ._text import Numbering, Review, as_symbols, encoded, utf8, word_vectors

CLASSES = ("neg", "pos")
VALIDATION = 0.3
NEIGHBORS = 50
"""Number of consecutive reviews that are a group: reviews of the same film follow one another in the files."""
_NAME = re.compile(r"(\d+)_(\d+)\.txt")


def read_reviews(path: Path, numbering: Numbering, longest: int | None = None) -> Sequences:
    """Reads the reviews in `path/neg` and `path/pos`, files named ID_RATING.txt; a series is a review."""
    files = []
    for label, name in enumerate(CLASSES):
        matches = [(file, _NAME.fullmatch(file.name)) for file in (path / name).glob("*.txt")]
        if not matches:
            raise ValueError(f"{path / name}: no reviews found.")
        for file, match in matches:
            if match is None:
                raise ValueError(f"{file}: expected a file name such as ID_RATING.txt.")
            files.append((label, int(match[1]), file))
    reviews = (
        Review(f"{path.name}/{file.parent.name}/{file.name}", label, utf8(file.read_bytes(), file))
        for label, _, file in sorted(files)
    )
    return encoded(reviews, numbering, CLASSES, "sentiment", longest)


@dataclass(frozen=True)
class RunOn:
    """Lets a network run on for some steps after each review, through padding of unknown words.

    In the code of UnICORNN, networks run through the padding of a batch. With slow oscillators the last words of a
    review count only if they do; a fixed number of steps makes the result independent of the batch.

    Attributes:
        steps: Steps after each review.
    """

    steps: int

    def __call__(self, batch: Batch, ids: NDArray[Any]) -> Batch:
        """Returns the batch with longer series."""
        more = batch.x.new_zeros(batch.x.shape[0], self.steps, batch.x.shape[2])  # 0 is the unknown word
        return batch._replace(x=torch.cat([batch.x, more], dim=1), lengths=batch.lengths + self.steps)


def _make(protocol: str, seed: int, *, words: int, longest: int | None, vectors: bool, padding: int) -> Parts:
    padding = whole("padding", padding, at_least=0)
    words, vectors = whole("words", words, at_least=1), flag("vectors", vectors)
    numbering, top = Numbering(), located(folder("imdb"), "train").parent
    given, test = (read_reviews(top / name, numbering, longest) for name in ("train", "test"))
    fractions = (1 - VALIDATION, VALIDATION)
    if protocol == "clean":
        train, valid = split(_by_film(given), fractions, seed=seed)
    else:
        train, valid = split(given, fractions, by="series", stratify=False, seed=seed)
    vocabulary = numbering.vocabulary(train.values[:, 0], words)
    train, valid, test = (as_symbols(part, numbering, vocabulary) for part in (train, valid, test))
    if padding:
        train, valid, test = (replace(part, finish=RunOn(padding)) for part in (train, valid, test))
    ready = word_vectors(located(folder("glove"), "glove.6B.100d.txt"), vocabulary) if vectors else None
    return Parts(train, valid, test, vectors=ready)


def _by_film(reviews: Sequences) -> Sequences:
    """Returns the reviews with neighbors as groups: two share 0.4 words that are in 2 to 20 reviews, others 0.003."""
    numbers = [int(str(name).rpartition("/")[2].partition("_")[0]) for name in reviews.ids]
    assert reviews.target is not None
    return replace(reviews, groups=reviews.target.values.ravel() * len(reviews) + np.array(numbers) // NEIGHBORS)


# The paper does not mention clipping of reviews, and batches by length make it unnecessary.
add("imdb", _make)
