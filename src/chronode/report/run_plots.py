"""Plots of one run: how it learned, what it confuses, how far off it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._colours import COLOURS
from .._files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: dict[str, dict[str, Any]] = {
    "training": {"color": COLOURS[0], "ls": "-"},
    "validation": {"color": COLOURS[1], "ls": "--"},
}


def plot_history(
    history_rows: Sequence[Mapping[str, Any]],
    path: str | Path,
    *,
    metric: str | None = None,
    best_epoch: int | None = None,
    title: str = "Learning curves",
) -> Path:
    """Draws the losses and a metric over epochs, with the best epoch marked.

    Args:
        history_rows: one row per epoch with "epoch", "loss" (in training), "valid_loss" and the metric; values may
            be missing, None or NaN.
        path: the PNG file.
        metric: its key in the rows; without one, or if it is the loss, there is only the panel of losses.
        best_epoch: is marked in both panels.
        title: over both.
    """
    both = metric not in (None, "loss", "valid_loss")
    figure = _figure(9 if both else 5.5, 3.8, title)
    panels = figure.subplots(1, 2 if both else 1, squeeze=False)[0]
    _draw_lines(panels[0], history_rows, {"loss": "training", "valid_loss": "validation"}, best_epoch)
    panels[0].set_ylabel("loss")
    if both:
        _draw_lines(panels[1], history_rows, {str(metric): "validation"}, best_epoch)
        panels[1].set_ylabel(metric)
    return _save(figure, path)


def plot_confusion(
    matrix: ArrayLike, classes: Sequence[str], path: str | Path, *, title: str = "Confusion matrix"
) -> Path:
    """Draws how often each true class (row) was taken for each class (column).

    Colours show the share of the row, so that rare classes are seen as well as frequent ones.

    Args:
        matrix: counts (K, K), true classes down, predicted ones across.
        classes: K names.
        path: the PNG file.
        title: over the plot.
    """
    counts = np.asarray(matrix)
    size = len(classes)
    if counts.shape != (size, size):
        raise ValueError(f"matrix has the shape {counts.shape}, but there are {size} classes: give ({size}, {size}).")
    rows = counts.sum(axis=1, keepdims=True)
    share = counts / np.maximum(rows, 1)
    right = np.trace(counts) / max(counts.sum(), 1)
    side = min(3.6 + 0.36 * size, 15)
    figure = _figure(side + 0.9, side, f"{title}: {right:.1%} of {counts.sum()} right")
    axes = figure.subplots()
    image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    names = [_short(name) for name in classes]
    upright = size <= 12 and max(map(len, names), default=0) <= 4
    axes.set_xticks(range(size), names, rotation=0 if upright else 90)
    axes.set_yticks(range(size), names)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if size <= 40:
        _write_counts(axes, counts, share)
    figure.colorbar(image, ax=axes, fraction=0.046, label="share of the true class")
    return _save(figure, path)


def plot_residuals(
    predicted: ArrayLike,
    true: ArrayLike,
    names: Sequence[str],
    path: str | Path,
    unit: str = "",
    *,
    title: str = "Predictions and residuals",
) -> Path:
    """Draws predicted over true values and a histogram of their differences, one row of panels per target.

    Args:
        predicted: (N,) or (..., K); pairs with a NaN are left out.
        true: of the same shape.
        names: of the K targets.
        path: the PNG file.
        unit: of the targets, for the axes.
        title: over all.
    """
    guess, truth = (np.asarray(values, dtype=np.float64) for values in (predicted, true))
    if guess.shape != truth.shape:
        raise ValueError(f"predicted has the shape {guess.shape}, true {truth.shape}: they must be the same.")
    if guess.size % len(names) or (len(names) > 1 and guess.shape[-1] != len(names)):
        raise ValueError(f"names has {len(names)} targets, but the last axis of predicted is {guess.shape[-1]}.")
    guess, truth = guess.reshape(-1, len(names)), truth.reshape(-1, len(names))
    figure = _figure(9, 0.6 + 3.6 * len(names), title)
    panels = figure.subplots(len(names), 2, squeeze=False)
    for (scatter, histogram), name, ours, theirs in zip(panels, names, guess.T, truth.T, strict=True):
        known = np.isfinite(ours) & np.isfinite(theirs)
        label = f"{name} ({unit})" if unit else name
        _draw_scatter(scatter, ours[known], theirs[known], label)
        _draw_histogram(histogram, ours[known] - theirs[known], label)
    return _save(figure, path)


def _figure(width: float, height: float, title: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    figure.suptitle(title)
    return figure


def _save(figure: Figure, path: str | Path) -> Path:
    path = Path(path)
    with replacing(path) as draft:
        figure.savefig(draft, format="png")
    return path


def _draw_lines(
    axes: Axes, rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], best_epoch: int | None
) -> None:
    """One line per key that any row has; gaps where a value is missing or not finite."""
    from matplotlib.ticker import MaxNLocator

    epochs = [row["epoch"] for row in rows]
    marker = "o" if len(rows) <= 40 else None
    for key, label in labels.items():
        values = [np.nan if (value := row.get(key)) is None else float(value) for row in rows]
        if np.isfinite(values).any():
            axes.plot(epochs, values, lw=2, marker=marker, ms=3, label=label, **_STYLES[label])
    if best_epoch is not None:
        axes.axvline(best_epoch, color="0.4", ls=":", lw=1.5, label=f"best epoch ({best_epoch})")
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)


def _write_counts(axes: Axes, counts: NDArray[Any], share: NDArray[Any]) -> None:
    size = 9 if len(counts) <= 12 else 7 if len(counts) <= 24 else 6
    for row, column in zip(*np.nonzero(counts), strict=True):
        colour = "white" if share[row, column] > 0.5 else "black"
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=size, color=colour)


def _short(name: str) -> str:
    """Long names lose their middle: names of one family differ at the end more often than there."""
    return name if len(name) <= 22 else f"{name[:11]}…{name[-10:]}"


def _draw_scatter(axes: Axes, guess: NDArray[Any], truth: NDArray[Any], label: str) -> None:
    # Many points hide each other; fainter ones show where they lie dense.
    faint = float(np.clip(200 / max(len(guess), 1), 0.05, 0.7))
    axes.scatter(truth, guess, s=12, color=COLOURS[0], alpha=faint, edgecolors="none")
    if len(truth):
        ends = [min(truth.min(), guess.min()), max(truth.max(), guess.max())]
        axes.plot(ends, ends, color="0.4", ls=":", lw=1.5, label="predicted = true")
        axes.legend(frameon=False, loc="upper left")
    axes.set_xlabel(f"true {label}")
    axes.set_ylabel(f"predicted {label}")
    axes.grid(alpha=0.3)


def _draw_histogram(axes: Axes, residuals: NDArray[Any], label: str) -> None:
    if len(residuals):
        bins = min(60, max(10, round(len(residuals) ** 0.5))) | 1  # odd, so that the middle is no edge
        low, high, size = residuals.min(), residuals.max(), np.abs(residuals).max()
        # Residuals that are all the same up to rounding would be one bar too thin to see.
        room = 0.0 if high - low > 1e-6 * size else 0.5 * (size or 1.0)
        axes.hist(residuals, bins=bins, range=(low - room, high + room), color=COLOURS[1], alpha=0.8)
        mean, rmse = residuals.mean(), np.sqrt((residuals**2).mean())
        axes.set_title(f"mean {mean:.3g}, RMSE {rmse:.3g}, n = {len(residuals)}", fontsize=10)
    axes.axvline(0, color="0.4", ls=":", lw=1.5)
    axes.set_xlabel(f"predicted − true {label}")
    axes.set_ylabel("count")
    axes.set_axisbelow(True)
    axes.grid(alpha=0.3)
