"""Settings: their declaration as data, checks of values, and errors that name them in the words of the front end."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeVar

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


Class = TypeVar("Class", bound=type[Any])

PANELS = ("Data", "Time", "Target", "Model", "Training", "Search", "Workers", "Output")
"""The groups of options in --help, in this order."""

_FLAGS: dict[str, tuple[str, ...]] = {
    "anyway": ("--anyway/",),
    "at": ("--at",),
    "cost": ("--cost",),
    "explain": ("--explain",),
    "first": ("--first",),
    "folds": ("--folds",),
    "of": ("--of",),
    "origins": ("--origins",),
    "season": ("--season",),
    "sensitivity": ("--sensitivity",),
    "spans": ("--spans",),
    "specificity": ("--specificity",),
    "threshold": ("--value",),
    "unit": ("--time-unit",),
    "until": ("--until",),
}


def option(
    default: Any, panel: str, example: Any, *flags: str, choices: Sequence[str] | None = None, **limits: float
) -> Any:
    """Returns a dataclass field with a default, its constraint, and the details that `--help` shows.

    Args:
        default: Default value.
        panel: One of PANELS.
        example: A value as a user would type it.
        flags: Flags that replace the one made from the name of the field; all of them are keys of YAML files too.
        choices: Values of a text; None for any text.
        limits: Limits of a number, as for `whole` and `number`.

    Example:
        >>> @dataclasses.dataclass
        ... class Settings:
        ...     epochs: int = option(20, "Training", 50, at_least=1)
        >>> Settings().epochs, dataclasses.fields(Settings)[0].metadata["panel"]
        (20, 'Training')
    """
    return dataclasses.field(default=default, metadata=about(panel, example, *flags, choices=choices, **limits))


def about(panel: str, example: Any, *flags: str, choices: Sequence[str] | None = None, **limits: float) -> Any:
    """Returns the metadata of a field that is an option; the arguments are those of `option`."""
    assert panel in PANELS, panel
    return {"panel": panel, "example": str(example), "flags": flags, "choices": choices, "limits": limits}


def declared(cls: Class) -> Class:
    """Class decorator that makes the options of a dataclass known to `named`."""
    for field in dataclasses.fields(cls):
        if "panel" in field.metadata:
            dashed = f"--{field.name.replace('_', '-')}"
            switch = "bool" in str(field.type)
            usual = f"{dashed}/--no-{dashed[2:]}" if switch else dashed
            _FLAGS[field.name] = field.metadata["flags"] or (usual,)
    return cls


def flags_of(name: str) -> tuple[str, ...]:
    """Returns the flags of a setting on the command line; empty if it is no option."""
    return _FLAGS.get(name, ())


def setting_named(name: str, cls: type[Any]) -> str:
    """Returns the name of the setting of a declared class for which `name`, such as "lr", is another name.

    Example:
        >>> @declared
        ... @dataclasses.dataclass
        ... class Settings:
        ...     learning_rate: float = option(0.1, "Training", 1, "--learning-rate", "--lr")
        >>> setting_named("lr", Settings), setting_named("clip", Settings)
        ('learning_rate', 'clip')
    """
    flag = f"--{name.replace('_', '-')}"
    others = (field.name for field in dataclasses.fields(cls) if flag in field.metadata.get("flags", ()))
    return name if name in cls.__dataclass_fields__ else next(others, name)


def help_texts(cls: type[Any]) -> dict[str, str]:
    """Returns the help of the settings of a class: their texts under "Attributes:" in its docstring."""
    block = (inspect.getdoc(cls) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (?=\w+: )", block, flags=re.MULTILINE)[1:]
    pairs = (entry.split(": ", 1) for entry in entries)
    return {name: " ".join(text.split()) for name, text in pairs}
