"""Errors about settings and columns: they carry fields, and name settings in the words of the front end."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ._options import flags_of

_FRONT = "CHRONODE_FRONT_END"  # in the environment, so that processes of a search speak as the command that began it
_OPTIONS = "options"
_PLAIN = re.compile(r"[\w./%:,+=@-]+")  # a value that a shell takes without quotes
_UNSET: Any = object()


class _Fields(Exception):
    """Fields of an error about a setting or a column.

    Attributes:
        argument: Name of the setting or column; "" if there is none.
        place: File, section or series where it went wrong; "" if there is none.
        cure: Advice for the user; "" if the message is enough.
        problem: The message without its place.
    """

    def __init__(self, problem: str, *, argument: str = "", place: object = "", cure: str = ""):
        self.argument, self.place, self.cure = argument, str(place), cure
        if cure:
            problem = f"{problem} {cure}" if problem.endswith((".", "?")) else f"{problem}: {cure}"
        self.problem = problem if problem.endswith((".", "?", ")", "\n")) or not cure else f"{problem}."
        super().__init__(f"{place}: {self.problem}" if self.place else self.problem)


class SettingError(_Fields, ValueError):
    """Value of a setting or column that cannot be used; see `named` for how the message names settings.

    Args:
        problem: The problem in a sentence, without place and cure.
        argument: Name of the setting or column.
        place: File, section or series where it went wrong; begins the message.
        cure: Advice for the user; ends the message.

    Example:
        >>> error = SettingError(f"{named('stride', ...)} needs {named('window', ...)}", argument="stride")
        >>> str(error), error.argument
        ('stride=... needs window=...', 'stride')
        >>> str(SettingError("no values in 'hr'", argument="hr", place="a.csv", cure="leave this column out"))
        "a.csv: no values in 'hr': leave this column out."
    """


class SettingTypeError(_Fields, TypeError):
    """Value of a setting that has the wrong type; the arguments are those of `SettingError`."""


def error_at(place: object, error: Exception) -> Exception:
    """Returns the error with the place where it occurred at its beginning, and with the same fields.

    Example:
        >>> found = error_at("a.csv", SettingError("no values in 'hr'", argument="hr"))
        >>> str(found), found.argument, found.place
        ("a.csv: no values in 'hr'", 'hr', 'a.csv')
    """
    if not isinstance(error, _Fields):
        return ValueError(f"{place}: {error}")
    whole_place = f"{place}: {error.place}" if error.place else place
    moved = type(error)(error.problem, argument=error.argument, place=whole_place)
    moved.cure = error.cure
    return moved


def named(name: str, value: Any = _UNSET) -> str:
    """Returns how the user writes a setting: as a Python argument, or as an option on the command line.

    Args:
        name: Name of the setting.
        value: Value that it has or should have; `...` for any; omit it for the name alone.

    Example:
        >>> named("time_format"), named("gaps", "cap"), named("learning_rate", 10.0), named("window", ...)
        ('time_format', "gaps='cap'", 'learning_rate=10', 'window=...')
    """
    flags = flags_of(name) if os.environ.get(_FRONT) == _OPTIONS else ()
    if not flags:
        return name if value is _UNSET else f"{name}={'...' if value is ... else _text(value, repr)}"
    yes, switch, no = flags[0].partition("/")
    if switch:
        return (no or f"no {yes}") if value is False else yes
    if value is _UNSET or value is ...:
        return yes
    if isinstance(value, dict):
        return " ".join(f"{yes} {key}={item}" for key, item in value.items())
    text = ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else _text(value)
    return f"{yes} {text}" if _PLAIN.fullmatch(text) else f'{yes} "{text}"'


def _text(value: Any, of_others: Callable[[Any], str] = str) -> str:
    """Returns a value as text; a number without zeros at its end."""
    if not isinstance(value, float):
        return of_others(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:g}"


@contextmanager
def naming_options(wanted: bool = True) -> Iterator[None]:
    """Settings are named as options of the command line inside of the block, or as Python arguments."""
    before = os.environ.get(_FRONT)
    os.environ[_FRONT] = _OPTIONS if wanted else ""
    try:
        yield
    finally:
        os.environ.pop(_FRONT)
        if before is not None:
            os.environ[_FRONT] = before
