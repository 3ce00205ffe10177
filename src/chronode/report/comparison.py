"""Plot of a comparison: every run as a dot, mean and standard deviation, and the learning curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._colours import COLOURS
from .._files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..search._compare import Comparison, Row


def plot_comparison(comparison: Comparison, path: str | Path, *, title: str) -> Path:
    """Draws the test metric of every run next to the learning curves, with the best model on top.

    Example:
        >>> import tempfile
        >>> from chronode.search._compare import Comparison, Result
        >>> runs = [Result("gru", seed, "", "accuracy", {"accuracy": 0.5}, (0.4, 0.6)) for seed in range(2)]
        >>> plot_comparison(Comparison.of(runs), Path(tempfile.mkdtemp()) / "two.png", title="two").name
        'two.png'
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows = [row for row in comparison.rows if row.results]
    path = Path(path)
    figure = Figure(figsize=(10.5, max(3.8, 1.6 + 0.32 * len(rows))), dpi=130, layout="constrained")
    figure.suptitle(title)
    scores, curves = figure.subplots(1, 2)
    for index, row in enumerate(rows):
        colour = COLOURS[index % len(COLOURS)]
        _draw_scores(scores, row, comparison.metric, index, colour)
        # Colours repeat after eight models, with another line style.
        _draw_curve(curves, row, colour, ("-", "--", ":", "-.")[index // len(COLOURS) % 4])
    if comparison.baseline is not None:
        name, value = comparison.baseline
        scores.axvline(value, color="0.5", ls=":", lw=1.5, label=name)
        scores.legend(frameon=False)
    scores.set_yticks(range(len(rows)), [row.model for row in rows])
    scores.invert_yaxis()
    scores.set_xlabel(f"test {comparison.metric}")
    scores.set_title("dots: runs; bars: mean ± standard deviation", fontsize=9)
    curves.set_xlabel("epoch")
    curves.xaxis.set_major_locator(MaxNLocator(integer=True))
    curves.set_ylabel(f"validation {comparison.metric}")
    curves.set_title("mean over seeds; shaded: minimum to maximum", fontsize=9)
    curves.legend(frameon=False, fontsize=8, ncols=1 + len(rows) // 10)
    for axes in (scores, curves):
        axes.grid(alpha=0.3)
    with replacing(path) as draft:
        figure.savefig(draft, format="png")
    return path


def _draw_scores(axes: Axes, row: Row, metric: str, place: int, colour: str) -> None:
    values, (mean, spread) = row.values(metric), row.score(metric)
    assert mean is not None
    axes.scatter(values, [place] * len(values), s=22, color=colour, alpha=0.45, edgecolors="none")
    axes.errorbar([mean], [place], xerr=[spread or 0.0], fmt="|", ms=14, color=colour, lw=2, capsize=4)


def _draw_curve(axes: Axes, row: Row, colour: str, style: str) -> None:
    """Draws a curve; runs that stopped early are included while they last."""
    longest = max(len(one.curve) for one in row.results)
    table = np.full((len(row.results), longest), np.nan)
    for line, one in zip(table, row.results, strict=True):
        line[: len(one.curve)] = [np.nan if value is None else value for value in one.curve]
    kept = ~np.isnan(table).all(axis=0)
    epochs, table = np.arange(1, longest + 1)[kept], table[:, kept]
    if not len(epochs):
        return
    marker = "o" if len(epochs) <= 40 else None
    axes.plot(epochs, np.nanmean(table, axis=0), color=colour, ls=style, lw=2, marker=marker, ms=3, label=row.model)
    axes.fill_between(epochs, np.nanmin(table, axis=0), np.nanmax(table, axis=0), color=colour, alpha=0.15, lw=0)
