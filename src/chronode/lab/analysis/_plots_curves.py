"""Plots of learning curves and of speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ._learning import LearningCurves
from ._plots import color, finish, panels, save
from ._speed import Speed


def plot_learning(found: Sequence[LearningCurves], path: str | Path) -> Path:
    """Draws the training loss over steps, one panel per task (iRNN Fig. 4): a running mean over a fiftieth of the
    steps.

    The dotted line is the loss of always predicting the mean.

    Example:
        >>> import tempfile
        >>> found = [LearningCurves("adding", {"length": 10}, ("gru",), np.array([[0.3, 0.2, 0.1]]), 1 / 6)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_learning(found, f"{folder}/learning.png").name
        'learning.png'
    """
    figure, (axes,) = panels(len(found), width=max(6.4, 4.4 * len(found)), height=3.8)
    for index, (each, curves) in enumerate(zip(axes, found, strict=True)):
        for place, (name, losses) in enumerate(zip(curves.models, curves.losses, strict=True)):
            window = max(1, len(losses) // 50)
            smooth = np.convolve(losses, np.ones(window) / window, "valid")
            each.plot(np.arange(window, len(losses) + 1), smooth, color=color(place), lw=1.5, label=name)
        if curves.naive is not None:
            each.axhline(curves.naive, color="0.4", ls=":", lw=1.5, label="naive")
        length = curves.options.get("length")
        title = curves.task if length is None else f"{curves.task}, length {length}"
        finish(each, "training step", "loss", title, legend=index == 0)
    return save(figure, path)


def plot_speed(found: Speed, path: str | Path) -> Path:
    """Draws the time of forward and backward over the length, one line per model (UnICORNN Fig. 2).

    Example:
        >>> import tempfile
        >>> found = Speed(("unicornn", "sru"), (10, 20), 2, 4, np.array([[0.01, 0.02], [0.01, 0.03]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_speed(found, f"{folder}/speed.png").name
        'speed.png'
    """
    figure, ((axes,),) = panels()
    for index, (name, seconds) in enumerate(zip(found.models, found.seconds, strict=True)):
        axes.loglog(found.lengths, 1e3 * seconds, color=color(index), marker="o", lw=2, label=name)
    axes.set_xticks(found.lengths, [str(length) for length in found.lengths])
    axes.minorticks_off()
    title = f"Batch of {found.batch}, {found.hidden_size} units"
    finish(axes, "length T (steps)", "forward + backward (ms)", title, legend=True)
    return save(figure, path)
