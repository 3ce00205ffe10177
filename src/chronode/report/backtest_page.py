"""Page of a backtest: errors by origin, and forecasts beside the actual values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._version import __version__
from .pages import GRAY, Plot, cards, code, figure, grid, number, page, paragraph, span, table, write_page
from .pages._colors import COLORS

if TYPE_CHECKING:
    from ..estimators import Backtest

_MOST_SERIES = 6


def write_backtest(found: Backtest, path: str | Path, *, title: str, command: str = "") -> Path:
    """Writes the page of a backtest.

    Args:
        found: The forecasts.
        path: The HTML file.
        title: Heading.
        command: Command line that repeats it.

    Example:
        >>> import tempfile
        >>> from chronode.estimators import Backtest
        >>> true, model = np.ones((2, 1, 3, 1)), np.zeros((2, 1, 3, 1))
        >>> found = Backtest(("x",), ("a",), 1, true, {"model": model, "last value": model}, (np.zeros((9, 1)),))
        >>> write_backtest(found, Path(tempfile.mkdtemp()) / "page.html", title="sales").name
        'page.html'
    """
    errors, squared = found.errors(), found.errors("rmse")
    last = errors["last value"]
    rows = [[name, error, squared[name], number(error / last) if last else ""] for name, error in errors.items()]
    columns = ["forecast", "mae", "rmse", "mae / last value"]
    origins, series, horizon, _ = found.true.shape
    facts = {"best": next(iter(errors)), "origins": origins, "series": series, "steps ahead": horizon}
    facts["season"] = found.season if found.season > 1 else "none"
    sections = {
        "Errors": [
            table(columns, rows, numeric=columns[1:], sortable=True),
            paragraph("Over all origins, series, steps ahead and channels; best first.", "small"),
            grid(_by_origin(found), _by_step(found)),
        ],
        "Forecasts": [grid(*(_forecasts(found, row) for row in range(min(series, _MOST_SERIES))))],
    }
    if command:
        sections["How to repeat"] = [code(command)]
    return write_page(path, page(title, cards(facts), sections, script=True, foot=f"chronode {__version__}"))


def _by_origin(found: Backtest) -> str:
    lines = found.by_origin()
    places = range(1, len(found.true) + 1)
    return _lines(lines, places, "MAE by origin, the latest last", "origin")


def _by_step(found: Backtest) -> str:
    gaps = {name: np.abs(values - found.true) for name, values in found.forecasts.items()}
    lines = {name: np.nanmean(own, axis=(0, 1, 3)).tolist() for name, own in gaps.items()}
    return _lines(lines, range(1, found.true.shape[2] + 1), "MAE by steps ahead", "steps ahead")


def _lines(lines: dict[str, list[float]], places: range, title: str, label: str) -> str:
    plot = Plot(span(places), span(*lines.values(), zero=True), title=title, xlabel=label, whole=True)
    for color, (name, values) in zip(COLORS, lines.items(), strict=False):
        plot.line(places, values, color=color, name=name, dots=len(places) <= 40)
    return figure(plot)


def _forecasts(found: Backtest, row: int) -> str:
    """Plots the history of a series with the forecasts from the last origin and the actual values."""
    true = found.true[-1, row, :, 0]
    past = found.histories[row][-max(24, 4 * len(true)) :, 0]
    before, after = np.arange(1 - len(past), 1), np.arange(1, len(true) + 1)
    own = {name: values[-1, row, :, 0] for name, values in found.forecasts.items()}
    shown = {name: own[name] for name in ("model", "seasonal naive", "last value") if name in own}
    plot = Plot(
        (before[0] - 0.2, after[-1] + 0.2),
        span(past, true, *shown.values()),
        title=f"{found.channels[0]}, series {found.ids[row]}",
        xlabel="steps after the last origin",
        whole=True,
    )
    seen = np.isfinite(past)
    plot.line(before[seen], past[seen], color=GRAY, name="history")
    plot.line(after, true, color=COLORS[0], dots=True, name="true")
    for color, (name, values) in zip(COLORS[1:], shown.items(), strict=False):
        plot.line(after, values, color=color, dots=name == "model", name=name)
    plot.upright(0.0)
    return figure(plot)
