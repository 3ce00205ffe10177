"""Finds the places from which the step of a cell reads anything but the values of tensors.

The search follows the code: from the methods of the cell to the attributes, closures, defaults and globals that they
name, and on into what is found there. Functions of Python's library, torch, NumPy and chronode's kernels are taken as
they are; closures and arguments bound to them are followed. Attributes that no code names are compared, not searched.
"""

from __future__ import annotations

import dis
import functools
import logging
import operator
import re
import sys
import threading
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch
from torch import Tensor, nn

_Pair = namedtuple("_Pair", ["first"])
PLAIN = (int, float, str, bool, bytes, complex, type(None))
"""Classes of values that are equal if they look the same."""
_FIXED = (
    *(range, slice, type(Ellipsis), type(NotImplemented), re.Pattern, logging.Logger),
    *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, torch._ops._OpNamespace),
    *(torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch.jit.ScriptFunction),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller, type(threading.Lock()), type(threading.RLock())),
    *(GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType, type(_Pair.first)),
)
"""Classes of values that cannot change, or in which no step keeps a number."""
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_PARTS: dict[type, tuple[str, ...]] = {
    functools.partial: ("func", "args", "keywords", "__dict__"),
    MethodType: ("__func__", "__self__"),
    BuiltinMethodType: ("__self__",),
    MethodWrapperType: ("__self__",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
    functools._lru_cache_wrapper: ("__wrapped__",),
}
"""Attributes that hold the parts of objects of these classes."""
_STEP = ("forward", "prepare", "project", "project_sequence", "initial_state")
_LOOKS_ANYWHERE = frozenset({"getattr", "vars", "eval", "exec", "globals", "locals", "__dict__", "__import__"})
_NOT_IN_A_STEP = frozenset(
    {
        *("__init__", "__new__", "__init_subclass__", "__class_getitem__", "__del__", "__repr__", "__str__"),
        *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__"),
    }
)
_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy"}
_KERNELS = f"{__name__.partition('.')[0]}.kernels."  # loaded libraries, which nobody can look into
_OF_EVERY_MODULE = vars(nn.Module()).keys() - {"training", "_parameters", "_buffers", "_modules", "_forward_pre_hooks"}
CHOICE, MEMORY = "runs_compiled", "_remembered"
"""Attributes of a cell that are ignored: whether a kernel is wanted, and what was found out about the cell."""
_MOST_OBJECTS = 20_000
_MOST_BYTES = 65_536  # of an array that is compared at each call

Read = Callable[[Any], Any]


class Places:
    """The places that a cell's step reads.

    Attributes:
        places: Functions, what to give to each, and the object that it returned.
        tensors: Functions that return a tensor, and what to give to each.
        unknown: Names of the classes of objects that nobody can look into.
    """

    def __init__(self, cell: nn.Module):
        self.places: list[tuple[Read, Any, Any]] = []
        self.tensors: list[tuple[Read, Any]] = []
        self.unknown: list[str] = []
        self._searched: dict[int, Any] = {}
        self._watched: set[int] = set()  # classes of objects, of which all members are compared
        self._todo: list[Any] = [cell]
        self._named = set(_STEP)
        self._waiting: dict[str, list[Any]] = {}
        self._looks_anywhere = False
        while self._todo and not self.unknown:
            value = self._todo.pop()
            if type(value) not in PLAIN and not isinstance(value, _FIXED) and id(value) not in self._searched:
                self._searched[id(value)] = value
                self._search(value)
            if len(self._searched) > _MOST_OBJECTS:
                self.unknown.append(f"more than {_MOST_OBJECTS:,} objects")

    def _search(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, Tensor):
            self.tensors.append((_itself, value))
        elif isinstance(value, CodeType):
            self._add_names(_reads(value)[1])
        elif isinstance(value, FunctionType):
            self._search_function(value)
        elif isinstance(value, ModuleType):
            self._search_module(value)
        elif isinstance(value, type):
            self._search_class(value, fixed=_is_own(value.__module__))
        elif kind in _PARTS:
            for name in _PARTS[kind]:
                self._watch(operator.attrgetter(name), value, fixed=True)
        else:
            self._search_object(value, kind)

    def _watch(self, read: Read, argument: Any, fixed: bool = False) -> None:
        """Adds a place, unless it is always the same, and searches what is there."""
        try:
            value = read(argument)
        except (AttributeError, ValueError):  # a slot or a closure that is still empty
            return
        if not fixed:
            self.places.append((read, argument, value))
        self._todo.append(value)

    # ---- functions and what they name --------------------------------------------------------------------

    def _search_function(self, function: FunctionType) -> None:
        scope = function.__globals__
        fixed = _is_own(scope.get("__name__"))
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._watch(operator.attrgetter(name), function, fixed)
        for cell in function.__closure__ or ():
            self._watch(_contents, cell)
        if vars(function):
            self._todo.append(vars(function))
        if not _is_library(scope.get("__name__")):
            for name in _reads(function.__code__)[0]:
                self._watch(scope.get, name, fixed)

    def _add_names(self, names: frozenset[str]) -> None:
        new = names - self._named
        self._named |= new
        if new & _LOOKS_ANYWHERE and not self._looks_anywhere:
            self._looks_anywhere = True
            new = frozenset(self._waiting)
        for name in new:
            self._todo.extend(self._waiting.pop(name, ()))

    def _search_if_named(self, name: str, value: Any) -> None:
        if self._looks_anywhere or name in self._named:
            self._todo.append(value)
        else:
            self._waiting.setdefault(name, []).append(value)

    # ---- modules, classes and objects ---------------------------------------------------------------------

    def _search_module(self, module: ModuleType) -> None:
        if not _is_library(module.__name__):
            for name in vars(module):
                self._search_if_named(name, _Item(vars(module), name))

    def _search_class(self, kind: type, fixed: bool = False) -> None:
        for base in kind.__mro__:
            if base in (object, nn.Module) or (fixed and base is not kind and id(base) in self._searched):
                continue
            self._searched[id(base)] = base
            members, library = vars(base), _is_library(base.__module__)
            if library and not issubclass(base, nn.Module):
                continue
            if not fixed:
                self.places.append((len, members, len(members)))
                self.places += [(members.get, name, value) for name, value in members.items()]
            for name, value in () if library else members.items():
                if not (name.startswith("__") and name.endswith("__")):
                    self._search_if_named(name, value)
                elif (
                    isinstance(value, (FunctionType, staticmethod, classmethod, property))
                    and name not in _NOT_IN_A_STEP
                ):
                    self._todo.append(value)

    def _search_object(self, value: Any, kind: type) -> None:
        if isinstance(value, _Item):
            self._watch(value.owner.get, value.name)
            return
        if isinstance(value, CellType):
            self._watch(_contents, value)
            return
        self.places.append((type, value, kind))
        if id(kind) not in self._watched:
            self._watched.add(id(kind))
            self._search_class(kind)
        if isinstance(value, _CONTAINERS):
            self._search_container(value)
        elif _hides(kind) and not isinstance(value, PLAIN):
            self._search_hidden(value, kind)
            return
        for name in _slots(kind):
            self._watch(operator.attrgetter(name), value)
        members = getattr(value, "__dict__", None)
        if isinstance(members, dict):
            self._search_members(value, members, _is_library(kind.__module__))

    def _search_members(self, value: Any, members: dict[str, Any], search_all: bool) -> None:
        self.places.append((_count, members, _count(members)))
        for name, member in members.items():
            if name in (CHOICE, MEMORY) or (isinstance(value, nn.Module) and name in _OF_EVERY_MODULE):
                continue
            if isinstance(value, nn.Module) and name in ("_parameters", "_buffers"):
                self.places.append((_keys, member, _keys(member)))
                self.tensors += [(member.get, key) for key in member]
            elif isinstance(member, Tensor):
                self.tensors.append((members.get, name))
            else:
                self.places.append((members.get, name, member))
                if search_all or name in ("_modules", "_forward_pre_hooks"):
                    self._todo.append(member)
                else:
                    self._search_if_named(name, member)

    def _search_container(self, value: Any) -> None:
        if isinstance(value, (tuple, frozenset)):  # they cannot change, only what is in them
            self._todo.extend(value)
            return
        self.places.append((len, value, len(value)))
        for index, item in enumerate(value):
            if isinstance(value, dict):
                self._todo.append(item)
                self._watch(value.get, item)
            elif isinstance(value, set):
                self.places.append((value.__contains__, item, True))
                self._todo.append(item)
            else:
                self._watch(value.__getitem__, index)

    def _search_hidden(self, value: Any, kind: type) -> None:
        """Compares the bytes of arrays; other objects with contents in C are unknown."""
        if isinstance(value, (bytearray, memoryview)) or kind.__module__.partition(".")[0] == "numpy":
            try:
                content = _content(value)
            except (TypeError, ValueError):
                content = None
            if content is not None and len(content) <= _MOST_BYTES:
                self.places.append((_content, value, content))
                return
        self.unknown.append(kind.__name__)


class _Item:
    """A name in a module that code may read."""

    def __init__(self, owner: dict[str, Any], name: str):
        self.owner, self.name = owner, name


@functools.lru_cache(maxsize=10_000)
def _reads(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the globals that code reads, and every name in it that may be an attribute, functions in it included."""
    scope = {one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_scope, inner_names = _reads(constant)
            scope |= inner_scope
            names |= inner_names
        elif isinstance(constant, str):
            names.add(constant)
    return frozenset(scope), frozenset(names)


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES or f"{module}.".startswith(_KERNELS)


def _is_own(module: str | None) -> bool:
    return (module or "").partition(".")[0] == __name__.partition(".")[0]


def _hides(kind: type) -> bool:
    """Returns whether objects of a class have contents besides their `__dict__` and slots, as copyreg decides it."""
    pointers = len(list(_slots(kind))) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return bool(kind.__itemsize__) or kind.__basicsize__ > object.__basicsize__ + 8 * pointers


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                hidden = name.startswith("__") and not name.endswith("__")
                yield f"_{base.__name__.lstrip('_')}{name}" if hidden else name


def _itself(value: Any) -> Any:
    return value


def _contents(cell: CellType) -> Any:
    return cell.cell_contents


def _count(members: dict[str, Any]) -> int:
    return len(members) - (CHOICE in members) - (MEMORY in members)


def _keys(members: dict[str, Any]) -> str:
    return "\n".join(members)


def _content(value: Any) -> bytes:
    """Returns the layout and bytes of an array."""
    view = memoryview(value)
    return f"{view.format} {view.shape} ".encode() + view.tobytes()
