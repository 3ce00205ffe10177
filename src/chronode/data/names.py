"""Names in messages: listed, checked, with the near ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._checks import near


def distinct(argument: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names as text, refused if one comes twice."""
    told = tuple(str(name) for name in names)
    twice = {name for name in told if told.count(name) > 1} if len(told) < 1000 else set()
    if len(set(told)) < len(told):
        raise ValueError(f"{argument} has a name twice: {listed(sorted(twice)) or 'see the list'}.")
    return told


def known_column(name: str, columns: Sequence[str], argument: str) -> str:
    """`name` if it is a column, else an error with the names close to it."""
    if name not in columns:
        told = f"; the columns are {listed(columns)}" if columns else ""
        raise ValueError(f"{argument}={name!r} is not a column{told}.{near(name, columns)}")
    return name


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names in quotes, the first few of many."""
    names = [str(name) for name in names]
    more = f", ... ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def counted(count: int, what: str) -> str:
    """A number with its noun: "1 row", "2,000 rows"."""
    return f"{count:,} {what}{'' if count == 1 or what.endswith('s') else 's'}"
