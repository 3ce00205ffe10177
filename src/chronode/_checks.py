"""Checks of settings: each says which argument is wrong, what it was, and what would be right."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeVar

# Names that have less in common are other names, not misspelt ones.
_CLOSE = 0.75
_LEAST_BEGINNING = 3

Choice = TypeVar("Choice", bound=str)


def near(name: str, known: Iterable[str]) -> str:
    """The known names close to `name`, as the tail of an error message ("" if none is close).

    Close are names that differ in a few letters, in case or in separators, and those that share a word or begin with
    the name.

    Example:
        >>> near("tempratur", ["temperature", "tenure"]), near("hr", ["x", "y"]), near("rate", ["heart_rate", "date"])
        (" Did you mean 'temperature'?", '', " Did you mean 'heart_rate' or 'date'?")
    """
    scores = {other: _likeness(str(name), other) for other in map(str, known)}
    close = sorted((other for other in scores if scores[other] >= _CLOSE), key=lambda other: -scores[other])[:3]
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def _likeness(name: str, other: str) -> float:
    """From 0 to 1: how much two names have in common."""
    ours, theirs = (re.findall(r"[^\W_]+", text.casefold()) for text in (name, other))
    first, second = "".join(ours), "".join(theirs)
    letters = difflib.SequenceMatcher(None, first, second).ratio()
    shared = any(word in theirs for word in ours) or (len(first) >= _LEAST_BEGINNING and second.startswith(first))
    shared |= abs(len(first) - len(second)) == 1 and (first in second or second in first)  # short names
    return max(letters, _CLOSE if shared else 0.0)


def one_of(argument: str, value: Choice, options: Iterable[Choice]) -> Choice:
    """`value` if it is among `options`, else a ValueError that lists them."""
    options = list(options)
    if value not in options:
        listed = ", ".join(map(repr, options))
        raise ValueError(f"{argument}={value!r} is not known; choose one of {listed}.{near(value, options)}")
    return value


def whole(argument: str, value: int, *, at_least: int) -> int:
    """`value` as an int if it is a whole number of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{argument} must be a whole number, got {value!r} ({type(value).__name__}).")
    if value < at_least:
        raise ValueError(f"{argument} must be at least {at_least}, got {value}.")
    return int(value)


def number(
    argument: str,
    value: float,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
) -> float:
    """`value` as a finite float within the given bounds."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{argument} must be a number, got {value!r} ({type(value).__name__}).")
    if not math.isfinite(value):
        raise ValueError(f"{argument} must be finite, got {value}.")
    if above is not None and value <= above:
        raise ValueError(f"{argument} must be greater than {above}, got {value}.")
    if at_least is not None and value < at_least:
        raise ValueError(f"{argument} must be at least {at_least}, got {value}.")
    if below is not None and value >= below:
        raise ValueError(f"{argument} must be less than {below}, got {value}.")
    return float(value)


def flag(argument: str, value: bool) -> bool:
    """`value` if it is True or False (a string such as "no" would silently count as true)."""
    if not isinstance(value, bool):
        raise TypeError(f"{argument} must be True or False, got {value!r}.")
    return value
