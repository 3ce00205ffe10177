"""What the plots of the analyses share: sizes, fonts, colours, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._files import replacing
from ..report.curves import COLOURS

DASHES = ("-", "--", ":", "-.")


def colour(index: int) -> str:
    """The colour of the index-th thing; told apart by colour-blind readers too."""
    return COLOURS[index % len(COLOURS)]


def panels(count: int = 1, *, width: float = 4.6, height: float = 3.6) -> tuple[Any, list[Any]]:
    """A figure and its axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.0, width * count), height), dpi=110, layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def label(axes: Any, x: str, y: str, title: str = "", *, legend: bool = True) -> None:
    """Names the axes (with units) and shows the legend, if anything has a name."""
    axes.set_xlabel(x, fontsize=11)
    axes.set_ylabel(y, fontsize=11)
    axes.set_title(title, fontsize=11)
    axes.tick_params(labelsize=10)
    axes.grid(alpha=0.3)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9.5)


def save(figure: Any, path: str | Path) -> Path:
    """Writes the figure as PNG."""
    path = Path(path)
    with replacing(path) as draft:
        figure.savefig(draft, format="png")
    return path
