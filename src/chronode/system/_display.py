"""Pictures in notebooks."""

from __future__ import annotations

import importlib
from typing import Any


def drawn(picture: str, *arguments: Any) -> str:
    """Returns the HTML that a function of `chronode.report` draws; it is imported only when a notebook shows something.

    Args:
        picture: Name of the function.
        arguments: Its arguments.
    """
    return getattr(importlib.import_module("chronode.report"), picture)(*arguments)
