"""The English of the package and its documents: words and phrases that must not come back.

Names, comments, docstrings, messages and pages use the words of the field and of scikit-learn's documentation, in
American spelling. The lists are short on purpose: each entry was used throughout the code base once, and none has a
proper use here. Every test reports all offending places at once.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
FOLDERS = ("src", "tests", "benchmarks", "docs")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)]
TEXTS = {path: path.read_text(encoding="utf-8") for path in (*SOURCES, *PAGES)}

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
    "is no truth value": "is not a boolean",
    "is told as": "is reported as",
    "lacks here": "is missing from this file",
    "learns what it leaves": "learns the residuals",
    "nothing better came": "no improvement",
    "of who learns": "of always predicting",
    "one a layer": "one per layer",
    "others than": "different from",
    "say what is to be": "pass the target",
    "the runs that are lacking": "the missing runs",
    "what came of": "the result of",
    "whether a film review": "IMDB review sentiment",
    "whole or not at all": "atomically",
    "with more to fit": "with more parameters",
}

# British stems and the American ones. The field `licence` of the catalogue of data sets is stored, and keeps its name.
SPELLINGS = {
    "analysed": "analyzed",
    "analysing": "analyzing",
    "artefact": "artifact",
    "behaviour": "behavior",
    "cancelled": "canceled",
    "centre": "center",
    "centring": "centering",
    "colour": "color",
    "favour": "favor",
    "fibre": "fiber",
    "grey": "gray",
    "judgement": "judgment",
    "labell": "label",
    "learnt": "learned",
    "metres": "meters",
    "modelled": "modeled",
    "modelling": "modeling",
    "neighbour": "neighbor",
    "travell": "travel",
    **{
        stem + "is" + end: stem + "iz" + end
        for stem in (
            *("character", "discret", "final", "general", "initial", "linear", "maxim", "memor", "minim", "normal"),
            *("optim", "organ", "parametr", "parameter", "penal", "quant", "random", "real", "recogn", "regular"),
            *("serial", "special", "standard", "summar", "synchron", "token", "util", "vector", "visual"),
        )
        for end in ("e", "ing", "ation")
    },
}
BRITISH = re.compile("|".join(SPELLINGS))

# Docstrings begin with a verb or a noun, and so does the description of an argument.
FIRST = r"(?:Of|What|How|Which|Where)\b"
DANGLING = re.compile(rf"(?m)^(?:Returns|Yields| +(?:Returns|Yields)):\n +({FIRST}.*)|^ +(\*{{0,2}}\w+: {FIRST}.*)")


def docstrings_of(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of every string that is a statement: docstrings, and those below a constant."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def words_in(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower().replace("_", " ")))


def banned_words(text: str) -> Iterator[str]:
    """Yields what is wrong with the words of a text, and what to write instead."""
    for word in sorted(words_in(text) & set(NAMES)):
        yield f"{word!r}: write {NAMES[word]}"
    plain = " ".join(text.split()).lower()
    for phrase, better in PHRASES.items():
        if phrase in plain and re.search(rf"\b{re.escape(phrase)}\b", plain):
            yield f"{phrase!r}: write {better}"


def british_spellings(text: str) -> Iterator[str]:
    """Yields the British stems of a text with their American spelling."""
    for stem in sorted(set(BRITISH.findall(text.lower()))):
        yield f"{stem!r}: write {SPELLINGS[stem]}"


def bad_openings(source: str) -> Iterator[str]:
    """Yields docstrings and argument descriptions that do not begin with a verb or a noun."""
    for line, text in docstrings_of(source):
        if re.match(FIRST, text):
            yield f"line {line}: {text.splitlines()[0]}"
        for match in DANGLING.finditer(text):
            group = 1 if match[1] else 2
            yield f"line {line + text.count(chr(10), 0, match.start(group))}: {match[group].strip()}"


def report(check: Callable[[str], Iterator[str]], paths: Iterable[Path]) -> str:
    """Returns one line for each finding in the files."""
    return "\n".join(f"{path.relative_to(ROOT)}: {fault}" for path in paths for fault in check(TEXTS[path]))


def test_the_words_of_the_field_are_used():
    faults = report(banned_words, TEXTS)
    assert not faults, f"\n{faults}"


def test_american_spelling():
    faults = report(british_spellings, TEXTS)
    assert not faults, f"\n{faults}"


def test_docstrings_begin_with_a_verb_or_a_noun():
    faults = report(bad_openings, SOURCES)
    assert not faults, f"\n{faults}"


def test_each_rule_finds_what_it_bans():
    assert list(banned_words("def read_told(x): ...  # one a\n  layer")) == [
        "'told': write description, text or options",
        "'one a layer': write one per layer",
    ]
    assert not list(banned_words("years, tolder, dicer"))
    assert list(british_spellings("OPTIMISER_Colours")) == ["'colour': write color", "'optimise': write optimize"]
    assert not list(british_spellings("optimistic, organism, promise, labels, concentrated"))
    source = '"""Sums.\n\nArgs:\n    x: Of the sum.\n    y: Offset.\n\nReturns:\n    What is left.\n"""\n'
    source += 'N = 1\n"""How many."""\n'
    assert list(bad_openings(source)) == ["line 4: x: Of the sum.", "line 8: What is left.", "line 11: How many."]
    assert not list(bad_openings('"""Whether it fits.\n\nArgs:\n    x: Offset. What it is not matters.\n"""\n'))
