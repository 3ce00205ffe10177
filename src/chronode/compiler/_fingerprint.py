"""Notices whether a cell's step may have changed: the one answer to "is this still the cell that was looked at?".

A fingerprint belongs to one cell object. It is a list of places, each with the object that was found there: attributes,
slots, class members, closures, default arguments, globals, items of containers. As long as every place holds the same
object, Python takes the same path through the step. Two cells are never compared by their fingerprints.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from ._places import MEMORY, PLAIN, Places

_MOST_REMEMBERED = 8  # of a cell: traced in training and in evaluation, in two precisions, and its reasons
Value = TypeVar("Value")
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Attributes of a module that hold its hooks."""
METHODS = frozenset(dir(nn.Module)) - {"forward", "__call__", "_call_impl", "__getattr__"}
"""Attributes of the class of every module that no step replaces."""
VARIABLES = vars(nn.Module()).keys() | METHODS
"""Attributes of every module."""


class Fingerprint:
    """Everything that the step of a cell depends on besides the values of tensors.

    Attributes:
        unknown: State that the step may read and that cannot be inspected, such as that of a random generator. It
            always counts as changed.
    """

    def __init__(self, cell: nn.Module):
        watched = Places(cell)
        self.unknown = watched.unknown
        self._places = watched.places
        self._tensors = [(read, name, _describe(read(name))) for read, name in watched.tensors]
        self._shared = _shared([read(name) for read, name in watched.tensors])

    def holds(self) -> bool:
        """Returns whether nothing has changed."""
        if self.unknown:
            return False
        try:
            for read, name, value in self._places:
                current = read(name)
                if current is not value and not _same(current, value):
                    return False
            tensors = []
            for read, name, described in self._tensors:
                tensor = read(name)
                if _describe(tensor) != described:
                    return False
                tensors.append(tensor)
        except Exception:  # a place that is gone
            return False
        return _shared(tensors) == self._shared


class Members:
    """Attributes of a module, of its submodules and of their callable parts, and the members of their classes.

    A hand-written kernel depends on nothing else besides the values of weights. A third of the time of a fingerprint,
    for single steps.
    """

    def __init__(self, module: nn.Module):
        parts = list(_parts(module))
        modules = [part for part in parts if isinstance(part, nn.Module)]
        classes = dict.fromkeys(cls for part in parts for cls in type(part).__mro__ if cls is not object)
        hooks = [vars(part)[kind] for part in modules for kind in HOOKS]
        self._no_hooks = [mapping for mapping in hooks if not mapping]
        members = (*map(vars, parts), *map(vars, classes), *filter(None, hooks))
        self._members = [(mapping, tuple(mapping.values())) for mapping in members]
        tables = [table for part in modules for table in (part._parameters, part._buffers, part._modules)]
        self._entries = [(table, name, value) for table in tables for name, value in table.items()]

    def holds(self) -> bool:
        """Returns whether nothing has changed."""
        if any(self._no_hooks) or torch_module._has_any_global_hook():
            return False
        for table, name, value in self._entries:
            if table.get(name) is not value:
                return False
        try:
            return all(tuple(mapping.values()) == values for mapping, values in self._members)
        except Exception:  # two values whose comparison is not a boolean, such as tensors, are not the same object
            return False


def _parts(part: Any) -> Iterator[Any]:
    """Yields a module, its submodules, and the objects among their attributes that can be called, such as a solver."""
    yield part
    attributes = vars(part)
    for name in attributes.keys() - VARIABLES:
        value = attributes[name]
        if callable(value) and hasattr(value, "__dict__") and not isinstance(value, type):
            yield from _parts(value)
    for child in attributes.get("_modules", {}).values():
        if child is not None:
            yield from _parts(child)


class _Memory:
    """Memory of one cell object, the last one used first; a copy of the cell starts without any."""

    def __init__(self, cell: nn.Module | None = None):
        self.owner = None if cell is None else weakref.ref(cell)
        self.entries: tuple[tuple[Hashable, Fingerprint, Any], ...] = ()

    def __reduce__(self):
        return _Memory, ()


def remembered(cell: nn.Module, key: Hashable, make: Callable[[], Value]) -> Value:
    """Returns what `make` returned for this key when the cell was exactly as it is now."""
    memory = vars(cell).get(MEMORY)
    if memory is None or memory.owner is None or memory.owner() is not cell:  # also of a shallow copy
        memory = vars(cell)[MEMORY] = _Memory(cell)
    for entry in memory.entries:
        if entry[0] == key and entry[1].holds():
            if entry is not memory.entries[0]:
                memory.entries = (entry, *(other for other in memory.entries if other is not entry))
            return entry[2]
    fingerprint = Fingerprint(cell)  # before `make`: what changes meanwhile counts as changed
    value = make()
    memory.entries = ((key, fingerprint, value), *memory.entries[: _MOST_REMEMBERED - 1])
    return value


def _describe(tensor: Tensor | None) -> tuple[Any, ...] | None:
    """Returns everything about a tensor but its values."""
    if tensor is None:
        return None
    return type(tensor), tensor.shape, tensor.dtype, tensor.device.type, tensor.requires_grad


def _shared(tensors: list[Tensor | None]) -> tuple[int, ...]:
    """Returns which of these are the same object: a step that reads a tied weight is traced with one weight."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(tensor), index) for index, tensor in enumerate(tensors))


def _same(current: Any, value: Any) -> bool:
    """Returns whether two values are one object, or plain and equal, in type and sign too: -0.0 is not 0.0."""
    kind = value.__class__
    return current is value or (current.__class__ is kind and kind in PLAIN and repr(current) == repr(value))
