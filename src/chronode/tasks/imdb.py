"""Large Movie Review Dataset (Maas et al. 2011): does a film review like the film?"""

from __future__ import annotations

import re
from pathlib import Path

from .._checks import flag, whole
from ..data import Sequences, split
from ..data.sets._download import folder
from ._publisher import located
from ._task import Parts, Sizes, Task, add
from ._text import Numbering, Review, as_symbols, encoded, utf8, word_vectors

CLASSES = ("neg", "pos")
VALIDATION = 0.3
_NAME = re.compile(r"(\d+)_(\d+)\.txt")


def read_reviews(path: Path, numbering: Numbering, longest: int | None = None) -> Sequences:
    """The reviews of `path/neg` and `path/pos`, a file each, named ID_RATING.txt; a series is a review."""
    files = []
    for label, name in enumerate(CLASSES):
        found = [(file, _NAME.fullmatch(file.name)) for file in (path / name).glob("*.txt")]
        if not found:
            raise ValueError(f"{path / name}: there are no reviews in it.")
        for file, match in found:
            if match is None:
                raise ValueError(f"{file}: a review's file is named ID_RATING.txt.")
            files.append((label, int(match[1]), file))
    reviews = (
        Review(f"{path.name}/{file.parent.name}/{file.name}", label, utf8(file.read_bytes(), file))
        for label, _, file in sorted(files)
    )
    return encoded(reviews, numbering, CLASSES, "sentiment", longest)


def _make(protocol: str, seed: int, *, words: int, longest: int | None, vectors: bool) -> Parts:
    words, vectors = whole("words", words, at_least=1), flag("vectors", vectors)
    numbering, top = Numbering(), located(folder("imdb"), "train").parent
    given, test = (read_reviews(top / name, numbering, longest) for name in ("train", "test"))
    fractions = (1 - VALIDATION, VALIDATION)
    train, valid = split(given, fractions, by="series", stratify=protocol == "clean", seed=seed)
    vocabulary = numbering.vocabulary(train.values[:, 0], words)
    train, valid, test = (as_symbols(part, numbering, vocabulary) for part in (train, valid, test))
    ready = word_vectors(located(folder("glove"), "glove.6B.100d.txt"), vocabulary) if vectors else None
    return Parts(train, valid, test, vectors=ready)


add(
    Task(
        name="imdb",
        what="IMDB review sentiment",
        make=_make,
        sizes=Sizes(train=17_500, valid=7_500, test=25_000, steps=2_770, channels=1, classes=2),
        loss="cross_entropy",
        metric="accuracy",
        protocols={
            "clean": "30 % of the training reviews, drawn by seed and with as many for as against, are the validation "
            "part; the vocabulary is that of the training part. No film of the test part is in another; a film may "
            "have reviews in both the training and the validation part",
            "paper": "the same, drawn without regard to the classes",
        },
        # The paper does not say that reviews were clipped, and batches by length make it needless.
        options={"words": 25_000, "longest": None, "vectors": True},
        data="imdb",
    )
)
