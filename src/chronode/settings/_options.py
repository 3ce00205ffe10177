"""Settings declared once, as fields of dataclasses: options, YAML keys, arguments, help and checks come from them."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type[Any])

PANELS = ("Data", "Time", "Target", "Model", "Training", "Search", "Workers", "Output")
"""The groups of options in --help, in this order."""

_FLAGS: dict[str, tuple[str, ...]] = {
    "anyway": ("--anyway/",),
    "at": ("--at",),
    "horizon": ("--forecast",),
    "origins": ("--origins",),
    "season": ("--season",),
    "unit": ("--time-unit",),
}


def option(default: Any, panel: str, example: Any, *flags: str) -> Any:
    """Returns a dataclass field with a default and the details that `--help` shows.

    Args:
        default: Default value.
        panel: One of PANELS.
        example: A value as a user would type it.
        flags: Flags that replace the one made from the name of the field.

    Example:
        >>> @dataclasses.dataclass
        ... class Settings:
        ...     epochs: int = option(20, "Training", 50)
        >>> Settings().epochs, dataclasses.fields(Settings)[0].metadata["panel"]
        (20, 'Training')
    """
    return dataclasses.field(default=default, metadata=about(panel, example, *flags))


def about(panel: str, example: Any, *flags: str) -> dict[str, Any]:
    """Returns the metadata of a field that is an option; the arguments are those of `option`."""
    assert panel in PANELS, panel
    return {"panel": panel, "example": str(example), "flags": flags}


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
