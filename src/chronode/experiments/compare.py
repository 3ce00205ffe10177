"""Comparison of the numbers of a paper with ours, with a verdict for each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..papers import PaperNumber
from ..tasks import find_task
from ..training._metrics import LOWER_IS_BETTER, mean_and_std
from .jobs import chosen
from .ledger import Entry, Ledger
from .recipe import Recipe, TableCell, by_kind

WITHOUT_SPREAD = 0.01
"""If there is no standard deviation, neither of the paper nor of ours, numbers within 1% count as equal."""
LARGEST_SPREAD = 0.05
"""A number that is worse by more is not excused by our own standard deviation, in which a failed seed may count."""


@dataclass(frozen=True)
class TableRow:
    """A number of the paper with ours.

    Attributes:
        number: The number of the paper.
        entries: Our runs, one per seed; empty if there are none.
        mean: Mean of our test metrics in the unit of the paper; None without runs.
        spread: Standard deviation of our test metrics; None with one run.
        verdict: "within spread", "better", "worse", "not comparable", "no number" (in the paper) or "not run".
        cell: The cell that was run; None without runs.
        selected: Settings of that cell that were selected by validation.
    """

    number: PaperNumber
    entries: tuple[Entry, ...]
    mean: float | None
    spread: float | None
    verdict: str
    cell: TableCell | None = None
    selected: Mapping[str, Any] = field(default_factory=dict)


def compare(recipe: Recipe, budget: str, ledger: Ledger) -> list[TableRow]:
    """Returns all numbers of the table of a recipe, with the runs in the ledger at this budget.

    Example:
        >>> from chronode.experiments.recipe import find_recipe
        >>> rows = compare(find_recipe("mmrnn/table3"), "laptop", Ledger("nowhere"))
        >>> len(rows), {row.verdict for row in rows}
        (28, {'not run'})
    """
    found = {entry.config_hash: entry for entry in ledger.entries()}
    cells = {cell.number: cell for cell in recipe.cells(budget)}
    return [
        row(number, cells.get(number), found, comparable=number.task not in recipe.incomparable)
        for number in recipe.numbers()
    ]


def row(number: PaperNumber, cell: TableCell | None, found: dict[str, Entry], *, comparable: bool = True) -> TableRow:
    """Returns one number with our runs; it gets no judgement if its data are not `comparable`."""
    best = chosen(cell, found) if cell else None
    entries = tuple(found[key] for key in (best.hashes() if best else ()) if key in found)
    if cell is None or best is None or not entries:
        return TableRow(number, (), None, None, "not run")
    scale = 100.0 if number.unit == "%" else 1.0
    metric = find_task(number.task).metric
    values = [scale * entry.metrics["test"][metric] for entry in entries]
    mean, spread = mean_and_std(values)
    judged = verdict(number, mean, spread) if comparable else "not comparable"
    selected = {name: best.config[kind][name] for kind, own in by_kind(cell.search.choices).items() for name in own}
    return TableRow(number, entries, mean, spread, judged, best, selected)


def verdict(number: PaperNumber, mean: float, spread: float | None) -> str:
    """Compares our mean with the paper: within the larger of both standard deviations, better, or worse.

    A number that is worse by more than 5% is within spread only by the standard deviation of the paper.
    """
    if number.mean is None:
        return "no number"
    if not math.isfinite(mean):
        return "worse"
    size, theirs = abs(number.mean), number.spread or 0.0
    ours = spread or (0.0 if theirs else WITHOUT_SPREAD * size)
    gain = number.mean - mean if number.metric in LOWER_IS_BETTER else mean - number.mean
    if gain < -max(theirs, min(ours, LARGEST_SPREAD * size)):
        return "worse"
    return "better" if gain > max(theirs, ours) else "within spread"


def shown(value: float | None, number: PaperNumber) -> str:
    """Formats a value with the digits of the paper; percentages with two."""
    if value is None:
        return ""
    if number.unit == "%":
        return f"{value:.2f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def mean_text(mean: float | None, spread: float | None, number: PaperNumber) -> str:
    """Formats mean and standard deviation: 97.10 ± 0.30."""
    if mean is None:
        return ""
    return shown(mean, number) + (f" ± {shown(spread, number)}" if spread is not None else "")


def named(some: Collection[TableRow], every: Sequence[TableRow]) -> str:
    """Names some rows of a table: by model if that is enough, otherwise column by column.

    Args:
        some: The rows to name.
        every: All rows that could be meant, in the order of the table.

    Example:
        >>> from chronode.experiments.recipe import find_recipe
        >>> rows = compare(find_recipe("ltc/table3"), "laptop", Ledger("nowhere"))
        >>> named(rows[:6], rows), named(rows[::5], rows)
        ('Gesture; Occupancy LSTM', 'LSTM')
    """
    columns: dict[str, list[TableRow]] = {}
    for row in every:
        columns.setdefault(row.number.column, []).append(row)
    meant = {column: _labels(row for row in own if row in some) for column, own in columns.items()}
    if all(labels == _labels(some) for labels in meant.values()):
        return ", ".join(_labels(some))
    parts = [
        column if labels == _labels(columns[column]) else f"{column} {', '.join(labels)}"
        for column, labels in meant.items()
        if labels
    ]
    return (", " if columns.keys() >= set(parts) else "; ").join(parts)


def _labels(rows: Iterable[TableRow]) -> list[str]:
    return list(dict.fromkeys(row.number.label for row in rows))
