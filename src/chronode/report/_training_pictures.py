"""Learning curves as SVG, for reports and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .pages import Plot, figure, span
from .pages._colours import COLOURS


def learning_pictures(rows: Sequence[Mapping[str, Any]], metric: str, best_epoch: int | None) -> list[str]:
    """Returns the losses over epochs, and the validation metric if it is not the loss.

    Example:
        >>> rows = [{"epoch": 1, "loss": 0.9, "valid_loss": 0.8}, {"epoch": 2, "loss": 0.5, "valid_loss": None}]
        >>> len(learning_pictures(rows, "loss", 2)), len(learning_pictures([], "loss", None))
        (1, 0)
    """
    epochs = [float(row["epoch"]) for row in rows]

    def column(key: str) -> NDArray[np.float64]:
        found = [row.get(key) for row in rows]
        return np.array([np.nan if value is None else float(value) for value in found])

    panels = {"Loss": {"training": column("loss"), "validation": column("valid_loss")}}
    if metric not in ("", "loss", "valid_loss"):
        panels[f"Validation {metric}"] = {"": column(metric)}
    pictures: list[str] = []
    for title, lines in panels.items():
        if not any(np.isfinite(values).any() for values in lines.values()):
            continue
        plot = Plot(span(epochs, room=0.02), span(*lines.values()), title=title, xlabel="epoch", whole=True)
        for place, (name, values) in enumerate(lines.items()):
            colour = COLOURS[place] if name else COLOURS[2]
            plot.line(epochs, values, colour=colour, name=name, dots=len(epochs) <= 40)
        if best_epoch:
            plot.upright(float(best_epoch), name=f"best epoch ({best_epoch})")
        pictures.append(figure(plot))
    return pictures
