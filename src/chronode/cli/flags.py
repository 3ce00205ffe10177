"""Command-line options made from dataclasses: a field is an option, its docstring is the help."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import re
from collections.abc import Callable, Collection
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from ..runs import SECTIONS, exponent
from ..settings import PANELS, SettingError, flags_of, help_texts, named, naming_options
from ..storage import parse_yaml

_FIRST = ("target", "horizon", "id", "time", "static", "test", "model", "epochs", "output")
"""Options that a first run may need; --help begins with them."""
_TEXTS = ("horizon",)  # a number or a duration, which only the file makes a number


@cache
def parameters(section: type[Any]) -> list[inspect.Parameter]:
    """Returns a parameter for each option of a dataclass, for a Typer command; None means not given.

    Example:
        >>> from chronode.training import Settings
        >>> [p.name for p in parameters(Settings)][:3]
        ['epochs', 'steps', 'batch_size']
    """
    helps, hints = help_texts(section), get_type_hints(section)
    options = []
    for field in dataclasses.fields(section):
        if "panel" not in field.metadata:
            continue
        kind = str if field.name in _TEXTS else _kind(hints[field.name])
        option = typer.Option(
            *flags_of(field.name),
            help=f"{_in_options(helps[field.name])} [{_default(field)}example: {field.metadata['example']}]",
            show_default=False,
            metavar=_metavar(hints[field.name]),
            rich_help_panel=field.metadata["panel"],
        )
        annotation = Annotated[kind | None, option]
        options.append(
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )
    return options


class PanelCommand(TyperCommand):
    """Command whose --help groups its options in panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes one section per panel after one for a first run; options without a panel go to the last one."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Basics": [], **{panel: [] for panel in PANELS}}
        own_order = {name: rank for rank, name in enumerate(_FIRST)}
        for parameter in sorted(self.get_params(ctx), key=lambda one: own_order.get(one.name or "", len(_FIRST))):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else PANELS[-1]
                panel = getattr(parameter, "rich_help_panel", None) or usual
                panels["Basics" if parameter.name in own_order else panel].append(record)
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


def with_settings(command: Callable[..., None], without: tuple[str, ...] = ()) -> Callable[..., None]:
    """Adds a flag for every setting of data, model and training to a command with `**given`."""
    added = [parameter for section in SECTIONS.values() for parameter in parameters(section)]
    return _with(command, [parameter for parameter in added if parameter.name not in without])


def with_fields(command: Callable[..., None], section: type[Any], names: Collection[str]) -> Callable[..., None]:
    """Adds flags for some fields of a dataclass to a command with `**given`."""
    return _with(command, [parameter for parameter in parameters(section) if parameter.name in names])


def _with(command: Callable[..., None], wanted: list[inspect.Parameter]) -> Callable[..., None]:
    declared = inspect.signature(command, eval_str=True)
    kept = [parameter for parameter in declared.parameters.values() if parameter.name != "given"]
    command.__signature__ = declared.replace(parameters=[*kept, *wanted])  # pyrefly: ignore
    return command


def words(text: str) -> list[str]:
    """Splits text at commas; quotes protect a comma.

    Example:
        >>> words('mmrnn, "a, b",')
        ['mmrnn', 'a, b']
    """
    cells = next(csv.reader([text], skipinitialspace=True), [])
    return [word.strip() for word in cells if word.strip()]


def values(section: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Converts what was given on the command line to the types of the fields.

    Example:
        >>> from chronode.training import Settings
        >>> values(Settings, {"epochs": 3, "drop_epochs": ["2,4"], "clip": None})
        {'epochs': 3, 'drop_epochs': [2, 4]}
    """
    hints = get_type_hints(section)
    fields = [field for field in dataclasses.fields(section) if given.get(field.name) is not None]
    return {field.name: _value(field, given[field.name], hints[field.name]) for field in fields}


def _members(hint: Any) -> tuple[Any, ...]:
    """Returns the types that a hint allows, without None."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(member for member in members if member is not NoneType)


def _is(hint: Any, kind: type[Any]) -> bool:
    return (get_origin(hint) or hint) is kind


def _kind(hint: Any) -> Any:
    """Returns the type that Typer reads."""
    first = _members(hint)[0]
    return list[str] if _is(first, tuple) or _is(first, dict) else first


def _metavar(hint: Any) -> str | None:
    first = _members(hint)[0]
    return "NAME=VALUE" if _is(first, dict) else "A,B,..." if _is(first, tuple) else None


def _value(field: dataclasses.Field[Any], given: Any, hint: Any) -> Any:
    first, *others = _members(hint)
    if _is(first, dict):
        return dict(_pair(field, text) for text in given)
    if _is(first, tuple):
        parts = [part for text in given for part in words(text)]
        return parts if get_args(first)[0] is str else [_scalar(part) for part in parts]
    if any(_is(other, tuple) for other in others) and "," in given:  # a word, or one number per class
        return [_scalar(part) for part in given.split(",")]
    return given


def _pair(field: dataclasses.Field[Any], text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        example = field.metadata["example"]
        raise SettingError(f"{named(field.name)} {text!r} must be NAME=VALUE, such as {example}.", argument=field.name)
    return key, _scalar(value)


def _scalar(text: str) -> Any:
    """Parses a number, a boolean, a list or a text as YAML."""
    return exponent(parse_yaml(text, repr(text)))


def _in_options(text: str) -> str:
    """Returns a help text with options in place of the settings that it names in backticks."""
    with naming_options():
        return re.sub(r"`(\w+)`", lambda name: f"`{named(name[1])}`" if flags_of(name[1]) else name[0], text)


def _default(field: dataclasses.Field[Any]) -> str:
    """Formats the default for --help; defaults that are None or empty are described in the text."""
    default = field.default
    if default is None or default is dataclasses.MISSING or default in ((), ""):
        return ""
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    return f"default: {'no' if default is False else 'yes' if default is True else shown}; "
