"""Page of early prediction: metrics over the part of each series that was seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._version import __version__
from .pages import Plot, code, figure, grid, number, page, paragraph, span, table, write_page

if TYPE_CHECKING:
    from ..runs import EarlyScores


def write_early(path: str | Path, found: EarlyScores, metric: str, *, title: str, command: str = "") -> Path:
    """Writes the page."""
    names = [metric, *(name for name in found.scores[0] if name not in (metric, "loss"))]
    unit = found.unit if found.unit == "observations" else f"{found.unit} since the first observation"
    pictures = []
    for name in names:
        values = np.array([scores.get(name, np.nan) for scores in found.scores])
        low, high = (np.array([row.get(name, np.nan) for row in side]) for side in (found.low, found.high))
        ends = np.concatenate([values, low, high])
        plot = Plot((0, found.at[-1]), span(ends[np.isfinite(ends)]), title=name.replace("_", " "), xlabel=unit)
        plot.band(found.at, low, high, name="95% interval")
        plot.line(found.at, values, dots=True, name="model")
        pictures.append(figure(plot))
    columns = [*names, "steps seen", "series that had ended"]
    rows = [
        [label, *(scores.get(name) for name in names), steps, f"{100 * ended:.0f}%"]
        for label, scores, steps, ended in zip(found.labels, found.scores, found.steps, found.ended, strict=True)
    ]
    text = "Every prediction uses only what was observed up to then; series that are shorter count as a whole."
    body = [paragraph(text), table(["seen", *columns], rows, numeric=columns), grid(*pictures)]
    sections = {"Metrics over time": body}
    if command:
        sections["How to repeat"] = [code(command)]
    head = paragraph(f"whole series: {metric} {number(found.scores[-1].get(metric, float('nan')))}", "lead")
    return write_page(path, page(title, head, sections, foot=f"chronode {__version__}"))
