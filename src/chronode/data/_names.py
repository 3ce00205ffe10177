"""Names in messages: listing, checking and suggesting similar ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

# Below this similarity, a name is a different one rather than misspelled.
from ..settings import SettingError, named

_CLOSE = 0.8
_LEAST_BEGINNING = 3


def distinct(argument: str, names: Iterable[str]) -> tuple[str, ...]:
    """Returns the names as text; rejects duplicates."""
    texts = tuple(str(name) for name in names)
    twice = {name for name in texts if texts.count(name) > 1} if len(texts) < 1000 else set()
    if len(set(texts)) < len(texts):
        raise ValueError(f"{argument} contains a name twice: {listed(sorted(twice)) or 'see the list'}.")
    return texts


def known_column(name: str, columns: Collection[str], argument: str, what: str = "columns") -> str:
    """Returns `name` if it is a column (or a sheet, an array); otherwise raises an error with similar names."""
    if name not in columns:
        families_of = f"; the {what} are {listed(columns)}" if columns else ""
        is_option = named(argument) != argument
        shown = partial(named, argument) if is_option else repr
        article = "an" if what[0] in "aeiou" else "a"
        raise SettingError(
            f"{named(argument, name)} is not {article} {what.removesuffix('s')}{families_of}."
            f"{related(name, columns, shown)}",
            argument=argument,
        )
    return name


def related(name: str, columns: Iterable[str], shown: Callable[[str], str] = repr) -> str:
    """Returns the columns that `name` may mean as the end of an error message ("" if there are none).

    Columns may have any names, so only those are suggested that differ in a few letters, in case or in separators, that
    begin with the name, or that contain all of its words (or the reverse).

    Example:
        >>> related("rate", ["heart_rate", "date"]), related("outcome", ["income"])
        (" Did you mean 'heart_rate'?", '')
    """
    scores = {other: _likeness(str(name), other) for other in map(str, columns)}
    close = sorted((other for other in scores if scores[other] >= _CLOSE), key=lambda other: -scores[other])[:3]
    return f" Did you mean {' or '.join(map(shown, close))}?" if close else ""


def _likeness(name: str, other: str) -> float:
    """Returns the similarity of two names, from 0 to 1."""
    ours, theirs = (re.findall(r"[^\W_]+", text.casefold()) for text in (name, other))
    first, second = "".join(ours), "".join(theirs)
    letters = difflib.SequenceMatcher(None, first, second).ratio()
    shared = bool(ours and theirs) and ({*ours} <= {*theirs} or {*theirs} <= {*ours})
    shared |= len(first) >= _LEAST_BEGINNING and second.startswith(first)
    shared |= abs(len(first) - len(second)) == 1 and (first in second or second in first)  # short names
    return max(letters, _CLOSE if shared else 0.0)


def known_columns(names: Iterable[str], columns: Iterable[str], argument: str) -> list[str]:
    """Returns the names if they are columns; pieces of a name that contains commas (command line) are joined again.

    Example:
        >>> known_columns(["Temp", "C", "x"], ["Temp, C", "x"], "columns")
        ['Temp, C', 'x']
    """
    choices, pieces, matches, at = dict.fromkeys(columns), [str(name) for name in names], [], 0
    most = 1 + max((name.count(",") for name in choices), default=0)  # pieces of one name
    while at < len(pieces):
        sizes = (size for size in range(most, 0, -1) if _joined(pieces[at : at + size], choices))
        size = next(sizes, 1)
        matches.append(_joined(pieces[at : at + size], choices) or known_column(pieces[at], choices, argument))
        at += size
    return matches


def _joined(pieces: Sequence[str], columns: Collection[str]) -> str:
    """Returns the column that the pieces form with commas between them; "" if there is none."""
    return next((name for name in (", ".join(pieces), ",".join(pieces)) if name in columns), "")


def one_or_more(names: str | Iterable[str]) -> list[str]:
    """Returns a list of names, also for a single name."""
    return [names] if isinstance(names, str) else [*names]


def listed(names: Iterable[object], most: int = 12) -> str:
    """Lists names in quotes, only the first few of many."""
    names = [str(name) for name in names]
    more = f", ... ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def counted(count: int, what: str) -> str:
    """Returns a number with its noun: "1 row", "2,000 rows", "2 classes", "2 series"."""
    plural = what if what == "series" else f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"
