"""Pages of a backtest, with errors by origin and forecasts, and of the metrics after a part of each series."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._version import __version__
from .pages import COLORS, GRAY, Plot, cards, code, figure, grid, number, page, paragraph, span, table, write_page

if TYPE_CHECKING:
    from ..estimators import Backtest
    from ..runs import EarlyScores


_MOST_SERIES = 6


def write_backtest(backtest: Backtest, path: str | Path, *, title: str, command: str = "") -> Path:
    """Writes the page of a backtest.

    Example:
        >>> import tempfile
        >>> from chronode.estimators import Backtest
        >>> true, model = np.ones((2, 1, 3, 1)), np.zeros((2, 1, 3, 1))
        >>> two = Backtest(("x",), ("a",), 1, true, {"model": model, "last value": model}, (np.zeros((9, 1)),))
        >>> write_backtest(two, Path(tempfile.mkdtemp()) / "page.html", title="sales").name
        'page.html'
    """
    errors, squared = backtest.errors(), backtest.errors("rmse")
    last = errors["last value"]
    rows = [[name, error, squared[name], number(error / last) if last else ""] for name, error in errors.items()]
    columns = ["forecast", "mae", "rmse", "mae / last value"]
    origins, series, horizon, _ = backtest.true.shape
    facts = {"best": next(iter(errors)), "origins": origins, "series": series, "steps ahead": horizon}
    facts["season"] = backtest.season if backtest.season > 1 else "none"
    sections = {
        "Errors": [
            table(columns, rows, numeric=columns[1:], sortable=True),
            paragraph("Over all origins, series, steps ahead and channels; best first.", "small"),
            grid(_by_origin(backtest), _by_step(backtest)),
        ],
        "Forecasts": [grid(*(_forecasts(backtest, row) for row in range(min(series, _MOST_SERIES))))],
    }
    if command:
        sections["How to repeat"] = [code(command)]
    return write_page(path, page(title, cards(facts), sections, script=True, foot=f"chronode {__version__}"))


def _by_origin(backtest: Backtest) -> str:
    lines = backtest.by_origin()
    places = range(1, len(backtest.true) + 1)
    return _lines(lines, places, "MAE by origin, the latest last", "origin")


def _by_step(backtest: Backtest) -> str:
    gaps = {name: np.abs(values - backtest.true) for name, values in backtest.forecasts.items()}
    lines = {name: np.nanmean(gap, axis=(0, 1, 3)).tolist() for name, gap in gaps.items()}
    return _lines(lines, range(1, backtest.true.shape[2] + 1), "MAE by steps ahead", "steps ahead")


def _lines(lines: dict[str, list[float]], places: range, title: str, label: str) -> str:
    plot = Plot(span(places), span(*lines.values(), zero=True), title=title, xlabel=label, whole=True)
    for color, (name, values) in zip(COLORS, lines.items(), strict=False):
        plot.line(places, values, color=color, name=name, dots=len(places) <= 40)
    return figure(plot)


def _forecasts(backtest: Backtest, row: int) -> str:
    """Plots the history of a series with the forecasts from the last origin and the actual values."""
    true = backtest.true[-1, row, :, 0]
    past = backtest.histories[row][-max(24, 4 * len(true)) :, 0]
    before, after = np.arange(1 - len(past), 1), np.arange(1, len(true) + 1)
    forecasts = {name: values[-1, row, :, 0] for name, values in backtest.forecasts.items()}
    shown = {name: forecasts[name] for name in ("model", "seasonal naive", "last value") if name in forecasts}
    plot = Plot(
        (before[0] - 0.2, after[-1] + 0.2),
        span(past, true, *shown.values()),
        title=f"{backtest.channels[0]}, series {backtest.ids[row]}",
        xlabel="steps after the last origin",
        whole=True,
    )
    finite = np.isfinite(past)
    plot.line(before[finite], past[finite], color=GRAY, name="history")
    plot.line(after, true, color=COLORS[0], dots=True, name="true")
    for color, (name, values) in zip(COLORS[1:], shown.items(), strict=False):
        plot.line(after, values, color=color, dots=name == "model", name=name)
    plot.upright(0.0)
    return figure(plot)


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
