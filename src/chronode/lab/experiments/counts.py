"""Counts of the printed cells: each number once, by the copy that is nearest to the authors' protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ..papers import PaperNumber, numbers
from .recipe import BUDGETS, Recipe
from .rows import TableRow

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
