"""Comparison of the numbers of a paper with ours, with a verdict for each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...judge import PairedDifference, paired_difference
from ...training import LOWER_IS_BETTER, mean_and_std
from ..papers import PaperNumber
from ..tasks import find_task
from .jobs import chosen
from .ledger import Entry, Ledger
from .recipe import OWN, Recipe, TableCell, by_kind
from .run import BEST_TEST
from .summary import CANDIDATES

FEWEST_SEEDS = 3
"""Least number of seeds whose standard error counts where the paper prints no standard deviation, and of those that two
models must share for an interval of their difference."""
LARGEST_SHARE = 0.05
"""Our standard error excuses no more than this share of the paper's error, because a failed seed makes it large."""
MEASURED = ("gradient norm", "computational depth")
"""Quantities of which neither more nor less is better: they are reached within the printed standard deviation."""
LAST_DIGIT = 0.005
"""Rounding of a printed quantity whose standard deviation is printed as 0."""
ROUNDING = 1e-9
"""Rounding of the differences of decimal numbers."""
PARTIAL = "partial: "
"""Beginning of a note on data that are not all of the published ones."""


@dataclass(frozen=True)
class TableRow:
    """A number of the paper with ours.

    Attributes:
        number: The number of the paper.
        entries: Our runs, one per seed; empty if there are none.
        mean: Mean of our test metrics in the unit of the paper; None without runs.
        spread: Standard deviation of our test metrics; None with one run.
        verdict: "reached", "not reached", "not comparable", "no number" (in the paper), "own" (a row that is not in a
            paper, without a number to compare with) or "not run".
        cell: The cell that was run; None without runs.
        selected: Settings of that cell that were selected by validation.
        best_test: Mean of the best test epochs of our runs, the rule of some authors; None where it is not theirs.
        values: Test metric of each seed, in the unit of the paper.
        steps: Share of the paper's optimizer steps that a run has; None if it is unknown, or nothing is trained.
        difference: Paired difference over shared seeds from the reference of the column; None without shared seeds.
        reference: Label of that reference: the paper's own model, otherwise the first row.
    """

    number: PaperNumber
    entries: tuple[Entry, ...]
    mean: float | None
    spread: float | None
    verdict: str
    cell: TableCell | None = None
    selected: Mapping[str, Any] = field(default_factory=dict)
    best_test: float | None = None
    values: Mapping[int, float] = field(default_factory=dict)
    steps: float | None = None
    difference: PairedDifference | None = None
    reference: str = ""

    @property
    def judgment(self) -> str:
        """The verdict, with the share of the paper's optimizer steps that it was reached or missed with."""
        if self.steps is None or self.verdict not in ("reached", "not reached"):
            return self.verdict
        steps = "the paper's steps" if self.steps > 0.995 else f"fewer steps ({100 * self.steps:.2g}%)"
        return f"{self.verdict}, {steps}"


def compare(recipe: Recipe, budget: str, ledger: Ledger) -> list[TableRow]:
    """Returns all numbers of the table of a recipe, with the runs in the ledger at this budget.

    Example:
        >>> from chronode.lab.experiments.recipe import find_recipe
        >>> rows = compare(find_recipe("mmrnn/table3"), "laptop", Ledger("nowhere"))
        >>> len(rows), {row.verdict for row in rows}
        (28, {'not run'})
    """
    runs = {entry.config_hash: entry for entry in ledger.entries()}
    cells = {cell.number: cell for cell in recipe.cells(budget)}
    rows = [
        row_of(number, cells.get(number), runs, comparable=number.task not in recipe.incomparable)
        for number in recipe.numbers()
    ]
    if recipe.measure is None:
        theirs = {cell.number: cell for cell in recipe.cells("paper") if cell.model not in CANDIDATES}
        rows = [_with_steps(row, theirs.get(row.number)) for row in rows]
    return _with_differences(rows, recipe.paper)


def _with_steps(row: TableRow, paper: TableCell | None) -> TableRow:
    """Adds the share of the paper's optimizer steps; an epoch has as many as in our run, if not as many as expected."""
    if row.cell is None or paper is None:
        return row
    entry, expected = row.entries[0], row.cell.epoch_steps()
    actual = expected if math.ceil(entry.steps / expected) == entry.epochs else entry.steps / max(entry.epochs, 1)
    return replace(row, steps=entry.steps / paper.planned_steps() * expected / actual)


def _with_differences(rows: list[TableRow], model: str) -> list[TableRow]:
    """Adds the paired differences from the first row of `model` with the most seeds, or else from the first row."""
    references: dict[str, TableRow] = {}
    for row in sorted(
        (row for row in rows if row.entries), key=lambda row: (row.number.model != model, -len(row.values))
    ):
        references.setdefault(row.number.column, row)
    compared = []
    for row in rows:
        reference = references.get(row.number.column)
        if reference is not None and row is not reference and row.entries:
            difference = paired_difference(row.values, reference.values)
            row = replace(row, difference=difference, reference=reference.number.label)
        compared.append(row)
    return compared


def row_of(number: PaperNumber, cell: TableCell | None, runs: dict[str, Entry], *, comparable: bool = True) -> TableRow:
    """Returns one number with our runs; it gets no judgment if its data are not `comparable`."""
    best = chosen(cell, runs) if cell else None
    entries = tuple(runs[key] for key in (best.hashes() if best else ()) if key in runs)
    if cell is None or best is None or not entries:
        return TableRow(number, (), None, None, "not run")
    scale = 100.0 if number.unit == "%" else 1.0
    metric = number.metric if number.metric in MEASURED else find_task(number.task).metric
    values = {entry.seed: scale * entry.metrics["test"][metric] for entry in entries}
    mean, spread = mean_and_std(list(values.values()))
    if number.metric in MEASURED:
        spread = entries[0].metrics["test"].get("spread")
    comparable = comparable and not any(note.startswith(PARTIAL) for entry in entries for note in entry.notes)
    judged = verdict(number, mean, spread, len(entries)) if comparable or number.mean is None else "not comparable"
    kept = [entry.metrics[BEST_TEST][metric] for entry in entries if BEST_TEST in entry.metrics]
    best_test = scale * sum(kept) / len(kept) if len(kept) == len(entries) else None
    selected = {name: best.config[kind][name] for kind, names in by_kind(cell.search.choices).items() for name in names}
    return TableRow(number, entries, mean, spread, judged, best, selected, best_test, values)


def verdict(number: PaperNumber, mean: float, spread: float | None = None, seeds: int = 1) -> str:
    """Returns whether our mean reaches the paper's: "reached", "not reached", or "no number" (in the paper).

    It is reached if it is at least the printed mean minus the printed standard deviation. Where none is printed, at
    least the printed value minus our standard error over three seeds or more, which excuses at most 5% of the paper's
    error (of the error rate for accuracies).

    Args:
        number: The number of the paper.
        mean: Our mean, in the unit of the paper.
        spread: Our standard deviation; None with one run.
        seeds: Number of our runs.
    """
    if number.mean is None:
        return OWN if number.note == OWN else "no number"
    if number.metric in MEASURED:
        far = abs(mean - number.mean) > max(number.spread or 0.0, LAST_DIGIT)
        return "not reached" if far or not math.isfinite(mean) else "reached"
    gain = number.mean - mean if number.metric in LOWER_IS_BETTER else mean - number.mean
    return "reached" if gain >= -_allowance(number, spread, seeds) - ROUNDING else "not reached"


def _allowance(number: PaperNumber, spread: float | None, seeds: int) -> float:
    """Returns by how much our mean may be worse than the printed one."""
    assert number.mean is not None
    if number.spread is not None:
        return number.spread
    if spread is None or seeds < FEWEST_SEEDS:
        return 0.0
    error = 100 - number.mean if number.unit == "%" else abs(number.mean)
    return min(spread / math.sqrt(seeds), LARGEST_SHARE * error)


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
        >>> from chronode.lab.experiments.recipe import find_recipe
        >>> rows = compare(find_recipe("ltc/table3"), "laptop", Ledger("nowhere"))
        >>> named(rows[:6], rows), named(rows[::5], rows)
        ('Gesture; Occupancy LSTM', 'LSTM')
    """
    columns: dict[str, list[TableRow]] = {}
    for row in every:
        columns.setdefault(row.number.column, []).append(row)
    meant = {column: _labels(row for row in column_rows if row in some) for column, column_rows in columns.items()}
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
