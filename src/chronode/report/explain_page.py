"""Page of explanations: contributions of channels, static columns and spans of time, per series and over all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._version import __version__
from .pages import (
    cards,
    code,
    details,
    figure,
    grid,
    heat_map,
    interval_chart,
    number,
    page,
    paragraph,
    table,
    write_page,
)

if TYPE_CHECKING:
    from ..data import Sequences
    from ..judge import Importance
    from ..training import Explanation

_MOST_BARS = 20
_MOST_SERIES = 24


def importance_picture(found: Importance, label: str) -> str:
    """Draws the importance of the columns with their intervals."""
    few = slice(_MOST_BARS)
    more = f"; the first {_MOST_BARS} of {len(found)} columns" if len(found) > _MOST_BARS else ""
    chart = interval_chart(
        found.names[few],
        found.losses[few],
        found.low[few],
        found.high[few],
        title=f"Permutation importance{more}",
        xlabel=f"change of {label.replace('_', ' ')} for the worse",
    )
    text = (
        f"Each column in turn comes from another series. 95% intervals over {found.series:,} series and permutations; "
    )
    text += f"with all columns, {label.replace('_', ' ')} is "
    return figure(chart, f"{text}{number(found.value)}.")


def write_explanation(
    path: str | Path,
    found: Explanation,
    data: Sequences,
    *,
    title: str,
    importance: Importance | None = None,
    label: str = "",
    command: str = "",
) -> Path:
    """Writes the page of an explanation."""
    change = np.abs(found.output - found.reference).sum()
    facts: dict[str, Any] = {"series": len(found), "largest error of a sum": float(found.error.max(initial=0.0))}
    if found.by_occlusion.any():
        facts["divided by occlusion"] = f"{100 * np.abs(found.by_occlusion).sum() / max(change, 1e-30):.0f}%"
    text = (
        "Contributions divide the difference between the prediction and that for a series of means (the reference). "
        "Those of all channels and static columns sum to it. Blue raises the prediction, orange lowers it."
    )
    sections: dict[str, Sequence[str]] = {
        "All series": [
            paragraph(text),
            _summary(found),
            *([] if importance is None else [importance_picture(importance, label)]),
        ],
        "Each series": [
            grid(*(_series(found, data, row) for row in range(min(len(found), _MOST_SERIES)))),
            _table(found),
        ],
    }
    if command:
        sections["How to repeat"] = [code(command)]
    return write_page(path, page(title, cards(facts), sections, script=True, foot=f"chronode {__version__}"))


def _summary(found: Explanation) -> str:
    """Returns the mean and the mean size of the contribution of each column."""
    names = [*found.channel_names, *found.static_names]
    values = np.concatenate([found.channels, found.static], axis=1)
    order = np.argsort(-np.abs(values).mean(0), kind="stable")
    rows = [[names[index], float(np.abs(values[:, index]).mean()), float(values[:, index].mean())] for index in order]
    return table(["column", "mean size", "mean"], rows, numeric=["mean size", "mean"], sortable=True)


def _series(found: Explanation, data: Sequences, row: int) -> str:
    """Returns the contributions of channels by spans of time, and those of static columns, of one series."""
    values, names = found.spans[row].T, [*found.channel_names]
    unit = "step" if data.base_times is None else f"time ({data.clock.unit_text()})"
    edges = [f"{edge:.3g}" for edge in found.edges[row] - found.edges[row][0]]
    spans = [f"{start}–{end}" for start, end in pairwise(edges)]
    texts = [[f"{value:.2g}" for value in line] for line in values.tolist()]
    heading = f"{found.ids[row]}: {found.names[row]} {number(found.reference[row])} → {number(found.output[row])}"
    drawing = heat_map(values, names, spans, title=heading, xlabel=f"{unit} since the first row", texts=texts, tall=20)
    static = ", ".join(
        f"{name} {value:+.3g}" for name, value in zip(found.static_names, found.static[row], strict=True)
    )
    return figure(drawing, f"Static columns: {static}." if static else "")


def _table(found: Explanation) -> str:
    names = [*found.channel_names, *found.static_names]
    values = np.concatenate([found.channels, found.static], axis=1).tolist()
    columns = ["reference", *names, "prediction", "error"]
    rows = [
        [found.ids[row], found.names[row], found.reference[row], *values[row], found.output[row], found.error[row]]
        for row in range(len(found))
    ]
    return details("All contributions", table(["series", "output", *columns], rows, numeric=columns, sortable=True))
