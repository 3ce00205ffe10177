"""Packages whose names are imported at first use, so that the command line responds before torch is imported."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable
from typing import Any

_IMPORT = re.compile(r"^    from (\.[\w.]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Makes `__getattr__`, `__dir__` and `__all__` of a package from the imports below its `if TYPE_CHECKING:`.

    A name is thus declared once, for type checkers and for Python: the module it comes from is imported when the name
    is first used.

    Args:
        package: Name of the package.

    Example:
        >>> get, names, exported = lazy("chronode.data")
        >>> "Sequences" in exported, get("Sequences").__module__
        (True, 'chronode.data._sequences')
    """
    homes = _homes(sys.modules[package])

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == ".":  # the name of a module
            return importlib.import_module(f".{name}", package)
        return getattr(importlib.import_module(home, package), name)

    return get, lambda: sorted(homes), sorted(homes)


def _homes(package: Any) -> dict[str, str]:
    """Returns the relative name of the module of every exported name."""
    source = package.__spec__.loader.get_source(package.__name__)
    if source is None:  # only bytecode was installed
        return _searched(package)
    block = source.partition("if TYPE_CHECKING:\n")[2]
    return {
        name.partition(" as ")[2] or name: home
        for home, several, one in _IMPORT.findall(block)
        for name in (part.strip() for part in (several or one).partition("#")[0].split(","))
        if name
    }


def _searched(package: Any) -> dict[str, str]:
    """Returns the public names of all modules of a package, which are imported for this."""
    homes = {}
    for _, name, _ in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f".{name}", package.__name__)
        homes |= {public: f".{name}" for public in vars(module) if not public.startswith("_")}
    return homes
