"""Checks of untrusted files: limits on their size, and conversion of plain data to typed values."""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from ..settings import near

T = TypeVar("T")

# ---- limits ----------------------------------------------------------------------------------------------

MIB = 2**20
GIB = 2**30

_MOST_TIMES_THE_FILE = 100  # tables compress 3 to 30 times, gzip at most about 1,000 times


@dataclass(frozen=True)
class Limit:
    """Whole number that an environment variable may override.

    Attributes:
        variable: Name of the environment variable.
        default: Limit if the variable is not set.

    Example:
        >>> Limit("CHRONODE_MAX_EXAMPLE", 1000).value
        1000
    """

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The limit in force."""
        given = self.given
        return self.default if given is None else given

    @property
    def given(self) -> int | None:
        """The value of the environment variable; None if it is not set."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return None
        if not text.isdecimal() or len(text) > 18:
            raise ValueError(f"{self.variable}={text!r} must be a whole number.")
        return int(text)

    @property
    def cure(self) -> str:
        """Advice on raising the limit, for the end of an error message."""
        return f"Set {self.variable} to raise this limit."


JSON_BYTES = Limit("CHRONODE_MAX_JSON", 16 * MIB)
"""Size of a JSON file, or of one line of a JSON Lines file."""

YAML_BYTES = Limit("CHRONODE_MAX_YAML", MIB // 4)
"""Size of a YAML file."""

UNPACKED_BYTES = Limit("CHRONODE_MAX_UNPACKED", 256 * MIB)
"""Unpacked size of a data file in bytes; by default at least 100 times the size of the file."""

ARCHIVE_BYTES = Limit("CHRONODE_MAX_ARCHIVE", 16 * GIB)
"""Unpacked size of a downloaded archive in bytes."""

DOWNLOAD_BYTES = Limit("CHRONODE_MAX_DOWNLOAD", 16 * GIB)
"""Size of a download."""

DOWNLOAD_SPEED = Limit("CHRONODE_MIN_DOWNLOAD_SPEED", 1000)
"""Bytes per second, averaged over a minute, below which a download is aborted; 0 waits forever."""

COLUMNS = Limit("CHRONODE_MAX_COLUMNS", 20_000)
"""Columns of a table; each costs time and memory, however few rows there are."""

LAYERS = Limit("CHRONODE_MAX_LAYERS", 1000)
"""Layers of a model."""


def check_columns(path: Path, count: int) -> None:
    """Rejects a table with too many columns."""
    if count > COLUMNS.value:
        raise ValueError(f"{path}: more than {COLUMNS.value:,} columns. {COLUMNS.cure}")


def check_grown(size: int, source: int, what: str) -> None:
    """Rejects `what` if its `size` bytes in memory are far more than the `source` bytes it was read from."""
    limit = _limit_for(source)
    if size > limit:
        raise ValueError(f"{what} would take more than {limit:,} bytes. {UNPACKED_BYTES.cure}")


def unpacked_limit(path: Path) -> int:
    """Returns the number of bytes that the data file `path` may unpack to.

    Example:
        >>> unpacked_limit(Path(__file__))
        268435456
    """
    return _limit_for(path.stat().st_size)


def _limit_for(source: int) -> int:
    given = UNPACKED_BYTES.given
    return max(UNPACKED_BYTES.default, _MOST_TIMES_THE_FILE * source) if given is None else given


def check_unpacked(path: Path, size: int) -> None:
    """Rejects a data file whose `size` bytes of content are far more than the size of the file."""
    check_grown(size, path.stat().st_size, f"{path} ({path.stat().st_size:,} bytes) unpacked")


# ---- types -----------------------------------------------------------------------------------------------

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
    fits, converted = _converted(kind, value, field)
    if not fits:
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
            fits, converted = _converted(member, value, field) if member is not Any else (True, value)
            if fits:
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
    declared = [field for field in dataclasses.fields(cls) if field.init]
    missing = dataclasses.MISSING
    required = [field.name for field in declared if field.default is missing and field.default_factory is missing]
    return {field.name: hints[field.name] for field in declared}, required


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
