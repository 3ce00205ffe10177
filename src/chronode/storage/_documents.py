"""JSON and YAML files. They are read with limits: a damaged file costs little and raises a ValueError that names it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from ..settings import error_at
from ._files import replacing
from ._schema import JSON_BYTES, YAML_BYTES, Limit, parse

DEEPEST = 64
"""Limit on the nesting of lists and mappings, because code that walks through them may be recursive."""

_MOST_NODES = 1_000_000  # in YAML, counting what every alias stands for


def read_json(path: Path, kind: Any = Any) -> Any:
    """Reads a JSON file and checks its content against the type `kind`; see `chronode.storage._schema.parse`.

    Raises:
        ValueError: The file does not exist, is not valid JSON, or has a field of the wrong type; the message begins
            with the path.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.json"
        >>> _ = path.write_text('{"epochs": 3}')
        >>> read_json(path, dict[str, int])
        {'epochs': 3}
    """
    return parse_json(_content(path, JSON_BYTES), kind, str(path))


def read_json_lines(path: Path, kind: Any = Any) -> Iterator[tuple[str, Any]]:
    """Yields (file and line, value) for every line of a JSON Lines file; an incomplete last line is skipped."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(JSON_BYTES.value + 1):
            number += 1
            where = f"{path}, line {number}"
            _check_size(len(line), JSON_BYTES, where)
            if line.endswith(b"\n"):
                yield where, parse_json(line, kind, where)


def parse_json(content: bytes | str, kind: Any, source: str) -> Any:
    """Parses a JSON text and checks it against the type `kind`; errors begin with `source`."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source}: this is not valid JSON ({_reason(error)}).") from error
    try:
        _check_tree(value)
        return parse(kind, value)
    except ValueError as error:
        raise error_at(source, error) from error


def json_text(value: Any, *, indent: int | None = 1) -> str:
    """Returns a value as JSON with a line break at the end; numbers that are not finite become null.

    Example:
        >>> print(json_text({"loss": float("nan"), "epochs": (1, 2)}, indent=None), end="")
        {"loss": null, "epochs": [1, 2]}
    """
    return json.dumps(_plain(value), indent=indent, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file, which is replaced atomically; numbers that are not finite become null."""
    with replacing(path) as draft:
        draft.write_text(json_text(value), encoding="utf-8")


@dataclass(frozen=True)
class Result:
    """Frozen dataclass of numbers and arrays that can be written as JSON.

    Example:
        >>> import numpy as np
        >>> @dataclass(frozen=True)
        ... class Norms(Result):
        ...     values: np.ndarray
        >>> print(Norms(np.array([1.0, np.inf])).to_json())
        {
          "values": [
            1.0,
            null
          ]
        }
    """

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain lists, numbers and texts; values that are not finite become None."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def to_json(self, path: str | Path | None = None) -> str:
        """Returns the numbers as JSON text and writes it to `path` if given."""
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        if path is not None:
            with replacing(Path(path)) as draft:
                draft.write_text(text + "\n", encoding="utf-8")
        return text


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "tolist"):  # an array, or a number of NumPy, which need not be imported
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_yaml(path: Path) -> Any:
    """Reads a YAML file as plain data; None if it is empty."""
    return parse_yaml(_content(path, YAML_BYTES), str(path))


def parse_yaml(content: bytes | str, source: str) -> Any:
    """Parses a YAML text; errors begin with `source`.

    Example:
        >>> parse_yaml("{epochs: 3, split: [0.8, 0.1, 0.1]}", "--set")
        {'epochs': 3, 'split': [0.8, 0.1, 0.1]}
    """
    import yaml

    try:
        loader = yaml.SafeLoader(content)  # not CSafeLoader: its recursion in C crashes at deep nesting
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_nodes(node)
            value = loader.construct_document(node)
        finally:
            loader.dispose()
        _check_tree(value)
    except Exception as error:  # untrusted input: the constructors of dates and numbers raise almost anything
        raise ValueError(f"{source}: this is not valid YAML ({_reason(error)}).") from error
    return value


def _content(path: Path, limit: Limit) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(limit.value + 1)
    except FileNotFoundError as error:
        raise ValueError(f"{path}: no such file.") from error
    except IsADirectoryError as error:
        raise ValueError(f"{path} is a folder, not a file.") from error
    _check_size(len(content), limit, str(path))
    return content


def _check_size(size: int, limit: Limit, where: str) -> None:
    if size > limit.value:
        raise ValueError(f"{where}: more than {limit.value:,} bytes. {limit.cure}")


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())[:200] or type(error).__name__


def _check_tree(value: Any) -> None:
    """Rejects nesting that json and yaml accept but recursive code cannot handle."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.keys()
                below += item.values()
            elif isinstance(item, (list, tuple, set)):
                below += item
        level = below


def _check_nodes(top: Any) -> None:
    """Rejects YAML whose aliases multiply, or contain themselves, before it is built."""
    import yaml

    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack = [(top, False)]
    while stack:
        node, children_done = stack.pop()
        key = id(node)
        children = _children(node) if isinstance(node, yaml.CollectionNode) else []
        if children_done:
            open_nodes.discard(key)
            sizes[key] = 1 + sum(sizes[id(child)] for child in children)
            if sizes[key] > _MOST_NODES:
                raise ValueError(f"its aliases stand for more than {_MOST_NODES:,} values")
        elif key in open_nodes:
            raise ValueError("an alias contains itself")
        elif key not in sizes:
            open_nodes.add(key)
            stack.append((node, True))
            stack += [(child, False) for child in children]


def _children(node: Any) -> list[Any]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value)
