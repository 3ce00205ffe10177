"""Text as series of symbols: words, numbers for them, and ready-made word vectors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import whole
from ..data import Sequences, from_list

UNKNOWN_WORD = "<unk>"
"""Symbol 0: every word outside the vocabulary. Padding is 0 too; lengths tell it apart."""

_WORD = re.compile(r"n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]")


def words_of(text: str) -> list[str]:
    """The words of an English text in small letters; contractions are cut as in GloVe, other marks stand alone.

    Example:
        >>> words_of("It's good,<br />isn't it?")
        ['it', "'s", 'good', ',', 'is', "n't", 'it', '?']
    """
    return _WORD.findall(text.lower().replace("<br />", " ").replace("n't", " n't"))


class Numbering:
    """Numbers for words in the order in which they turn up, until `vocabulary` decides which ones stay.

    Example:
        >>> numbering = Numbering()
        >>> numbering.encode(["to", "be", "or", "not", "to", "be"]).tolist()
        [0, 1, 2, 3, 0, 1]
    """

    def __init__(self) -> None:
        self.numbers: defaultdict[str, int] = defaultdict()
        self.numbers.default_factory = self.numbers.__len__

    def encode(self, words: Sequence[str]) -> NDArray[np.int32]:
        """The words' numbers; a new word gets the next one."""
        return np.fromiter(map(self.numbers.__getitem__, words), np.int32, len(words))

    def vocabulary(self, train: NDArray[np.int32], most: int | None = None) -> tuple[str, ...]:
        """UNKNOWN_WORD, then the words of `train` by falling count (the alphabet decides ties), at most `most`."""
        counts = np.bincount(train, minlength=len(self.numbers))
        seen = [word for word, number in self.numbers.items() if counts[number] and word != UNKNOWN_WORD]
        ranked = sorted(seen, key=lambda word: (-counts[self.numbers[word]], word))
        return (UNKNOWN_WORD, *ranked[:most])

    def table(self, vocabulary: Sequence[str]) -> NDArray[np.int32]:
        """`(words,)` the symbol of each number: its place in `vocabulary`, 0 where it has none."""
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
    """A series per review: its words, as the numbers of `numbering`.

    Args:
        reviews: they are read one by one, so that the texts never lie in memory together.
        numbering: gets the words that it does not know yet.
        classes: the classes' names.
        target: the name of what is to be learnt.
        longest: how many words of a review are kept, from its beginning; None for all.
    """
    if longest is not None:
        longest = whole("longest", longest, at_least=1)
    ids, labels, series = [], [], []
    for review in reviews:
        words = words_of(review.text)[:longest]
        if not words:
            raise ValueError(f"{review.id}: the review has no word.")
        ids.append(review.id)
        labels.append(review.label)
        series.append(numbering.encode(words))
    told: dict[str, Any] = {"channels": ["word"], "dtype": "int32", "target_names": [target], "classes": classes}
    return from_list(series, target=np.array(labels), per_step=False, ids=np.array(ids), **told)


def as_symbols(s: Sequences, numbering: Numbering, vocabulary: tuple[str, ...]) -> Sequences:
    """The same series with symbols in place of numbers; `categories["word"]` tells the words."""
    symbols = numbering.table(vocabulary)[s.base_values]
    return replace(s, base_values=symbols, categories={"word": vocabulary})


def word_vectors(path: Path, vocabulary: Sequence[str], size: int = 100) -> NDArray[np.float32]:
    """`(symbols, size)` vectors from a GloVe text file (a word and its numbers per line).

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
                raise ValueError(f"{path}, line {line}: a word and {size} numbers are expected, not {len(numbers)}.")
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
    """`content`, which begins at `line` of the file, as text."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line += content[: error.start].count(b"\n")
        raise ValueError(f"{path}, line {line}: this is not UTF-8 text.") from None
