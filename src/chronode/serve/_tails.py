"""The last observations of each id, as they came, from which the state of another model is built."""

from __future__ import annotations

import copy
import gzip
import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..storage import replacing

Row = dict[str, Any]


class Tails:
    """Keeps the last observations of each id.

    Args:
        length: Number of observations kept per id; 0 for none.

    Example:
        >>> tails = Tails(2)
        >>> tails.add([{"id": "a", "x": 1}, {"id": "a", "x": 2}, {"id": "b", "x": 3}, {"id": "a", "x": 4}], "id")
        >>> tails.rows(), tails.complete()
        ([{'id': 'a', 'x': 2}, {'id': 'a', 'x': 4}, {'id': 'b', 'x': 3}], 1)
    """

    def __init__(self, length: int):
        self.length = length
        self._rows: dict[str, deque[Row]] = {}
        self._seen: dict[str, int] = {}

    def add(self, rows: Sequence[Row], id: str) -> None:
        """Adds observations in the order in which they came."""
        if not self.length:
            return
        for row in rows:
            name = str(row.get(id, 0))
            if name not in self._rows:
                self._rows[name] = deque(maxlen=self.length)
            self._rows[name].append(row)
            self._seen[name] = self._seen.get(name, 0) + 1

    def drop(self, id: str) -> None:
        """Forgets an id."""
        self._rows.pop(id, None)
        self._seen.pop(id, None)

    def rows(self) -> list[Row]:
        """Returns the observations of all ids, each id in order."""
        return [row for rows in self._rows.values() for row in rows]

    def complete(self) -> int:
        """Returns the number of ids of which all observations are kept."""
        return sum(len(rows) == self._seen[name] for name, rows in self._rows.items())

    def copy(self) -> Tails:
        """Returns a copy of this moment."""
        other = Tails(self.length)
        other._rows, other._seen = {name: copy.copy(rows) for name, rows in self._rows.items()}, dict(self._seen)
        return other

    # ---- files --------------------------------------------------------------------------------------------

    def save(self, state: Path) -> None:
        """Writes the observations beside a file of states."""
        if not self.length:
            return
        with replacing(_beside(state)) as draft, gzip.open(draft, "wt", encoding="utf-8", compresslevel=1) as file:
            for name, rows in self._rows.items():
                file.write(json.dumps([name, self._seen[name], list(rows)]) + "\n")

    def load(self, state: Path) -> None:
        """Reads the observations beside a file of states, if there are any."""
        path = _beside(state)
        if not self.length or not path.exists():
            return
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                for line in file:
                    name, count, rows = json.loads(line)
                    self._rows[str(name)] = deque(rows, maxlen=self.length)
                    self._seen[str(name)] = int(count)
        except (OSError, EOFError, ValueError, TypeError) as error:
            raise ValueError(
                f"{path}: not a file of observations: {error}. Delete it to begin without them."
            ) from error


def _beside(state: Path) -> Path:
    return state.with_name(f"{state.name}.tail")
