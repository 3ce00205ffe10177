"""Bar charts, dot charts and heat maps as SVG text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._marks import COLORS, number, put, shortened, span, svg, text_width, ticks
from ._plot import GRAY, GRID


def bar_chart(
    names: Sequence[str],
    values: Sequence[float],
    texts: Sequence[str],
    *,
    title: str = "",
    full: float | None = None,
    color: str = COLORS[0],
    width: int = 440,
) -> str:
    """Draws horizontal bars with a name on the left and a text on the right.

    Args:
        names: Names of the bars.
        values: Lengths of the bars, 0 or more.
        texts: Texts after the bars.
        title: Text above the chart.
        full: The value of a bar of full length; the largest value by default.
        color: Color of the bars.
        width: Width of the drawing.

    Example:
        >>> "61%" in bar_chart(["hr"], [0.61], ["61%"], full=1.0)
        True
    """
    shown = [shortened(name, 24) for name in names]
    left = 10 + max(map(text_width, shown), default=0)
    right = 10 + max(map(text_width, texts), default=0)
    room, top = width - left - right, 10 + 17 * bool(title)
    most = full or max([*values, 0.0]) or 1.0
    body = [put(0, 14, title, color="#111827", bold=True)] if title else []
    for row, (name, value, text) in enumerate(zip(shown, values, texts, strict=True)):
        y, size = top + 20 * row, max(0.0, min(value / most, 1.0)) * room
        body.append(put(left - 6, y + 12, name, anchor="end", whole=names[row]))
        body.append(f'<rect x="{left}" y="{y + 2}" width="{room}" height="13" fill="#f3f4f6"/>')
        body.append(f'<rect x="{left}" y="{y + 2}" width="{size:.1f}" height="13" fill="{color}"/>')
        body.append(put(width - right + 6, y + 12, text))
    return svg(width, top + 20 * len(shown) + 4, "".join(body), title)


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


def shade(share: float, color: str) -> str:
    """Returns a color between white (0) and `color` (1).

    Example:
        >>> shade(0.0, "#0072B2"), shade(1.0, "#0072B2"), shade(0.5, "#000000")
        ('#ffffff', '#0072b2', '#808080')
    """
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    parts = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)


def heat_map(
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    xlabel: str = "",
    edges: ArrayLike | None = None,
    texts: Any = None,
    width: int = 440,
    tall: int = 18,
    shares: ArrayLike | None = None,
) -> str:
    """Draws a heat map: blue above 0, orange below.

    Args:
        values: `(rows, columns)`; NaN is white.
        rows: Names on the left.
        columns: Names below, () for none; names without room are left out.
        title: Text above the map.
        xlabel: Text below the map.
        edges: Edges of the columns, one more than there are columns, if they are not equally wide.
        texts: Texts in the fields.
        width: Width of the drawing.
        tall: Height of a row.
        shares: Intensity of the color, -1 to 1; by default `values` divided by the largest absolute value.

    Example:
        >>> heat_map([[1.0, -1.0]], ["hr"], ["a", "b"]).count("<rect")
        2
    """
    table = np.asarray(values, dtype=np.float64)
    sizes = np.abs(table[np.isfinite(table)])
    colors = table / (sizes.max(initial=0.0) or 1.0) if shares is None else np.asarray(shares, dtype=np.float64)
    names = [shortened(name, 18) for name in rows]
    left, top = 10 + max(map(text_width, names), default=0), 8 + 17 * bool(title)
    sides = np.arange(table.shape[1] + 1) if edges is None else np.asarray(edges, dtype=np.float64)
    sides = left + (sides - sides[0]) / ((sides[-1] - sides[0]) or 1) * (width - left - 2)
    floor = top + tall * len(names)
    body = [put(0, 14, title, color="#111827", bold=True)] if title else []
    for index, name in enumerate(names):
        body.append(put(left - 6, top + tall * (index + 0.5) + 4, name, anchor="end", whole=rows[index]))
    for (row, column), value in np.ndenumerate(table):
        share = colors[row, column]
        if math.isfinite(value) and (abs(share) > 1e-3 or texts is not None):
            body.append(_field(sides, row, column, share, value, top, tall, texts))
    body.append(f'<path d="M{left} {top}H{width - 2}V{floor}H{left}Z" fill="none" stroke="{GRID}"/>')
    below, depth = _column_names(columns, sides, floor)
    if xlabel:
        below.append(put((left + width) / 2, floor + depth + 14, xlabel, anchor="middle"))
    return svg(width, floor + depth + (20 if xlabel else 4), "".join([*body, *below]), title)


def _field(
    sides: NDArray[np.float64], row: int, column: int, share: float, value: float, top: float, tall: int, texts: Any
) -> str:
    left, size, y = sides[column], sides[column + 1] - sides[column], top + tall * row
    color = shade(abs(share), COLORS[0] if share >= 0 else COLORS[1])
    box = f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(size, 0.6):.1f}" height="{tall}" fill="{color}">'
    written = "" if texts is None else str(texts[row][column])
    box += f"<title>{escape(written or number(value))}</title></rect>"
    if not written or text_width(written) > size:
        return box
    ink = "#ffffff" if abs(share) > 0.55 else "#111827"
    return box + put(left + size / 2, y + tall / 2 + 4, written, anchor="middle", color=ink)


def _column_names(columns: Sequence[str], sides: NDArray[np.float64], floor: float) -> tuple[list[str], float]:
    """Returns the names below the columns and their height: horizontal if they fit, else vertical, else a subset."""
    if not columns:
        return [], 0.0
    names, room = [shortened(name, 18) for name in columns], float(np.diff(sides).min())
    middles = (sides[:-1] + sides[1:]) / 2
    if max(map(text_width, names)) < room - 4:
        level = [put(at, floor + 14, name, anchor="middle") for at, name in zip(middles, names, strict=True)]
        return level, 18.0
    skip = max(1, math.ceil(12 / room))
    turned = [
        f'<g transform="translate({at + 4:.1f} {floor + 6:.1f}) rotate(-90)">{put(0, 0, name, anchor="end")}</g>'
        for at, name in list(zip(middles, names, strict=True))[::skip]
    ]
    return turned, 10.0 + max(map(text_width, names))
