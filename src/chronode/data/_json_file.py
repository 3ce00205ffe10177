"""JSON files: one object per line, a list of objects, or the columns of a table as pandas writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..storage import parse_json
from ._packed import opened


def read_json(path: Path, encoding: str | None = None) -> dict[str, list[Any]]:
    """Returns name -> cells of a JSON file."""
    with opened(path) as file:
        content = file.read()
    try:
        text = content.decode(encoding or "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: JSON must be UTF-8 text: {error}.") from None
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    whole = _document(text, path, lines)
    if isinstance(whole, dict) and (table := _columns(whole)) is not None:
        return table
    records = whole if whole is not None else [parse_json(line, Any, f"{path}, line {i:,}") for i, line in lines]
    records = [records] if isinstance(records, dict) else records
    if not isinstance(records, list) or not records:
        raise ValueError(f"{path}: the file has no objects.")
    names: dict[str, None] = {}
    for i, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise ValueError(f"{path}: row {i:,} is not an object {{...}}: {str(record)[:60]!r}.")
        names |= dict.fromkeys(record)
    return {name: [record.get(name) for record in records] for name in names}


def _document(text: str, path: Path, lines: list[tuple[int, str]]) -> Any:
    """Returns the document of a file that is one list or one object; None if every line is an object."""
    first = text.lstrip()[:1]
    if first == "[":
        return parse_json(text, Any, str(path))
    if first != "{" or (len(lines) > 1 and lines[0][1].rstrip().endswith("}")):
        return None
    try:
        return parse_json(text, Any, str(path))
    except ValueError:
        return None  # the line with the error is found by reading line by line


def _columns(document: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """Returns the columns of a document that is a table; None if it is a single row.

    Example:
        >>> _columns({"x": {"0": 1, "1": 2}}), _columns({"x": [1, 2]}), _columns({"columns": ["x"], "data": [[1], [2]]})
        ({'x': [1, 2]}, {'x': [1, 2]}, {'x': [1, 2]})
        >>> _columns({"rows": [{"x": 1}, {"x": 2}]}), _columns({"x": 1})
        ({'x': [1, 2]}, None)
    """
    cells = list(document.values())
    names, rows = document.get("columns"), document.get("data")
    if isinstance(names, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return {str(name): [row[i] if i < len(row) else None for row in rows] for i, name in enumerate(names)}
    if cells and all(isinstance(column, dict) for column in cells):
        keys = dict.fromkeys(key for column in cells for key in column)
        return {name: [column.get(key) for key in keys] for name, column in document.items()}
    tables = [each for each in cells if isinstance(each, list) and each and all(isinstance(row, dict) for row in each)]
    if len(tables) == 1:  # the rows, perhaps beside a description
        keys = dict.fromkeys(key for row in tables[0] for key in row)
        return {name: [row.get(name) for row in tables[0]] for name in keys}
    if cells and all(isinstance(column, list) for column in cells):
        return {name: list(column) for name, column in document.items()}
    return None
