"""Packages whose names are imported at first use, so that the command line responds before torch is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Makes `__getattr__` and `__dir__` of a package.

    Args:
        package: Name of the package.
        homes: Module of the package -> the names taken from it, separated by spaces; the module's own name, or
            no name, stands for the module itself.

    Example:
        >>> get, names = lazy("chronode", {"data": "", "kernels": "backend"})
        >>> names(), get("data").__name__
        (['backend', 'data'], 'chronode.data')
    """
    module_of = {name: module for module, names in homes.items() for name in names.split() or [module]}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{module_of[name]}", package)
        return module if name == module_of[name] else getattr(module, name)

    return get, lambda: sorted(module_of)
