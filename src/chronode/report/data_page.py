"""Pages of a file: its columns, some series and suspicious things; and how it differs from the training data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..data import Sequences, percent
from ._data_pictures import pictures_of
from .pages import COLORS, Plot, bullets, cards, code, figure, grid, number, page, paragraph, table, write_page

if TYPE_CHECKING:
    from ..data import ColumnFacts
    from ..runs import CheckResult


def write_data(
    path: str | Path,
    s: Sequences,
    *,
    title: str,
    columns: Sequence[ColumnFacts],
    notes: Sequence[str] = (),
    options: str = "",
    command: str = "",
) -> Path:
    """Writes the page."""
    heads = ["missing", "different", "lowest", "middle", "highest"]
    rows = [
        [
            column.name,
            column.role,
            column.kind,
            percent(column.missing),
            column.distinct,
            column.low,
            column.middle,
            column.high,
        ]
        for column in columns
    ]
    sections: dict[str, Sequence[str]] = {
        "Suspicious": [bullets(notes) if notes else paragraph("Nothing.")],
        "Columns": [table(["column", "role", "kind", *heads], rows, numeric=heads, sortable=True)],
        "Series": [grid(*pictures_of(s, 4))],
    }
    if options:
        sections["How it was read"] = [code(f"chronode train {title} {options}")]
    if command:
        sections["How to repeat"] = [code(command)]
    return write_page(
        path, page(title, paragraph(str(s.describe()), "lead"), sections, script=True, foot=f"chronode {__version__}")
    )


_MOST_PICTURES = 12


def write_drift(path: str | Path, result: CheckResult, *, title: str, command: str = "") -> Path:
    """Writes the page of a check."""
    parts = [part for part in (result.inputs, result.predictions) if part is not None]
    rows: list[list[Any]] = [
        [name, before, now, float(distance), float(p), "changed" if p <= part.level else ""]
        for part in parts
        for name, before, now, distance, p in zip(
            part.names, part.before, part.now, part.distances, part.p_values, strict=True
        )
    ]
    rows.sort(key=lambda row: row[4])
    facts: dict[str, Any] = {"changed": len(result.found), "features": len(rows), "new series": result.series}
    for change in result.metrics:
        facts[f"{change.metric}, test part"] = change.before
        facts[f"{change.metric}, here"] = change.now
    text = (
        "Each feature is one number per series (or group of series). The distance is the largest difference between "
        "the shares of training and of new series below a value. p is the probability of a distance this large of any "
        f"feature if nothing has changed; below {number(result.inputs.level)} it counts as a change."
    )
    pictures = [_histograms(row[0], *result.features[row[0]], row[5] != "") for row in rows[:_MOST_PICTURES]]
    columns = ["training (median)", "now (median)", "distance", "p", ""]
    sections = {
        "What has changed": [
            bullets(result.found) if result.found else paragraph("Nothing has changed by more than chance allows."),
        ],
        "Features": [
            paragraph(text),
            table(["feature", *columns], rows, numeric=columns, sortable=True),
            grid(*pictures),
        ],
    }
    if result.notes:
        sections["Notes on the new data"] = [bullets(result.notes)]
    if command:
        sections["How to repeat"] = [code(command)]
    return write_page(path, page(title, cards(facts), sections, script=True, foot=f"chronode {__version__}"))


def _histograms(name: str, before: NDArray[np.float64], now: NDArray[np.float64], changed: bool) -> str:
    """Draws the share of training and new series by the value of a feature."""
    sides = [values[~np.isnan(values)] for values in (before, now)]
    every = np.concatenate(sides)
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1, 21)
    shares = [np.histogram(values, edges)[0] / max(len(values), 1) for values in sides]
    top = 1.1 * max(float(share.max(initial=0.0)) for share in shares) or 1.0
    title = f"{name}{' (changed)' if changed else ''}"
    plot = Plot((float(edges[0]), float(edges[-1])), (0, top), title=title, ylabel="share of series", height=190)
    for values, color, label in zip(shares, (COLORS[0], COLORS[1]), ("training", "now"), strict=True):
        plot.line(np.repeat(edges, 2)[1:-1], np.repeat(values, 2), color=color, name=label)
    return figure(plot)
