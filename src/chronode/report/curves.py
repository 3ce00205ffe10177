"""Learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..storage import replacing
from .pages._colors import COLORS


def plot_curves(
    curves: Mapping[str, Sequence[float]], path: Path, *, title: str, ylabel: str, chance: float | None = None
) -> Path:
    """Draws one line per model over epochs and writes a PNG file; `chance` is a dotted line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    for index, (name, values) in enumerate(curves.items()):
        color = COLORS[index % len(COLORS)]
        axes.plot(range(1, len(values) + 1), values, color=color, lw=2, marker="o", ms=3, label=name)
    if chance is not None:
        axes.axhline(chance, color="0.5", ls=":", lw=1.5, label="chance")
    axes.set_xlabel("epoch")
    axes.set_ylabel(ylabel)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    with replacing(path) as draft:
        figure.savefig(draft, format="png")
    return path
