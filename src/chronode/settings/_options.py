"""Settings declared once, as fields of dataclasses: options, YAML keys, arguments, help and checks come from them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence
from typing import Any, TypeVar

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
