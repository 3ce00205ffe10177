"""What a cell's step depends on besides the values of tensors: if any of it changes, the step is traced again."""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (int, float, str, bool, bytes, complex, type(None), torch.dtype)
_DEPTH = 6


def fingerprint(cell: nn.Module) -> tuple[Any, ...]:
    """Returns classes and their methods, settings, hooks, parametrizations, and shapes of parameters and buffers.

    Two equal fingerprints mean that the cell's Python code takes the same path. Functions are compared by
    identity, so replacing a method after tracing changes the fingerprint.
    """
    return tuple(_of_module(module) for module in cell.modules())


def _of_module(module: nn.Module) -> tuple[Any, ...]:
    own: list[Any] = []
    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers"):
            own.append(tuple((key, _of_tensor(tensor)) for key, tensor in value.items()))
        elif name == "_modules":
            own.append(tuple(value))
        elif value.__class__ in _PLAIN:
            own.append((name, value))
        elif isinstance(value, Tensor) or value:
            own.append((name, _described(value, _DEPTH)))
    return (type(module), _methods(type(module)), *own)


def _of_tensor(tensor: Tensor | None) -> Any:
    return None if tensor is None else (tensor.shape, tensor.dtype, tensor.device.type)


def _methods(kind: type) -> tuple[CodeType, ...]:
    """Returns the code of all methods that are not torch's or Python's own."""
    found = []
    for base in kind.__mro__:
        if base is nn.Module or base is object:
            break
        found.extend(value.__code__ for value in vars(base).values() if value.__class__ is FunctionType)
    return tuple(found)


def _described(value: Any, depth: int) -> Any:
    if value.__class__ in _PLAIN:
        return value
    if depth == 0:
        return id(value)
    if isinstance(value, Tensor):
        return _of_tensor(value)
    if isinstance(value, Mapping):
        return tuple((key, _described(one, depth - 1)) for key, one in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return (type(value), *(_described(one, depth - 1) for one in value))
    if isinstance(value, FunctionType):
        return value.__code__
    if isinstance(value, (type, nn.Module)):
        return value
    attributes = getattr(value, "__dict__", None)
    return (type(value), _described(attributes, depth - 1)) if attributes is not None else (type(value), id(value))
