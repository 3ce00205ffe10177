"""Plot of a search: the history of the trials and the importance of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._colours import COLOURS
from .._files import replacing
from ..training._metrics import LOWER_IS_BETTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..search._study import Trial


def plot_search(
    trials: Sequence[Trial], metric: str, importances: Mapping[str, float], path: str | Path, *, title: str
) -> Path:
    """Draws the validation metric of every trial and the best so far, with the importances, if any, next to it."""
    from matplotlib.figure import Figure

    path = Path(path)
    figure = Figure(figsize=(10.5 if importances else 6, 3.8), dpi=130, layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(1, 2 if importances else 1, squeeze=False)[0]
    _draw_history(panels[0], trials, metric)
    if importances:
        names = sorted(importances, key=importances.__getitem__)
        panels[1].barh(names, [importances[name] for name in names], color=COLOURS[2])
        panels[1].set_xlabel("importance (sum 1)")
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
    with replacing(path) as draft:
        figure.savefig(draft, format="png")
    return path


def _draw_history(axes: Axes, trials: Sequence[Trial], metric: str) -> None:
    from matplotlib.ticker import MaxNLocator

    done = [(trial.number, trial.value) for trial in trials if trial.value is not None]
    numbers, values = [number for number, _ in done], [value for _, value in done]
    best = np.minimum.accumulate if metric in LOWER_IS_BETTER else np.maximum.accumulate
    axes.scatter(numbers, values, s=22, color=COLOURS[0], label="complete")
    axes.step(numbers, best(values), where="post", color=COLOURS[1], lw=2, label="best so far")
    pruned = [trial.number for trial in trials if trial.state == "pruned"]
    if pruned:
        bottom = axes.get_xaxis_transform()
        axes.scatter(pruned, [0.02] * len(pruned), s=22, color="0.5", marker="x", transform=bottom, label="pruned")
    axes.set_xlim(-0.5, len(trials) - 0.5)
    axes.set_xlabel("trial")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(f"validation {metric}")
    axes.legend(frameon=False)
