"""Errors about settings and columns: they carry fields, and name settings in the words of the front end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
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
    """

    def __init__(self, problem: str, *, argument: str = "", place: object = "", cure: str = ""):
        self.argument, self.place, self.cure = argument, str(place), cure
        text = f"{place}: {problem}" if self.place else problem
        if cure:
            text = f"{text} {cure}" if text.endswith((".", "?")) else f"{text}: {cure}"
        super().__init__(text if text.endswith((".", "?", ")", "\n")) or not cure else f"{text}.")


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
    moved = type(error)(f"{place}: {error}", argument=error.argument)
    moved.place, moved.cure = f"{place}: {error.place}" if error.place else str(place), error.cure
    return moved


def named(name: str, value: Any = _UNSET) -> str:
    """Returns how the user writes a setting: as a Python argument, or as an option on the command line.

    Args:
        name: Name of the setting.
        value: Value that it has or should have; `...` for any; omit it for the name alone.

    Example:
        >>> named("time_format"), named("gaps", "cap"), named("per_step", False), named("window", ...)
        ('time_format', "gaps='cap'", 'per_step=False', 'window=...')
    """
    flags = flags_of(name) if os.environ.get(_FRONT) == _OPTIONS else ()
    if not flags:
        return name if value is _UNSET else f"{name}={'...' if value is ... else repr(value)}"
    yes, switch, no = flags[0].partition("/")
    if switch:
        return (no or f"no {yes}") if value is False else yes
    if value is _UNSET or value is ...:
        return yes
    if isinstance(value, dict):
        return " ".join(f"{yes} {key}={item}" for key, item in value.items())
    text = ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else _text(value)
    return f"{yes} {text}" if _PLAIN.fullmatch(text) else f'{yes} "{text}"'


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


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
