"""Dot charts: every run of every model, with mean and spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean, stdev

from ._colors import COLORS
from ._marks import number, put, shortened, span, svg, text_width, ticks
from ._plot import GRAY, GRID


def dot_chart(
    rows: Mapping[str, Sequence[float]],
    *,
    title: str = "",
    xlabel: str = "",
    lines: Mapping[str, float] | None = None,
    width: int = 440,
) -> str:
    """Draws a row of dots for every name, with a tick at the mean and a bar of one standard deviation to each side.

    Args:
        rows: The values by name.
        title: Text above the chart.
        xlabel: Text below the chart.
        lines: Values of dotted lines through all rows, by name.
        width: Width of the drawing.

    Example:
        >>> dot_chart({"gru": [0.5, 0.7], "ltc": [0.9]}).count("<circle")
        3
    """
    names = [shortened(name, 24) for name in rows]
    left, top = 10 + max(map(text_width, names), default=0), 10 + 17 * bool(title)
    floor = top + 22 * len(names)
    low, high = span([value for values in rows.values() for value in values], list((lines or {}).values()))

    def across(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - 12)

    body = [put(0, 14, title, color="#111827", bold=True)] if title else []
    for tick in ticks(low, high, most=5):
        body.append(f'<path d="M{across(tick):.1f} {top}V{floor}" stroke="{GRID}"/>')
        body.append(put(across(tick), floor + 15, number(tick), anchor="middle"))
    for value in (lines or {}).values():
        body.append(f'<path d="M{across(value):.1f} {top}V{floor}" stroke="{GRAY}" stroke-dasharray="3 3"/>')
    for index, (name, values) in enumerate(rows.items()):
        y, color = top + 22 * index + 11, COLORS[index % len(COLORS)]
        body.append(put(left - 6, y + 4, names[index], anchor="end", whole=name))
        if len(values) > 1:
            mean, half = fmean(values), stdev(values)
            ends = (across(max(mean - half, low)), across(min(mean + half, high)))
            body.append(f'<path d="M{ends[0]:.1f} {y}H{ends[1]:.1f}" stroke="{color}" stroke-width="2"/>')
            body.append(f'<path d="M{across(mean):.1f} {y - 7}v14" stroke="{color}" stroke-width="2"/>')
        for value in values:
            mark = f'<circle cx="{across(value):.1f}" cy="{y}" r="3.2" fill="{color}" fill-opacity="0.6">'
            body.append(f"{mark}<title>{escape(name)}: {number(value)}</title></circle>")
    below = floor + 20
    for text in (xlabel, *(f"dotted: {name} {number(value)}" for name, value in (lines or {}).items())):
        if text:
            below += 15
            body.append(put((left + width) / 2, below - 4, text, anchor="middle"))
    return svg(width, below, "".join(body), title)
