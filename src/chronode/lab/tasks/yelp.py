"""Yelp reviews: prediction of the number of stars, one to five."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from ...data import Parts, Sequences, split
from ...settings import number, whole
from ...training import Sizes, Task, add_task
from ..datasets._download import folder
from ._publisher import located
from ._text import Numbering, Review, as_symbols, encoded, utf8

STARS = ("1", "2", "3", "4", "5")


def read_reviews(path: Path, numbering: Numbering, longest: int | None = 300) -> Sequences:
    """Reads the reviews of a file with lines "STARS","TEXT"; a series is a review, clipped to `longest` words."""
    if not path.stat().st_size:
        raise ValueError(f"{path}, line 1: the file is empty.")
    return encoded(_reviews(path), numbering, STARS, "stars", longest)


def _reviews(path: Path) -> Iterator[Review]:
    with path.open("rb") as file:
        rows = csv.reader((utf8(line, path, number) for number, line in enumerate(file, start=1)), strict=True)
        try:
            for cells in rows:
                where = f"{path}, line {rows.line_num}"
                if len(cells) != 2 or cells[0] not in STARS:
                    raise ValueError(f'{where}: expected "STARS","TEXT" with 1 to 5 stars, got {str(cells)[:60]}.')
                text = cells[1].replace("\\n", " ").replace('\\"', '"')
                yield Review(f"{path.stem}/{rows.line_num}", STARS.index(cells[0]), text)
        except csv.Error as error:
            raise ValueError(f"{path}, line {rows.line_num}: {error}.") from None


def _make(protocol: str, seed: int, *, words: int, longest: int | None, validation: float) -> Parts:
    words, share = whole("words", words, at_least=1), number("validation", validation, above=0, below=1)
    numbering, top = Numbering(), folder("yelp")
    given, test = (read_reviews(located(top, f"{name}.csv"), numbering, longest) for name in ("train", "test"))
    train, valid = split(given, (1 - share, share), by="series", stratify=protocol == "clean", seed=seed)
    vocabulary = numbering.vocabulary(train.values[:, 0], words)
    train, valid, test = (as_symbols(part, numbering, vocabulary) for part in (train, valid, test))
    return Parts(train, valid, test)


add_task(
    Task(
        name="yelp-5",
        what="Yelp review stars, one to five",
        make=_make,
        sizes=Sizes(train=585_000, valid=65_000, test=50_000, steps=300, channels=1, classes=5),
        loss="cross_entropy",
        metric="accuracy",
        protocols={
            "clean": "the parts of the Yelp review full set; a tenth of the training part, stratified by stars, is "
            "validation; the vocabulary is that of the training part",
            "paper": "the same, without stratification; the 500,000 + 500,000 reviews that the authors took from the "
            "file of "
            "the challenge are not published as parts",
        },
        # The hidden size follows from the parameter counts of the table: 2 x 128 x 128 for a plain RNN.
        options={"words": 20_000, "longest": 300, "validation": 0.1},
        data="yelp",
    )
)
