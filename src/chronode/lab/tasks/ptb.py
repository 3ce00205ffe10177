"""Penn Treebank in the word-level version of Mikolov: next-word prediction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, from_list, windows
from ...settings import whole
from ..datasets._download import folder
from ._parts import add, located
from ._text import Numbering, utf8

END = "<eos>"


def read_words(path: Path, numbering: Numbering) -> NDArray[np.int32]:
    """Reads all words of a file as one stream, with END after every line."""
    text = utf8(path.read_bytes(), path)
    words = [word for line in text.splitlines() for word in (*line.split(), END)]
    if len(words) < 2:
        raise ValueError(f"{path}, line 1: there must be at least two words.")
    return numbering.encode(words)


def pieces(stream: NDArray[np.int32], vocabulary: tuple[str, ...], name: str, length: int) -> Sequences:
    """Cuts the stream into series of `length` words in reading order; the target of each step is the next word.

    Series i + 1 continues where series i ends, so the state may be carried over: divide `range(len(pieces))` into as
    many ranges as a batch has rows and process them in order. All series have the group `name`, because they are one
    text.

    Example:
        >>> s = pieces(np.array([0, 1, 2, 1, 0, 2], dtype=np.int32), ("<unk>", "a", "b"), "train", 3)
        >>> [(series.values[:, 0].tolist(), series.target.tolist()) for series in s]
        [([0, 1, 2], [1, 2, 1]), ([1, 0], [0, 2])]
    """
    whole_text = from_list(
        [stream[:-1]],
        target=[stream[1:]],
        per_step=True,
        classes=vocabulary,
        target_names=["next word"],
        ids=[name],
        channels=["word"],
        dtype="int32",
    )
    return replace(windows(whole_text, length, rest="keep"), categories={"word": vocabulary})


def _make(protocol: str, seed: int, *, length: int) -> Parts:
    """Creates the parts; the split is published, so both protocols are the same and the seed has no effect."""
    length, numbering = whole("length", length, at_least=1), Numbering()
    top, names = folder("ptb"), ("train", "valid", "test")
    streams = [read_words(located(top, f"ptb.{name}.txt"), numbering) for name in names]
    vocabulary = numbering.vocabulary(streams[0])
    symbols = [numbering.table(vocabulary)[stream] for stream in streams]
    train, valid, test = (pieces(s, vocabulary, name, length) for s, name in zip(symbols, names, strict=True))
    return Parts(train, valid, test)


add("ptb", _make)
