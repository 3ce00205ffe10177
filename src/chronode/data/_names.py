"""Names in messages: listed, checked, with the near ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence

# Names that have less in common are other names, not misspelt ones.
_CLOSE = 0.8
_LEAST_BEGINNING = 3


def distinct(argument: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names as text, refused if one comes twice."""
    told = tuple(str(name) for name in names)
    twice = {name for name in told if told.count(name) > 1} if len(told) < 1000 else set()
    if len(set(told)) < len(told):
        raise ValueError(f"{argument} has a name twice: {listed(sorted(twice)) or 'see the list'}.")
    return told


def known_column(name: str, columns: Collection[str], argument: str, what: str = "columns") -> str:
    """`name` if it is a column (or a sheet, an array), else an error with the names close to it."""
    if name not in columns:
        known = f"; the {what} are {listed(columns)}" if columns else ""
        article = "an" if what[0] in "aeiou" else "a"
        raise ValueError(
            f"{argument}={name!r} is not {article} {what.removesuffix('s')}{known}.{related(name, columns)}"
        )
    return name


def related(name: str, columns: Iterable[str]) -> str:
    """The columns that `name` may mean, as the tail of an error message ("" if there is none).

    A user's columns may be called anything, so that only those are proposed that differ in a few letters, in case or in
    separators, that begin with the name, or that hold all of its words (or the reverse).

    Example:
        >>> related("rate", ["heart_rate", "date"]), related("outcome", ["income"])
        (" Did you mean 'heart_rate'?", '')
    """
    scores = {other: _likeness(str(name), other) for other in map(str, columns)}
    close = sorted((other for other in scores if scores[other] >= _CLOSE), key=lambda other: -scores[other])[:3]
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def _likeness(name: str, other: str) -> float:
    """From 0 to 1: how much two names have in common."""
    ours, theirs = (re.findall(r"[^\W_]+", text.casefold()) for text in (name, other))
    first, second = "".join(ours), "".join(theirs)
    letters = difflib.SequenceMatcher(None, first, second).ratio()
    shared = bool(ours and theirs) and ({*ours} <= {*theirs} or {*theirs} <= {*ours})
    shared |= len(first) >= _LEAST_BEGINNING and second.startswith(first)
    shared |= abs(len(first) - len(second)) == 1 and (first in second or second in first)  # short names
    return max(letters, _CLOSE if shared else 0.0)


def known_columns(names: Iterable[str], columns: Iterable[str], argument: str) -> list[str]:
    """The names if they are columns; pieces of a name that holds commas (from the command line) are joined again.

    Example:
        >>> known_columns(["Temp", "C", "x"], ["Temp, C", "x"], "columns")
        ['Temp, C', 'x']
    """
    known, pieces, found, at = dict.fromkeys(columns), [str(name) for name in names], [], 0
    most = 1 + max((name.count(",") for name in known), default=0)  # pieces of one name
    while at < len(pieces):
        sizes = (size for size in range(most, 0, -1) if _joined(pieces[at : at + size], known))
        size = next(sizes, 1)
        found.append(_joined(pieces[at : at + size], known) or known_column(pieces[at], known, argument))
        at += size
    return found


def _joined(pieces: Sequence[str], columns: Collection[str]) -> str:
    """The column that the pieces make up with commas between them; "" if there is none."""
    return next((name for name in (", ".join(pieces), ",".join(pieces)) if name in columns), "")


def one_or_more(names: str | Iterable[str]) -> list[str]:
    """A list of names, also of a single one."""
    return [names] if isinstance(names, str) else [*names]


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names in quotes, the first few of many."""
    names = [str(name) for name in names]
    more = f", ... ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def counted(count: int, what: str) -> str:
    """A number with its noun: "1 row", "2,000 rows", "2 classes", "2 series"."""
    plural = what if what == "series" else f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"
