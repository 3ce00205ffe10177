"""Notices whether a cell's step may have changed since it was traced.

A fingerprint belongs to one cell object. It is a list of places, each with the object that was found there: attributes,
slots, class members, closures, default arguments, globals, items of containers. As long as every place holds the same
object, Python takes the same path through the step. Two cells are never compared by their fingerprints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ._places import PLAIN, Places

Described = tuple[Any, ...]


class Fingerprint:
    """Everything that the step of a cell depends on besides the values of tensors.

    Attributes:
        unknown: State that the step may read and that cannot be inspected, such as that of a random generator. It
            always counts as changed.
    """

    def __init__(self, cell: nn.Module):
        watched = Places(cell)
        self.unknown = watched.unknown
        self._places: list[tuple[Callable[[Any], Any], Any, Any]] = watched.places
        self._tensors = [(read, name, describe(read(name))) for read, name in watched.tensors]
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
                if describe(tensor) != described:
                    return False
                tensors.append(tensor)
        except Exception:  # a place that is gone
            return False
        return _shared(tensors) == self._shared


def describe(tensor: Tensor | None) -> Described | None:
    """Returns everything about a tensor but its values."""
    if tensor is None:
        return None
    return type(tensor), tensor.shape, tensor.dtype, tensor.device.type, tensor.requires_grad


def _shared(tensors: list[Tensor | None]) -> tuple[int, ...]:
    """Returns which of these are the same object: a step that reads a tied weight is traced with one weight."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(tensor), index) for index, tensor in enumerate(tensors))


def _same(found: Any, value: Any) -> bool:
    """Returns whether two plain values are equal, in type and sign too: -0.0 is not 0.0."""
    return found.__class__ is value.__class__ and found.__class__ in PLAIN and repr(found) == repr(value)
