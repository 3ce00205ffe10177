"""The English of the package and its documents: words and phrases that must not come back.

Names, comments, docstrings, messages and pages use the words of the field and of scikit-learn's documentation. The
lists are short on purpose: each entry was used throughout the code base once, and none has a proper use here.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
FOLDERS = ("src", "tests", "benchmarks", "docs")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)]

# As whole words, in code as well as in text; parts of names are divided at underscores.
NAMES = {
    "dice": "rng",
    "told": "description, text or options",
    "anew": "again",
    "ears": "receiver",
    "mouth": "sender",
    "trainings": "runs",
    "whoever": "the caller, the user",
}

# As whole phrases, in text and in strings.
PHRASES = {
    "a line each": "one line each, or a list",
    "a step each": "per step",
    "and the like": "such as",
    "at hand": "available",
    "by turns": "interleaved",
    "brings its own": "has its own",
    "does not suffice": "is not enough",
    "goes on where": "resumes where",
    "is no run folder": "is not a run folder",
    "is told as": "is reported as",
    "lacks here": "is missing from this file",
    "nothing better came": "no improvement",
    "of who learns": "of always predicting",
    "one a layer": "one per layer",
    "others than": "different from",
    "say what is to be": "pass the target",
    "the runs that are lacking": "the missing runs",
    "what came of": "the result of",
    "whether a film review": "IMDB review sentiment",
    "whole or not at all": "atomically",
}


def words_in(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower().replace("_", " ")))


def text_of(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").split()).lower()


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=named)
def test_the_words_of_the_field_are_used(path):
    found = {word: NAMES[word] for word in words_in(path.read_text(encoding="utf-8")) & set(NAMES)}
    assert not found, f"{named(path)}: write instead {found}"
    text = text_of(path)
    found = {phrase: better for phrase, better in PHRASES.items() if re.search(rf"\b{re.escape(phrase)}\b", text)}
    assert not found, f"{named(path)}: write instead {found}"


def test_a_banned_word_is_found():
    assert words_in("def read_told(x): ...") & set(NAMES) == {"told"}
    assert not words_in("years, tolder, dicer") & set(NAMES)
