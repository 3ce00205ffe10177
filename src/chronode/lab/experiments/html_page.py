"""index.html of the results: every number that was run beside the paper's, in one table that sorts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...report.pages import COLORS, GRAY, Plot, cards, figure, grid, page, paragraph, span, table, write_page
from .rows import TableRow, mean_text

if TYPE_CHECKING:
    from .counts import Table

_NUMERIC = ("paper", "ours", "seeds", "steps", "minutes")
_COLOR = {"reached": COLORS[2], "not reached": COLORS[1]}
_COLOR |= dict.fromkeys(("not comparable", "no number"), GRAY)


def write_index(tables: Sequence[Table], papers: Mapping[str, str], path: Path) -> Path:
    """Writes the page of all results."""
    cells = [(one, row) for one in tables for row in one.rows if row.entries]
    verdicts = Counter(row.verdict for _, row in cells)
    facts: dict[str, Any] = {"numbers of the papers": len(cells), **{name: verdicts[name] for name in _COLOR}}
    columns = ["table", "task", "model", "metric", "paper", "ours", "verdict", *_NUMERIC[2:]]
    rows = [_line(one, row) for one, row in cells]
    pictures = [_picture(papers[name], [row for one, row in cells if one.recipe.paper == name]) for name in papers]
    drawn = [one for group in pictures for one in group]
    note = (
        "Click a heading to sort; minutes are CPU minutes of one run. In the plots, accuracies above the line and "
        "errors below it beat the paper's."
    )
    sections: dict[str, list[str]] = {
        "All numbers": [paragraph(note, "small"), table(columns, rows, numeric=_NUMERIC, sortable=True)],
    }
    if drawn:
        sections = {"Papers and chronode": [grid(*drawn)], **sections}
    foot = "Written by `make results` from the ledger (results/*.jsonl). RESULTS.md explains how to reproduce them."
    return write_page(path, page("Results of chronode", cards(facts), sections, script=True, foot=foot))


def _line(one: Table, row: TableRow) -> list[Any]:
    number, entries = row.number, row.entries
    first = entries[0]
    minutes = sum(entry.seconds for entry in entries) / 60 / len(entries)
    return [
        one.recipe.name if one.budget == "laptop" else f"{one.recipe.name} ({one.budget})",
        number.task if number.column in ("", number.task) else f"{number.task}: {number.column}",
        number.label,
        f"{number.metric} ({number.unit})" if number.unit else number.metric,
        (mean_text(number.mean, number.spread, number), number.mean),
        (mean_text(row.mean, row.spread, number), row.mean),
        row.judgment,
        len(entries),
        first.steps,
        (f"{minutes:.1f}", minutes),
    ]


def _picture(title: str, rows: Sequence[TableRow]) -> list[str]:
    """Ours over the paper's: accuracies in percent, and errors in logarithms."""
    compared = [row for row in rows if row.mean is not None and row.number.mean is not None and np.isfinite(row.mean)]
    accuracies = [row for row in compared if row.number.unit == "%"]
    errors = [row for row in compared if row.number.unit != "%" and row.number.metric != "f1"]
    errors = [row for row in errors if (row.mean or 0) > 0 and (row.number.mean or 0) > 0]
    pictures: list[str] = []
    for what, chosen, scale in (("accuracy (%)", accuracies, float), ("log10 of the error", errors, np.log10)):
        if not chosen:
            continue
        x, y = (np.array([float(scale(value)) for value in values]) for values in _both(chosen))
        ends = span(x, y)
        plot = Plot(ends, ends, title=title, xlabel=f"{what} in the paper", ylabel="ours")
        plot.line(ends, ends, color=GRAY, dash="3 3")
        for verdict, color in _COLOR.items():
            indices = [index for index, row in enumerate(chosen) if row.verdict == verdict]
            titles = [f"{chosen[index].number.label}, {chosen[index].number.task}" for index in indices]
            if indices:
                plot.dots(x[indices], y[indices], color=color, name=verdict, opacity=0.8, titles=titles)
        pictures.append(figure(plot))
    return pictures


def _both(rows: Sequence[TableRow]) -> tuple[list[Any], list[Any]]:
    return [row.number.mean for row in rows], [row.mean for row in rows]
