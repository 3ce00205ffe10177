"""Plots of series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Sequences
from ..storage import replacing
from ._data_pictures import FEW_CHANNELS, different_rows, target_text
from .pages._colors import COLORS


def plot_series(s: Sequences, path: Path, *, title: str, count: int = 3) -> Path:
    """Draws the first `count` series with different targets: lines over time, or an image for many channels.

    Example:
        >>> import tempfile
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0, 2.0]])
        >>> plot_series(s, Path(tempfile.mkdtemp()) / "two.png", title="two").name
        'two.png'
    """
    from matplotlib.figure import Figure

    rows = different_rows(s, count)
    figure = Figure(figsize=(8, 1.2 + 1.9 * len(rows)), dpi=110, layout="constrained")
    figure.suptitle(title, fontsize=11, wrap=True)
    for axes, row in zip(np.atleast_1d(figure.subplots(len(rows), 1)), rows, strict=True):
        _draw(axes, s, row)
    axes.set_xlabel("step" if s.base_times is None else f"time ({s.clock.unit_text()})")
    with replacing(path) as draft:
        figure.savefig(draft, format="png")
    return path


def _draw(axes: Any, s: Sequences, row: int) -> None:
    batch = s.batch([row])
    x = batch.x[0].numpy().astype(float)
    if batch.observed is not None:
        x[~batch.observed[0].numpy()] = np.nan
    series = s[row]
    finished = len(x) != len(series.times)  # `Sequences.finish` made it longer
    times = np.arange(len(x)) if finished else series.times
    if x.shape[1] > FEW_CHANNELS:
        _image(axes, x, times)
    else:
        _lines(axes, s, x, times)
    axes.set_title(f"series {series.id}{target_text(s, row)}", fontsize=9, loc="left")


def _image(axes: Any, x: NDArray[Any], times: NDArray[Any]) -> None:
    low, high = np.nanpercentile(x, [2, 98])
    extent = (float(times[0]), float(times[-1]) + (times[0] == times[-1]), x.shape[1] - 0.5, -0.5)
    axes.imshow(x.T, aspect="auto", interpolation="nearest", cmap="cividis", vmin=low, vmax=high, extent=extent)
    axes.set_ylabel("channel")


def _lines(axes: Any, s: Sequences, x: NDArray[Any], times: NDArray[Any]) -> None:
    marker = "." if len(x) <= 200 else None
    # Values are held between events, so lines are steps; dense samples look the same either way.
    for channel in range(x.shape[1]):
        seen = ~np.isnan(x[:, channel])
        name, color = s.channels[channel], COLORS[channel % len(COLORS)]
        axes.plot(
            times[seen], x[seen, channel], color=color, lw=1, marker=marker, ms=4, label=name, drawstyle="steps-post"
        )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=min(4, x.shape[1]), frameon=False, loc="upper right")
