"""Checks of settings: errors name the argument, the value it has and the values it may have."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeVar

from ._errors import SettingError, SettingTypeError, named

Choice = TypeVar("Choice", bound=str)


def near(name: str, known: Iterable[str]) -> str:
    """Returns the known names close to `name` as the end of an error message; "" if there are none."""
    close = difflib.get_close_matches(str(name), list(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def one_of(argument: str, value: Choice, options: Iterable[Choice]) -> Choice:
    """Returns `value` if it is one of `options`; otherwise raises a ValueError that lists them."""
    options = list(options)
    if value not in options:
        listed = ", ".join(map(repr, options))
        raise SettingError(
            f"{named(argument, value)} is not supported; choose one of {listed}.{near(value, options)}",
            argument=argument,
        )
    return value


def whole(argument: str, value: int, *, at_least: int, at_most: int | None = None) -> int:
    """Returns `value` as an int; raises an error unless it is a whole number within the bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SettingTypeError(
            f"{named(argument)} must be a whole number, got {value!r} ({type(value).__name__}).", argument=argument
        )
    if value < at_least:
        raise SettingError(f"{named(argument)} must be at least {at_least}, got {value}.", argument=argument)
    if at_most is not None and value > at_most:
        raise SettingError(f"{named(argument)} must be at most {at_most:,}, got {value:,}.", argument=argument)
    return int(value)


def number(
    argument: str,
    value: float,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """Returns `value` as a float; raises an error unless it is finite and within the bounds."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SettingTypeError(
            f"{named(argument)} must be a number, got {value!r} ({type(value).__name__}).", argument=argument
        )
    if not math.isfinite(value):
        raise SettingError(f"{named(argument)} must be finite, got {value}.", argument=argument)
    if above is not None and value <= above:
        raise SettingError(f"{named(argument)} must be greater than {above}, got {value}.", argument=argument)
    if at_least is not None and value < at_least:
        raise SettingError(f"{named(argument)} must be at least {at_least}, got {value}.", argument=argument)
    if below is not None and value >= below:
        raise SettingError(f"{named(argument)} must be less than {below}, got {value}.", argument=argument)
    if at_most is not None and value > at_most:
        raise SettingError(f"{named(argument)} must be at most {at_most}, got {value}.", argument=argument)
    return float(value)


def flag(argument: str, value: bool) -> bool:
    """Returns `value` if it is True or False; a string such as "no" would otherwise count as true."""
    if not isinstance(value, bool):
        raise SettingTypeError(f"{named(argument)} must be True or False, got {value!r}.", argument=argument)
    return value


def check_declared(settings: Any) -> None:
    """Checks the values of a declared dataclass by the types and constraints of its fields; None is left as it is."""
    for field in fields(settings):
        value, kind = getattr(settings, field.name), str(field.type).removesuffix(" | None")
        if "panel" not in field.metadata or (value is None and kind != field.type):
            continue
        if kind == "int":
            whole(field.name, value, **field.metadata["limits"])
        elif kind == "float":
            number(field.name, value, **field.metadata["limits"])
        elif kind == "bool":
            flag(field.name, value)
        elif field.metadata["choices"] is not None:
            one_of(field.name, value, field.metadata["choices"])


def percents(name: str, levels: Sequence[float]) -> tuple[float, ...]:
    """Returns confidence levels in percent, each from 1 to 99.

    Example:
        >>> percents("intervals", [80, 95])
        (80.0, 95.0)
    """
    shares = tuple(float(number(name, level)) for level in levels)
    wrong = [level for level in shares if not 1 <= level <= 99]
    if wrong:
        raise SettingError(
            f"{named(name)} must be levels in percent from 1 to 99, such as 80,95; got {wrong[0]:g}.", argument=name
        )
    if len(set(shares)) < len(shares):
        raise SettingError(
            f"{named(name)} contains a level twice: {', '.join(f'{level:g}' for level in shares)}.", argument=name
        )
    return shares
