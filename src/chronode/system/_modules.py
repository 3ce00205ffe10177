"""Modules that are imported when they are needed: those of packages, plugins, and the pictures of notebooks."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

_IMPORT = re.compile(r"^    from (\.[\w.]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)

GROUP = "chronode.plugins"
"""Entry points of this group are loaded when a model is first looked up."""

_BUILT_IN = {"tasks": "chronode.lab.tasks", "commands": "chronode.lab.cli", "benchmarks": "chronode_bench"}
_CHECKOUT = Path(__file__).parents[3]

_loaded: dict[str, str] = {}
_installed: list[str] = []


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Makes `__getattr__`, `__dir__` and `__all__` of a package from the imports below its `if TYPE_CHECKING:`.

    A name is thus declared once, for type checkers and for Python: the module it comes from is imported when the name
    is first used.

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


def drawn(picture: str, *arguments: Any) -> str:
    """Returns the HTML that a function of `chronode.report` draws; imported only when a notebook shows it."""
    return getattr(importlib.import_module("chronode.report"), picture)(*arguments)


# ---- plugins ---------------------------------------------------------------------------------------------


def load_plugin(name: str) -> None:
    """Runs a file, or imports a module, that registers cells; once per process.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "my_plugin.py"
        >>> _ = file.write_text("ANSWER = 42")
        >>> load_plugin(str(file))
        >>> str(file) in plugins()
        True
    """
    path = Path(name)
    if path.suffix != ".py":
        _import(name)
        return
    if not path.is_file():
        raise ValueError(f"there is no file {path}.")
    path, module = path.resolve(), f"chronode_plugin_{path.stem}"
    if _loaded.get(module) == str(path):
        return
    if module in _loaded:
        raise ValueError(f"{path} and {_loaded[module]} have the same name; rename one of them.")
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None and spec.loader is not None
    sys.modules[module] = plugin = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(plugin)
    except Exception as error:
        del sys.modules[module]
        raise ValueError(f"{path} failed with {type(error).__name__}: {error}") from error
    _loaded[module] = str(path)


def plugins() -> tuple[str, ...]:
    """The plugins that were loaded by `load_plugin`, to be loaded by another process too."""
    return tuple(_loaded.values())


def load_installed() -> None:
    """Loads the entry points of the group `chronode.plugins`; one that fails is reported by a warning."""
    from importlib.metadata import entry_points  # 10 ms

    if _installed:
        return
    _installed.append(GROUP)  # first: a plugin looks up models itself
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            warnings.warn(f"the plugin {entry.name} ({entry.value}) failed: {error!r}", RuntimeWarning, stacklevel=2)


def built_in(kind: str) -> ModuleType | None:
    """Imports the module that adds "tasks", "commands" or "benchmarks"; None if it is not there.

    The benchmarks are beside the source tree of a checkout, and not in an installed package.
    """
    folder = str(_CHECKOUT / "benchmarks")
    if kind == "benchmarks" and folder not in sys.path and Path(folder, _BUILT_IN[kind]).is_dir():
        sys.path.append(folder)
    try:
        return importlib.import_module(_BUILT_IN[kind])
    except ModuleNotFoundError as error:
        if not _BUILT_IN[kind].startswith(error.name or "?"):
            raise
        return None


def _import(name: str) -> None:
    if name in _loaded:
        return
    try:
        importlib.import_module(name)
    except Exception as error:
        raise ValueError(f"the module {name} failed with {type(error).__name__}: {error}") from error
    _loaded[name] = name
