"""Reasons why a number of a paper is not reached, each with the experiment that shows it."""

from __future__ import annotations

import csv
from pathlib import Path

from .recipe import Recipe
from .rows import TableRow, named

COLUMNS = ("recipe", "column", "model", "reason")


class Reasons:
    """The lines of `results/reasons.csv`; an empty column or model matches all.

    Args:
        path: The file; without it there are no reasons.

    Raises:
        ValueError: A line is incomplete.
    """

    def __init__(self, path: Path):
        self._lines: list[dict[str, str]] = []
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                self._lines = list(csv.DictReader(file))
        for number, line in enumerate(self._lines, start=2):
            if tuple(line) != COLUMNS or not line["recipe"] or not line["reason"]:
                raise ValueError(f"{path}, line {number}: needs the columns {', '.join(COLUMNS)}, got {line}.")

    def find(self, recipe: Recipe, row: TableRow) -> str | None:
        """Returns the reason for a row, from the first line that matches it."""
        wanted = {"recipe": recipe.name, "column": row.number.column, "model": row.number.label}
        for line in self._lines:
            if all(line[name] in ("", value) for name, value in wanted.items()):
                return line["reason"]
        return None

    def as_markdown(self, recipe: Recipe, rows: list[TableRow]) -> list[str]:
        """Lists the rows whose number is not reached by reason, and those without one as not examined."""
        ran = [row for row in rows if row.entries]
        by_reason: dict[str | None, list[TableRow]] = {}
        for row in ran:
            if row.verdict == "not reached":
                by_reason.setdefault(self.find(recipe, row), []).append(row)
        unknown = by_reason.pop(None, [])
        lines = [f"- {named(concerned, ran)}: {reason}" for reason, concerned in by_reason.items()]
        if unknown:
            lines.append(f"- {named(unknown, ran)}: not examined.")
        return ["Why numbers are not reached:\n\n" + "\n".join(lines)] if lines else []
