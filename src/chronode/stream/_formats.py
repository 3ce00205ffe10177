"""Lines of text as events, and predictions as lines of text: JSON Lines, or CSV with a line of column names."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from ..storage import MIB

MOST_BYTES = MIB
"""Longest line."""
_MARK = "\ufeff"  # the byte-order mark that some programs write before the first line
Row = dict[str, Any]


class Format:
    """Reads and writes lines.

    The format is that of the first line that fits: JSON if it is a JSON object, CSV if it has the names of the required
    columns. Until then, errors are written as JSON.

    Args:
        required: Columns that every event has.
        columns: Columns of an answer.
    """

    def __init__(self, required: Sequence[str], columns: Sequence[str]):
        self._required, self._columns = list(required), list(columns)
        self._json = False
        self._names: list[str] | None = None
        self._begun = False

    def parse(self, text: str | None) -> Row | None:
        """Returns the event of a line; None for an empty line and for column names.

        Args:
            text: The line, as `decoded` returned it; None if it is too long.

        Raises:
            ValueError: The line is not an event.
        """
        if text is None:
            raise ValueError(f"the line has more than {MOST_BYTES:,} bytes")
        if any("\udc80" <= letter <= "\udcff" for letter in text if letter > "\ud7ff"):
            raise ValueError("the line is not valid UTF-8")
        text = text.removeprefix(_MARK)
        if not text.strip():
            return None
        if self._json:
            return _object(text)
        if self._names is not None:
            return self._cells(self._names, text)
        return self._first(text)

    def _first(self, text: str) -> Row | None:
        """Decides for the format of a line if it fits one."""
        if text.lstrip().startswith("{"):
            row = _object(text)
            self._json = True
            return row
        names = [name.strip() for name in _split(text)]
        gone = [name for name in self._required if name not in names]
        if gone or len(set(names)) < len(names):
            needed = f" with {', '.join(self._required)}" if self._required else ", each once"
            raise ValueError(f"this is neither a JSON object nor a line of column names{needed}")
        self._names = names
        return None

    def _cells(self, names: list[str], text: str) -> Row:
        cells = _split(text)
        if len(cells) != len(names):
            raise ValueError(f"the line has {len(cells)} cells, the first line has {len(names)}")
        return {name: cell if cell.strip() else None for name, cell in zip(names, cells, strict=True)}

    def text(self, rows: Sequence[Row]) -> str:
        """Returns answers as lines."""
        if self._names is None:
            return "".join(json.dumps(row) + "\n" for row in rows)
        found = io.StringIO()
        writer = csv.DictWriter(found, self._columns, lineterminator="\n")
        if not self._begun:
            writer.writeheader()
        writer.writerows(rows)
        return found.getvalue()

    def written(self) -> None:
        """Notes that the text of answers was written, and with it the names of the columns."""
        self._begun = self._begun or self._names is not None


def decoded(line: bytes) -> str | None:
    """Returns the text of a line; bytes that are not UTF-8 stay recognizable; None if the line is too long."""
    return None if len(line) > MOST_BYTES else line.decode("utf-8", errors="surrogateescape").removesuffix("\r")


def _split(text: str) -> list[str]:
    try:
        return next(csv.reader([text]))
    except csv.Error as error:
        raise ValueError(f"this is not a line of CSV ({error})") from error


def _object(text: str) -> Row:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError("this is not a JSON object with names and values")
    return row
