"""Small SVG pictures of series: what they look like, their gaps, missing values and targets."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data import UNKNOWN, percent
from ._time_axis import TimeAxis, series_name, time_axis
from .pages import COLORS, Plot, bar_chart, heat_map, number, page, piece, span, write_page
from .pages import figure as framed
from .pages import grid as beside
from .pages import table as html_table

if TYPE_CHECKING:
    from ..data import Sequences

FEW_CHANNELS = 8
_MOST_BARS = 12
_MOST_NUMBERS = 3
_MOST_COLUMNS = 120
_MOST_STEPS = 200_000
"""Steps that histograms are made of, about."""
_LONGEST = 2_000
"""Steps of a series that are drawn; a longer one is cut after them."""


def different_rows(s: Sequences, count: int) -> list[int]:
    """Series of different classes or groups first, then some of the others.

    Example:
        >>> from chronode.data import from_list
        >>> different_rows(from_list([[1.0]] * 4, target=["a", "a", "b", "b"]), 3)
        [0, 2, 1]
    """
    target = s.target
    by_class = target is not None and not target.per_step and target.classes is not None
    _, first = np.unique(target.values if target is not None and by_class else s.groups, return_index=True)
    first = np.sort(first)[:count]
    # Evenly over the rest: neighbors may be windows of one series.
    rest = np.setdiff1d(np.linspace(0, len(s) - 1, 2 * count).round().astype(int), first) if len(s) else first
    return [*first.tolist(), *rest.tolist()][:count]


def target_text(s: Sequences, row: int) -> str:
    """The target of a series in words: ", outcome: ill"; nothing if every step has one."""
    if s.target is None or s.target.per_step:
        return ""
    if s.target.levels:
        return "".join(target_text(part, row) for part in s.by_target)
    value = s.target.values[row]
    if s.target.classes is not None:
        return f", {s.target.names[0]}: {s.target.classes[int(value)] if int(value) != UNKNOWN else 'unknown'}"
    if len(value) > _MOST_NUMBERS:  # such as the steps of a forecast
        return ""
    return "".join(f", {name}: {number(float(one))}" for name, one in zip(s.target.names, value, strict=True))


def series_picture(s: Sequences, row: int, *, title: str | None = None, height: int = 170) -> Any:
    """One series over time: a line per channel, or a field of colors if there are many."""
    batch = s.batch([row])
    length = int(batch.lengths[0])
    x = batch.x[0, :length].numpy().astype(np.float64).reshape(length, -1)
    if batch.observed is not None:
        x[~batch.observed[0, :length].numpy()] = np.nan
    times = s[row].times if len(s[row].times) == length else np.arange(length, dtype=float)
    x, times = x[:_LONGEST], times[:_LONGEST]
    name = f"{series_name(s.ids[row])}{target_text(s, row)}" if title is None else title
    axis = time_axis(s, float(times[0]), float(times[-1])) if length else TimeAxis("step", None)
    if x.shape[1] > FEW_CHANNELS:
        return _many_channels(x, times, s.channels, name, axis)
    drawn = [channel for channel in range(x.shape[1]) if np.isfinite(x[:, channel]).any()]
    if not drawn:
        return piece(f"<b>{escape(name)}</b>", "<p>All values are missing.</p>")
    if len(drawn) < x.shape[1]:
        name += (
            f" (no values: {', '.join(s.channels[channel] for channel in range(x.shape[1]) if channel not in drawn)})"
        )
    across = span(times, room=0.01)
    if len(drawn) > 1 and not _same_scale(x):
        return _strips(x, times, {channel: s.channels[channel] for channel in drawn}, name, axis, across)
    plot = Plot(across, span(x), title=name, xlabel=axis.label, height=height, marks=axis.marks)
    for channel in drawn:
        _draw_channel(plot, times, x[:, channel], channel, s.channels[channel] if x.shape[1] > 1 else "")
    return plot


def write_series_page(s: Sequences, path: Path, *, title: str, count: int = 3) -> Path:
    """Writes a page with the first `count` series with different targets.

    Example:
        >>> import tempfile
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0, 2.0]])
        >>> write_series_page(s, Path(tempfile.mkdtemp()) / "two.html", title="two").name
        'two.html'
    """
    rows = different_rows(s, count)
    cut = f"The first {_LONGEST:,} steps." if max(len(s[row].times) for row in rows) > _LONGEST else ""
    return write_page(path, page(title, cut, {"Series": [framed(series_picture(s, row)) for row in rows]}))


def _draw_channel(plot: Plot, times: NDArray[Any], values: NDArray[Any], channel: int, name: str = "") -> None:
    finite = np.isfinite(values)
    color = COLORS[channel % len(COLORS)]
    plot.line(times[finite], values[finite], color=color, name=name, dots=len(times) <= 80, width=1.4)


def _same_scale(x: NDArray[Any]) -> bool:
    """Whether one axis shows every channel well: each fills at least a quarter of it."""
    columns = [column[np.isfinite(column)] for column in x.T]
    sizes = [np.ptp(column) for column in columns if len(column)]
    every = x[np.isfinite(x)]
    return not sizes or min(sizes) >= 0.25 * np.ptp(every)


def _strips(
    x: NDArray[Any], times: NDArray[Any], names: dict[int, str], title: str, axis: TimeAxis, across: tuple[float, float]
) -> str:
    """A strip per channel, one below the other, each with its own scale."""
    strips, left, last = [], 0.0, len(names) - 1
    for _ in range(2):  # the second time, all with the room that the widest numbers need
        strips = [
            Plot(
                across,
                span(x[:, channel]),
                title=title if row == 0 else "",
                ylabel=name,
                xlabel=axis.label if row == last else "",
                height=(78 if row < last else 108) + 17 * (row == 0),
                bare=row < last,
                left=left,
                marks=axis.marks,
            )
            for row, (channel, name) in enumerate(names.items())
        ]
        left = max(strip.left for strip in strips)
    for channel, strip in zip(names, strips, strict=True):
        _draw_channel(strip, times, x[:, channel], channel)
    return "".join(map(str, strips))


def _many_channels(x: NDArray[Any], times: NDArray[Any], names: tuple[str, ...], title: str, axis: TimeAxis) -> str:
    """Channels by time in standard deviations from each channel's mean."""
    finite = np.isfinite(x)
    count = np.maximum(finite.sum(0), 1)
    mean = np.where(finite, x, 0).sum(0) / count
    spread = np.sqrt(np.where(finite, (x - mean) ** 2, 0).sum(0) / count)
    field, edges = binned((x - mean) / np.where(spread > 0, spread, 1), times)
    most = 40
    short = [*names[:most], *([f"{len(names) - most} more not drawn"] if len(names) > most else [])]
    shown = np.vstack([field.T[:most], *([np.full((1, len(field)), np.nan)] if len(names) > most else [])])
    return heat_map(
        shown,
        short,
        (),
        title=title,
        xlabel=axis.label,
        edges=edges,
        tall=12,
        shares=np.clip(shown / 3, -1, 1),
        ends=("−3", "3 standard deviations from the mean"),
        marks=axis.marks or (),
    )


def binned(x: NDArray[Any], times: NDArray[Any], *, total: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
    """`(columns, D)` means (or sums) over stretches of time, few enough to be drawn, and the stretches' edges."""
    columns = min(len(x), _MOST_COLUMNS)
    first = np.array([part[0] for part in np.array_split(np.arange(len(x)), columns)])
    finite = np.isfinite(x)
    sums = np.add.reduceat(np.where(finite, x, 0), first, axis=0)
    count = np.add.reduceat(finite.astype(int), first, axis=0)
    starts = times[first].astype(np.float64)
    last = float(times[-1]) + (float(times[-1] - times[0]) / max(len(times) - 1, 1) or 1.0)
    field = sums if total else sums / np.maximum(count, 1)
    return np.where(count > 0, field, np.nan), np.append(starts, max(last, starts[-1]))


def gap_picture(s: Sequences) -> Plot | None:
    """A histogram of the times between observations; None if there are no times or all gaps are equal."""
    if s.base_times is None:
        return None
    gaps = s.dt[s.dt > 0]
    if not len(gaps) or np.ptp(gaps) <= 1e-6 * gaps.max():
        return None
    unit = s.clock.unit_text()
    if unit.endswith("given numbers"):
        gaps, unit = gaps * s.clock.scale, "the given numbers"
    low, high = float(gaps.min()), float(gaps.max())
    log = high > 50 * low
    values = np.log10(gaps) if log else gaps
    counts, edges = np.histogram(values, bins=min(40, max(8, round(len(gaps) ** 0.4))))
    near = low > 0.8 * high  # gaps that differ by little, such as those of months
    ends = (math.log10(low), math.log10(high)) if log else (low if near else 0.0, high)
    label = f"time between observations ({unit})"
    plot = Plot(ends, (0, 1.05 * counts.max()), title="Gaps", xlabel=label, ylabel="count", log=log, height=190)
    plot.bars(edges, counts, color=COLORS[2])
    return plot


def missing_picture(s: Sequences) -> str | None:
    """Bars of the share of missing values, the channels with most of them first; None if nothing is missing."""
    if not s.has_missing:
        return None
    shares = np.isnan(s.values).mean(0)
    order = np.argsort(-shares, kind="stable")[: min(_MOST_BARS, int((shares > 0).sum()))]
    title = "Missing values" + (f" in {len(order)} of {len(shares)} channels" if len(order) < len(shares) else "")
    names, values = [s.channels[channel] for channel in order], shares[order].tolist()
    return bar_chart(names, values, list(map(percent, values)), title=title, full=1.0, color=COLORS[1])


def target_picture(s: Sequences) -> Any:
    """Bars of the classes, or a histogram of a number; None if there is no target, or several numbers."""
    if s.target is None:
        return None
    values = s.target.values[s.steps] if s.target.per_step else s.target.values
    name = s.target.names[0]
    if s.target.classes is not None:
        counts = np.bincount(values[values != UNKNOWN], minlength=len(s.target.classes))
        order = np.argsort(-counts, kind="stable")[:_MOST_BARS] if len(counts) > _MOST_BARS else np.arange(len(counts))
        total = max(int(counts.sum()), 1)
        texts = [f"{counts[label]:,} ({percent(counts[label] / total)})" for label in order]
        title = f"{name}: {len(counts)} classes"
        return bar_chart([s.target.classes[label] for label in order], counts[order].tolist(), texts, title=title)
    numbers = values[:, 0][np.isfinite(values[:, 0])]
    if values.shape[1] > 1 or not len(numbers):
        return None
    counts, edges = np.histogram(numbers, bins=min(40, max(8, round(len(numbers) ** 0.4))))
    plot = Plot((edges[0], edges[-1]), (0, 1.05 * counts.max()), title=name, ylabel="count", height=190)
    plot.bars(edges, counts)
    return plot


def pictures_of(s: Sequences, count: int = 2) -> list[str]:
    """Some series, then gaps, missing values and targets, where there is something to see."""
    drawn = [series_picture(s, row) for row in different_rows(s, count)]
    # Every n-th series of very many: histograms look the same, and windows may repeat a series a thousand times.
    some = s[:: max(1, int(s.lengths.sum()) // _MOST_STEPS)]
    facts = (gap_picture(some), missing_picture(some), *map(target_picture, some.by_target))
    return [framed(one) for one in (*drawn, *facts) if one is not None]


def as_html(s: Sequences) -> str:
    """Returns the notebook display of `Sequences`."""
    facts = s.describe()
    length = f"{facts.shortest:,}" if facts.shortest == facts.longest else f"{facts.shortest:,} to {facts.longest:,}"
    names = ", ".join(s.channels[:_MOST_BARS]) + (", ..." if len(s.channels) > _MOST_BARS else "")
    entries = {"series": facts.series, "steps per series": length, "channels": f"{len(s.channels)}: {names}"}
    entries |= {"median gap": facts.gap_text, "target": facts.target}
    rows = [(name, value) for name, value in entries.items() if value != ""]
    return piece(html_table(("Sequences", ""), rows), beside(*pictures_of(s, 1)) if len(s) else "")
