"""Text as series of symbols: words, their numbers, and pretrained word vectors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...data import Sequences, from_list
from ...settings import whole

UNKNOWN_WORD = "<unk>"
"""Symbol 0: every word outside the vocabulary. Padding is also 0, but is excluded by the lengths."""

_WORD = re.compile(r"n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]")


def words_of(text: str) -> list[str]:
    """Splits an English text into lower-case words; contractions are split as in GloVe, punctuation stands alone.

    Example:
        >>> words_of("It's good,<br />isn't it?")
        ['it', "'s", 'good', ',', 'is', "n't", 'it', '?']
    """
    return _WORD.findall(text.lower().replace("<br />", " ").replace("n't", " n't"))


class Numbering:
    """Numbers words in the order in which they occur, until `vocabulary` selects which ones to keep.

    Example:
        >>> numbering = Numbering()
        >>> numbering.encode(["to", "be", "or", "not", "to", "be"]).tolist()
        [0, 1, 2, 3, 0, 1]
    """

    def __init__(self) -> None:
        self.numbers: defaultdict[str, int] = defaultdict()
        self.numbers.default_factory = self.numbers.__len__

    def encode(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Returns the numbers of the words; a new word gets the next number."""
        return np.fromiter(map(self.numbers.__getitem__, words), np.int32, len(words))

    def vocabulary(self, train: NDArray[np.int32], most: int | None = None) -> tuple[str, ...]:
        """Returns UNKNOWN_WORD and at most `most` words of `train` by decreasing count (ties in alphabetical order)."""
        counts = np.bincount(train, minlength=len(self.numbers))
        occurring = [word for word, number in self.numbers.items() if counts[number] and word != UNKNOWN_WORD]
        ranked = sorted(occurring, key=lambda word: (-counts[self.numbers[word]], word))
        return (UNKNOWN_WORD, *ranked[:most])

    def table(self, vocabulary: Sequence[str]) -> NDArray[np.int32]:
        """Returns the symbol of each number, `(words,)`: its position in `vocabulary`, or 0."""
        table = np.zeros(len(self.numbers), dtype=np.int32)
        for symbol, word in enumerate(vocabulary):
            if word in self.numbers:
                table[self.numbers[word]] = symbol
        return table


class Review(NamedTuple):
    """A text, its name and the number of its class."""

    id: str
    label: int
    text: str


def encoded(
    reviews: Iterable[Review], numbering: Numbering, classes: Sequence[str], target: str, longest: int | None = None
) -> Sequences:
    """Creates a series per review: its words, as the numbers of `numbering`."""
    if longest is not None:
        longest = whole("longest", longest, at_least=1)
    ids, labels, series = [], [], []
    for review in reviews:
        words = words_of(review.text)[:longest]
        if not words:
            raise ValueError(f"{review.id}: the review has no words.")
        ids.append(review.id)
        labels.append(review.label)
        series.append(numbering.encode(words))
    options: dict[str, Any] = {"channels": ["word"], "dtype": "int32", "target_names": [target], "classes": classes}
    return from_list(series, target=np.array(labels), per_step=False, ids=np.array(ids), **options)


def as_symbols(s: Sequences, numbering: Numbering, vocabulary: tuple[str, ...]) -> Sequences:
    """Replaces numbers by symbols; `categories["word"]` contains the words."""
    symbols = numbering.table(vocabulary)[s.base_values]
    return replace(s, base_values=symbols, categories={"word": vocabulary})


def word_vectors(path: Path, vocabulary: Sequence[str], size: int = 100) -> NDArray[np.float32]:
    """Reads vectors `(symbols, size)` from a GloVe text file (a word and its numbers per line).

    Words without a vector have NaN, UNKNOWN_WORD has zeros.
    """
    rows = {word: row for row, word in enumerate(vocabulary)}
    vectors = np.full((len(vocabulary), size), np.nan, dtype=np.float32)
    if UNKNOWN_WORD in rows:
        vectors[rows[UNKNOWN_WORD]] = 0
    with path.open("rb") as file:
        for line, content in enumerate(file, start=1):
            word, *numbers = utf8(content, path, line).rstrip("\n").rsplit(" ", size)
            if len(numbers) != size:
                raise ValueError(f"{path}, line {line}: expected a word and {size} numbers, got {len(numbers)}.")
            row = rows.get(word)
            if row is None:
                continue
            try:
                vectors[row] = [float(number) for number in numbers]
            except ValueError as error:
                raise ValueError(f"{path}, line {line}: {error}.") from None
            if not np.isfinite(vectors[row]).all():
                raise ValueError(f"{path}, line {line}: the vector of {word!r} is not finite.")
    return vectors


def utf8(content: bytes, path: Path, line: int = 1) -> str:
    """Decodes `content`, which begins at `line` of the file."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line += content[: error.start].count(b"\n")
        raise ValueError(f"{path}, line {line}: this is not UTF-8 text.") from None
