"""Dataclass fields that are also command-line options: what `--help` shows beside the docstring."""

from __future__ import annotations

import dataclasses
from typing import Any

PANELS = ("Data", "Time", "Target", "Model", "Training", "Search", "Workers", "Output")
"""The groups of options in --help, in this order."""


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
