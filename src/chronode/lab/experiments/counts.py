"""Counts of the printed cells, each number once, and the reasons why numbers are not reached."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..papers import PaperNumber, numbers
from .recipe import BUDGETS, Recipe, recipes
from .rows import PARTIAL, TableRow, mean_text, named

BEYOND = "beyond"
"""Paper of the tables that are not of the five papers."""


class Table(NamedTuple):
    """A table at one budget, with its runs."""

    recipe: Recipe
    budget: str
    rows: list[TableRow]


def printed(*, own: bool = False) -> list[PaperNumber]:
    """Returns the printed cells of the five papers: no curves, and no tables beyond the papers.

    Example:
        >>> len(printed()), len(printed(own=True))
        (403, 99)
    """
    cells = [number for number in numbers() if number.mean is not None and number.paper != BEYOND]
    return [number for number in cells if not own or number.model == number.paper]


def counted(tables: Iterable[Table]) -> dict[PaperNumber, TableRow]:
    """Returns the row that counts for every printed cell that was run.

    A cell may have been run in several ways. The authors' split comes before a clean one, then a longer budget before
    a shorter one; no score decides.
    """
    ways = sorted(tables, key=lambda table: (table.recipe.protocol == "paper", BUDGETS.index(table.budget)))
    last = {row.number: row for table in ways for row in table.rows if row.entries}  # the last one stays
    return {number: last[number] for number in printed() if number in last}


def tally(cells: Iterable[PaperNumber], rows: dict[PaperNumber, TableRow]) -> Counter[str]:
    """Counts cells: "printed", "filled" and each verdict."""
    cells = list(cells)
    filled = [rows[number] for number in cells if number in rows]
    return Counter({"printed": len(cells), "filled": len(filled), **Counter(row.verdict for row in filled)})


COLUMNS = ("recipe", "column", "model", "reason")
NOT_EXAMINED = "not examined."


class Reasons:
    """The lines of `results/reasons.csv`; an empty column or model matches all, and a line may name several recipes."""

    def __init__(self, path: Path):
        self._lines: list[dict[str, str]] = []
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                self._lines = list(csv.DictReader(file))
        for number, line in enumerate(self._lines, start=2):
            if tuple(line) != COLUMNS or not line["recipe"] or not line["reason"]:
                raise ValueError(f"{path}, line {number}: needs the columns {', '.join(COLUMNS)}, got {line}.")

    def find(self, recipe: Recipe, number: PaperNumber) -> str | None:
        """Returns the reason for a number, from the first line that matches it."""
        for line in self._lines:
            if recipe.name in line["recipe"].split() and all(
                line[name] in ("", value) for name, value in (("column", number.column), ("model", number.label))
            ):
                return line["reason"]
        return None

    def as_markdown(self, recipe: Recipe, rows: list[TableRow]) -> list[str]:
        """Lists the rows whose number is not reached by reason, and those without one as not examined."""
        ran = [row for row in rows if row.entries]
        by_reason: dict[str | None, list[TableRow]] = {}
        for row in ran:
            if row.verdict == "not reached":
                by_reason.setdefault(self.find(recipe, row.number), []).append(row)
        unknown = by_reason.pop(None, [])
        lines = [f"- {named(concerned, ran)}: {reason}" for reason, concerned in by_reason.items()]
        if unknown:
            lines.append(f"- {named(unknown, ran)}: {NOT_EXAMINED}")
        return ["Why numbers are not reached:\n\n" + "\n".join(lines)] if lines else []

    def of_own_models(self, rows: dict[PaperNumber, TableRow]) -> dict[str, list[str]]:
        """Returns reason -> the printed cells of the papers' own models that are not reached for it."""
        every = recipes()
        cells: dict[str, list[str]] = {}
        for number in printed(own=True):
            row = rows.get(number)
            if row is None or row.verdict != "reached":
                name = f"{number.paper}/table{number.table}" if row is None or row.cell is None else row.cell.recipe
                column = f" {number.column}" if number.column else ""
                ours = "not run" if row is None else f"{mean_text(row.mean, row.spread, number)}, {row.judgment}"
                text = f"{number.paper}/table{number.table}{column} {number.label} "
                text += f"({ours}; paper: {mean_text(number.mean, number.spread, number)})"
                cells.setdefault(self._why(every[name], number, row), []).append(text)
        return cells

    def _why(self, recipe: Recipe, number: PaperNumber, row: TableRow | None) -> str:
        notes: Iterable[str] = () if row is None else (note for entry in row.entries for note in entry.notes)
        partial = next((f"only a part of the data was available ({note})" for note in notes if PARTIAL in note), None)
        return self.find(recipe, number) or recipe.incomparable.get(number.task) or partial or NOT_EXAMINED
