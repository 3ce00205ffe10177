"""Flags from the settings themselves: a field is a flag, its line in the docstring the flag's help."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from .._documents import parse_yaml
from ..runs._config import DataConfig, ModelConfig, exponent
from ..training._settings import Settings

SECTIONS = {"data": DataConfig, "model": ModelConfig, "training": Settings}

# Flags that are not just the field's name with dashes, or have a short form besides.
_NAMES = {"learning_rate": ("--learning-rate", "--lr"), "settings": ("--set",), "options": ("--option",)}
_NAMES |= {"missing_values": ("--missing",), "missing": ("--allow-missing/--no-allow-missing",)}
_LEFT_OUT = ("source",)


def parameters(section: type[Any]) -> list[inspect.Parameter]:
    """A parameter per field of a dataclass, for a Typer command; None means that it was not given.

    Example:
        >>> from chronode.training import Settings
        >>> [p.name for p in parameters(Settings)][:3]
        ['epochs', 'steps', 'batch_size']
    """
    helps, kinds = _helps(section), get_type_hints(section)
    found = []
    for field in dataclasses.fields(section):
        if field.name in _LEFT_OUT:
            continue
        kind = _kind(kinds[field.name])
        dashed = field.name.replace("_", "-")
        usual = (f"--{dashed}/--no-{dashed}",) if kind is bool else (f"--{dashed}",)
        text = helps.get(field.name, "")
        told = f"{text[:1].upper()}{text[1:]}{_default(field)}"
        names = _NAMES.get(field.name, usual)
        option = typer.Option(*names, help=told, show_default=False, metavar=_metavar(kinds[field.name]))
        annotation = Annotated[kind | None, option]
        found.append(inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return found


def with_settings(command: Callable[..., None], without: tuple[str, ...] = ()) -> Callable[..., None]:
    """Gives a command with `**given` a flag for every setting of data, model and training."""
    own = inspect.signature(command, eval_str=True)
    added = [parameter for section in SECTIONS.values() for parameter in parameters(section)]
    kept = [parameter for parameter in own.parameters.values() if parameter.name != "given"]
    wanted = [parameter for parameter in added if parameter.name not in without]
    command.__signature__ = own.replace(parameters=[*kept, *wanted])  # pyrefly: ignore
    return command


def words(text: str) -> list[str]:
    """What stands between the commas; quotes keep a comma.

    Example:
        >>> words('mmrnn, "a, b",')
        ['mmrnn', 'a, b']
    """
    found = next(csv.reader([text], skipinitialspace=True), [])
    return [word.strip() for word in found if word.strip()]


def values(section: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, as the fields hold it.

    Example:
        >>> from chronode.training import Settings
        >>> values(Settings, {"epochs": 3, "drop_epochs": ["2,4"], "clip": None})
        {'epochs': 3, 'drop_epochs': [2, 4]}
    """
    kinds = get_type_hints(section)
    fields = [field.name for field in dataclasses.fields(section) if given.get(field.name) is not None]
    return {name: _value(name, given[name], str(kinds[name])) for name in fields}


def _kind(hint: Any) -> Any:
    """The type that Typer reads."""
    told = str(hint)
    if told.startswith(("tuple", "dict")):
        return list[str]
    plain = {"bool": bool, "int": int, "float": float}
    names = [name.strip() for name in told.replace("<class '", "").replace("'>", "").split("|")]
    return plain.get(names[0], str)


def _metavar(hint: Any) -> str | None:
    told = str(hint)
    return "NAME=VALUE" if told.startswith("dict") else "A,B,..." if told.startswith("tuple") else None


def _value(name: str, given: Any, kind: str) -> Any:
    if kind.startswith("dict"):
        return dict(_pair(name, text) for text in given)
    if kind.startswith("tuple"):
        parts = [part for text in given for part in words(text)]
        return parts if "str" in kind else [_scalar(part) for part in parts]
    if "tuple" in kind and "," in given:  # a word, or one number per class
        return [_scalar(part) for part in given.split(",")]
    return given


def _pair(name: str, text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"{_NAMES[name][0]} {text!r} must be NAME=VALUE, such as dropout=0.1.")
    return key, _scalar(value)


def _scalar(text: str) -> Any:
    """A number, a truth value, a list or a text, as YAML reads it."""
    return exponent(parse_yaml(text, repr(text)))


def _helps(section: type[Any]) -> dict[str, str]:
    """Field -> its text under "Attributes:" in the docstring."""
    told = inspect.getdoc(section) or ""
    block = told.partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (?=\w+: )", block, flags=re.MULTILINE)[1:]
    pairs = (entry.split(": ", 1) for entry in entries)
    return {name: " ".join(text.split()) for name, text in pairs}


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default in (None, (), "", False, dataclasses.MISSING):
        return ""
    shown = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
    return f" [default: {shown}]"
