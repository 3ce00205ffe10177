"""Command-line options made from dataclasses: a field is an option, its docstring is the help."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import re
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from ..runs import DataConfig, ModelConfig, exponent
from ..settings import PANELS
from ..storage import parse_yaml
from ..training import Settings

_PLAIN = re.compile(r"[\w./%:,+=@-]+")  # a value that a shell takes without quotes
SECTIONS = {"data": DataConfig, "model": ModelConfig, "training": Settings}


@cache
def parameters(section: type[Any]) -> list[inspect.Parameter]:
    """Returns a parameter for each option of a dataclass, for a Typer command; None means not given.

    Example:
        >>> from chronode.training import Settings
        >>> [p.name for p in parameters(Settings)][:3]
        ['epochs', 'steps', 'batch_size']
    """
    helps, hints = _helps(section), get_type_hints(section)
    found = []
    for field in dataclasses.fields(section):
        if "panel" not in field.metadata:
            continue
        kind = _kind(hints[field.name])
        flags = field.metadata["flags"] or _usual_flags(field.name, kind)
        text = as_options(helps[field.name]) if "_" in helps[field.name] else helps[field.name]
        about = f"{text} [{_default(field)}example: {field.metadata['example']}]"
        option = typer.Option(
            *flags,
            help=about,
            show_default=False,
            metavar=_metavar(hints[field.name]),
            rich_help_panel=field.metadata["panel"],
        )
        annotation = Annotated[kind | None, option]
        found.append(inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return found


class PanelCommand(TyperCommand):
    """Command whose --help groups its options in panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes one section per panel; options without a panel go to the last one."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{panel: [] for panel in PANELS}}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                own = "Arguments" if parameter.param_type_name == "argument" else PANELS[-1]
                panels[getattr(parameter, "rich_help_panel", None) or own].append(record)
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


def with_settings(command: Callable[..., None], without: tuple[str, ...] = ()) -> Callable[..., None]:
    """Adds a flag for every setting of data, model and training to a command with `**given`."""
    own = inspect.signature(command, eval_str=True)
    added = [parameter for section in SECTIONS.values() for parameter in parameters(section)]
    kept = [parameter for parameter in own.parameters.values() if parameter.name != "given"]
    wanted = [parameter for parameter in added if parameter.name not in without]
    command.__signature__ = own.replace(parameters=[*kept, *wanted])  # pyrefly: ignore
    return command


def words(text: str) -> list[str]:
    """Splits text at commas; quotes protect a comma.

    Example:
        >>> words('mmrnn, "a, b",')
        ['mmrnn', 'a, b']
    """
    found = next(csv.reader([text], skipinitialspace=True), [])
    return [word.strip() for word in found if word.strip()]


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


def as_options(message: str) -> str:
    """Replaces Python arguments in an error message by command-line options.

    Example:
        >>> as_options("try a learning_rate below 0.1, or categorical='codes', per_step=False")
        'try a --learning-rate below 0.1, or --categorical codes, --no-per-step'
        >>> as_options("data.split[0] must be a number"), as_options("window=... needs stride=...")
        ('--split must be a number', '--window needs --stride')
        >>> as_options("hidden=32,64 is a range"), as_options("'drop_epochs' in a file"), as_options("ignore='a b'")
        ('hidden=32,64 is a range', "'drop_epochs' in a file", '--ignore "a b"')
    """
    flags = _flags_by_field()
    assigned = re.compile(rf"\b({'|'.join(flags)})=('[^']*'|\"[^\"]*\"|\.\.\.|[\w.+-]*\w)(?![\w.+-]*[:,][\w.])")
    # A bare word is surely a setting only if it has an underscore or begins the message.
    bare = re.compile(
        rf"^(?:{'|'.join(SECTIONS)})[.:] ?({'|'.join(flags)})(?:\[\d+\])?(?= must | needs )|"
        rf"^({'|'.join(flags)})(?= must be)|(?<![\w./'-])({'|'.join(n for n in flags if '_' in n)})(?![\w/=]|\.\w)"
    )
    message = re.sub(r"(\w+)=['\"](\w+)['\"] in the settings of the model", r"--set \1=\2", message)
    message = re.sub(r"^\w+Cell has no setting '(\w+)'", r"--set \1: \g<0>", message)
    message = assigned.sub(lambda found: _as_option(flags[found[1]], found[2].strip("'\"")), message)
    message = bare.sub(lambda found: flags[found[found.lastindex or 0]].partition("/")[0], message)
    return re.sub(rf"^(?:{'|'.join(SECTIONS)}): (?=--)", "", message)


def by_field(text: str) -> str:
    """`NAME=...` with the name of the setting where the name of an option was given.

    Example:
        >>> by_field("lr=1e-4:1e-2:log"), by_field("batch-size=8,16"), by_field("K=1,2")
        ('learning_rate=1e-4:1e-2:log', 'batch_size=8,16', 'K=1,2')
    """
    name, equals, rest = text.partition("=")
    for section in SECTIONS.values():
        for field in dataclasses.fields(section):
            own = (*field.metadata.get("flags", ()), f"--{field.name.replace('_', '-')}")
            if f"--{name.strip().removeprefix('--')}" in own:
                name = field.name
    return f"{name}{equals}{rest}"


@cache
def _flags_by_field() -> dict[str, str]:
    """Field of the settings -> its flag, such as "--lr" or "--per-step/--no-per-step"."""
    named = {
        "anyway": "--anyway/",
        "at": "--at",
        "horizon": "--forecast",
        "origins": "--origins",
        "season": "--season",
        "unit": "--time-unit",
    }
    for section in SECTIONS.values():
        hints = get_type_hints(section)
        for field in dataclasses.fields(section):
            if "panel" in field.metadata:
                named[field.name] = (field.metadata["flags"] or _usual_flags(field.name, _kind(hints[field.name])))[0]
    return named


def _as_option(flag: str, value: str) -> str:
    yes, switch, no = flag.partition("/")
    if not switch:
        quoted = value if _PLAIN.fullmatch(value) else f'"{value}"'
        return flag if value == "..." else f"{flag} {quoted}"
    return yes if value == "True" else no


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


def _usual_flags(name: str, kind: Any) -> tuple[str, ...]:
    dashed = name.replace("_", "-")
    return (f"--{dashed}/--no-{dashed}",) if kind is bool else (f"--{dashed}",)


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
        flag, example = field.metadata["flags"][0], field.metadata["example"]
        raise ValueError(f"{flag} {text!r} must be NAME=VALUE, such as {example}.")
    return key, _scalar(value)


def _scalar(text: str) -> Any:
    """Parses a number, a boolean, a list or a text as YAML."""
    return exponent(parse_yaml(text, repr(text)))


def _helps(section: type[Any]) -> dict[str, str]:
    """Returns field -> text under "Attributes:" in the docstring."""
    block = (inspect.getdoc(section) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (?=\w+: )", block, flags=re.MULTILINE)[1:]
    pairs = (entry.split(": ", 1) for entry in entries)
    return {name: " ".join(text.split()) for name, text in pairs}


def _default(field: dataclasses.Field[Any]) -> str:
    """Formats the default for --help; defaults that are None or empty are described in the text."""
    default = field.default
    if default is None or default is dataclasses.MISSING or default in ((), ""):
        return ""
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    return f"default: {'no' if default is False else 'yes' if default is True else shown}; "
