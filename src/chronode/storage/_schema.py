"""Conversion of plain data to typed values; errors name the field."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from ..settings import near

T = TypeVar("T")

_LARGEST_INTEGER = 2**64  # random seeds go up to here
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", types.NoneType: "null"}
_WORDS |= {list: "a list", tuple: "a list", Sequence: "a list", dict: "a mapping"}
_LISTS = (list, tuple, Sequence)


def parse(kind: Any, value: Any, field: str = "") -> Any:
    """Converts `value`, as read from JSON or YAML, to the type `kind`: lists become tuples, mappings dataclasses.

    Args:
        kind: Type hint: bool, int, float, str, None, Any, unions, list, tuple and dict of them, a dataclass
            or a TypedDict.
        value: Plain data.
        field: Name of the value in error messages, such as "scaler.mean"; "" for the whole.

    Raises:
        ValueError: The value has another type, a field is missing or unknown, or the dataclass rejects it.

    Example:
        >>> parse(dict[str, tuple[float, ...]], {"mean": [1, 2.5]})
        {'mean': (1.0, 2.5)}
        >>> parse(dict[str, tuple[float, ...]], {"mean": [1, "b"]}, "scaler")
        Traceback (most recent call last):
        ValueError: scaler.mean[1] must be a number, got 'b'.
    """
    if kind is Any:
        return value
    if get_origin(kind) in (Union, types.UnionType):
        return _one_of_union(kind, value, field)
    if dataclasses.is_dataclass(kind) or is_typeddict(kind):
        return _build(kind, value, field)
    found, converted = _converted(kind, value, field)
    if not found:
        raise ValueError(f"{field or 'it'} must be {_words(kind)}, got {_shown(value)}.")
    return converted


def _converted(kind: Any, value: Any, field: str) -> tuple[bool, Any]:
    """Returns (whether the value has the type, the converted value); raises errors of nested values."""
    outer = get_origin(kind) or kind
    if outer in _LISTS:
        if not isinstance(value, (list, tuple)):
            return False, None
        item = (get_args(kind) or (Any,))[0]
        parts = [parse(item, part, f"{field}[{i}]") for i, part in enumerate(value)]
        return True, tuple(parts) if outer is tuple else parts
    if outer in (dict, Mapping):
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            return False, None
        item = (get_args(kind) or (str, Any))[1]
        for name in value:
            _check_text(name, field)
        return True, {name: parse(item, part, _within(field, name)) for name, part in value.items()}
    if outer is bool or isinstance(value, bool):
        return outer is bool and isinstance(value, bool), value
    if outer in (int, float):
        if not isinstance(value, Integral if outer is int else Real):
            return False, None
        if isinstance(value, Integral) and abs(int(value)) > _LARGEST_INTEGER:
            raise ValueError(f"{field or 'it'} is a whole number with more than 64 bits.")
        return True, int(value) if isinstance(value, Integral) and outer is int else float(value)
    if outer is str and isinstance(value, str):
        _check_text(value, field)
    return isinstance(value, outer), value


def _check_text(text: str, field: str) -> None:
    """Rejects text that a file name or terminal cannot hold."""
    if "\0" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise ValueError(f"{field or 'a name'} has characters that are not text: {_shown(text)}.")


def _one_of_union(kind: Any, value: Any, field: str) -> Any:
    """Returns the first member of the union that fits; if only one has the right shape, raises its error."""
    members = get_args(kind)
    for member in members:
        if not _is_nested(member):
            found, converted = _converted(member, value, field) if member is not Any else (True, value)
            if found:
                return converted
    nested = [member for member in members if _is_nested(member)]
    shape = Mapping if isinstance(value, Mapping) else (list, tuple)
    fitting = [member for member in nested if isinstance(value, shape) and _shape(member) == shape]
    if not fitting:
        raise ValueError(f"{field or 'it'} must be {_words(kind)}, got {_shown(value)}.")
    return parse(fitting[0], value, field)


def _is_nested(kind: Any) -> bool:
    outer = get_origin(kind) or kind
    return dataclasses.is_dataclass(kind) or is_typeddict(kind) or outer in (*_LISTS, dict, Mapping)


def _shape(kind: Any) -> Any:
    return (list, tuple) if (get_origin(kind) or kind) in _LISTS else Mapping


def _build(cls: type[T], fields: Any, field: str) -> T:
    """Builds a dataclass or TypedDict from a mapping."""
    if not isinstance(fields, Mapping):
        raise ValueError(f"{field or 'it'} must be a mapping, got {_shown(fields)}.")
    hints, required = _fields(cls)
    for name in fields:
        if name not in hints:
            raise ValueError(f"{_within(field, str(name))} is not a known field.{near(str(name), hints)}")
    if missing := [name for name in required if name not in fields]:
        raise ValueError(f"{_within(field, missing[0])} is missing.")
    values = {name: parse(hints[name], value, _within(field, name)) for name, value in fields.items()}
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{field}: {error}" if field else str(error)) from error


@lru_cache
def _fields(cls: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns (the type of every field, the required fields)."""
    hints = get_type_hints(cls)
    if is_typeddict(cls):
        return hints, sorted(cls.__required_keys__)
    own = [field for field in dataclasses.fields(cls) if field.init]
    missing = dataclasses.MISSING
    required = [field.name for field in own if field.default is missing and field.default_factory is missing]
    return {field.name: hints[field.name] for field in own}, required


def _within(field: str, name: str) -> str:
    name = name if name.isprintable() and name and len(name) <= 60 else _shown(name)
    return f"{field}.{name}" if field else name


def _words(kind: Any) -> str:
    """Describes a type in words, such as "a whole number or null"."""
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_words(member) for member in get_args(kind)))
    return _WORDS.get(get_origin(kind) or kind, "a mapping")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
