"""Shared code of the plots of analyses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...report.pages import COLORS
from ...storage import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def panels(columns: int = 1, *, rows: int = 1, width: float = 6.4, height: float = 4.0) -> tuple[Figure, Any]:
    """Creates a figure with a grid of axes, `axes[row, column]`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def color(index: int) -> str:
    """Returns the color of the index-th item."""
    return COLORS[index % len(COLORS)]


def finish(axes: Any, xlabel: str, ylabel: str, title: str, *, legend: bool = False) -> None:
    """Adds labels, a title and a light grid."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.3)
    if legend:
        axes.legend(frameon=False, fontsize=9)


def save(figure: Figure, path: str | Path) -> Path:
    """Writes the PNG file atomically."""
    path = Path(path)
    with replacing(path) as draft:
        figure.savefig(draft, format="png")
    return path
