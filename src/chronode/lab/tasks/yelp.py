"""Yelp reviews: prediction of the number of stars, one to five."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from ...data import Parts, Sequences, split
from ...settings import number, whole
from ..datasets._download import folder
from ._parts import add, located
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


# The hidden size follows from the parameter counts of the table: 2 x 128 x 128 for a plain RNN.
add("yelp-5", _make)
