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
from ._plot import GRAY, GRID, axis_ticks

_SWATCHES = 9
"""Colors in the legend of a heat map."""


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

    Example:
        >>> dot_chart({"gru": [0.5, 0.7], "ltc": [0.9]}).count("<circle")
        3
    """
    marks = lines or {}
    frame = _Rows(list(rows), [value for values in rows.values() for value in values], marks, title, width, height=22)
    low, high = frame.ends
    for index, (name, values) in enumerate(rows.items()):
        y, color = frame.name(index), COLORS[index % len(COLORS)]
        if len(values) > 1:
            mean, half = fmean(values), stdev(values)
            ends = (frame.across(max(mean - half, low)), frame.across(min(mean + half, high)))
            frame.body.append(f'<path d="M{ends[0]:.1f} {y}H{ends[1]:.1f}" stroke="{color}" stroke-width="2"/>')
            frame.body.append(f'<path d="M{frame.across(mean):.1f} {y - 7}v14" stroke="{color}" stroke-width="2"/>')
        for value in values:
            mark = f'<circle cx="{frame.across(value):.1f}" cy="{y}" r="3.2" fill="{color}" fill-opacity="0.6">'
            frame.body.append(f"{mark}<title>{escape(name)}: {number(value)}</title></circle>")
    return frame.drawn(xlabel)


def interval_chart(
    names: Sequence[str],
    values: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    title: str = "",
    xlabel: str = "",
    lines: Mapping[str, float] | None = None,
    width: int = 440,
) -> str:
    """Draws a dot with an interval for every name, and a line at 0.

    Example:
        >>> interval_chart(["hr", "age"], [0.2, 0.0], [0.1, -0.1], [0.3, 0.1]).count("<circle")
        2
    """
    table = np.array([np.asarray(column, dtype=np.float64) for column in (values, low, high)])
    frame = _Rows(names, table[np.isfinite(table)], {"": 0.0, **(lines or {})}, title, width, height=20)
    for index, name in enumerate(names):
        y, (middle, first, last) = frame.name(index), frame.across(table[:, index])
        if math.isfinite(first) and math.isfinite(last):
            frame.body.append(f'<path d="M{first:.1f} {y}H{last:.1f}" stroke="{COLORS[0]}" stroke-width="2"/>')
        if math.isfinite(middle):
            circle = f'<circle cx="{middle:.1f}" cy="{y}" r="3.6" fill="{COLORS[0]}">'
            frame.body.append(f"{circle}<title>{escape(f'{name}: {number(table[0, index])}')}</title></circle>")
    return frame.drawn(xlabel)


class _Rows:
    """Chart with a row for every name: ticks, dotted lines through all rows, and texts below.

    Args:
        names: Names on the left.
        values: Values that must fit.
        lines: Values of the dotted lines; those with a name are listed below.
        title: Text above the chart.
        width: Width of the drawing.
        height: Height of a row.

    Attributes:
        body: SVG text of the drawing.
        ends: Lowest and highest value of the axis.
    """

    def __init__(
        self,
        names: Sequence[str],
        values: ArrayLike,
        lines: Mapping[str, float],
        title: str,
        width: int,
        *,
        height: int,
    ):
        self._names, self._lines, self._title, self._width, self._height = names, lines, title, width, height
        self._shown = [shortened(name, 24) for name in names]
        self._left, self._top = 10 + max(map(text_width, self._shown), default=0), 10 + 17 * bool(title)
        self._floor = self._top + height * len(names)
        self.ends = span(values, list(lines.values()))
        self.body = [put(0, 14, title, color="#111827", bold=True)] if title else []
        for tick in ticks(*self.ends, most=5):
            self._line(tick, f'stroke="{GRID}"')
            self.body.append(put(self.across(tick), self._floor + 15, number(tick), anchor="middle"))
        for value in lines.values():
            self._line(value, f'stroke="{GRAY}" stroke-dasharray="3 3"')

    def across(self, value: Any) -> Any:
        """Returns the place of a value, or of an array of values."""
        low, high = self.ends
        return self._left + (value - low) / (high - low) * (self._width - self._left - 12)

    def name(self, index: int) -> int:
        """Writes the name of a row, and returns the height of its middle."""
        y = self._top + self._height * index + self._height // 2
        self.body.append(put(self._left - 6, y + 4, self._shown[index], anchor="end", whole=self._names[index]))
        return y

    def drawn(self, xlabel: str) -> str:
        """Returns the whole drawing."""
        below = self._floor + 20
        for text in (xlabel, *(f"dotted: {name} {number(value)}" for name, value in self._lines.items() if name)):
            if text:
                below += 15
                self.body.append(put((self._left + self._width) / 2, below - 4, text, anchor="middle"))
        return svg(self._width, below, "".join(self.body), self._title)

    def _line(self, value: float, style: str) -> None:
        self.body.append(f'<path d="M{self.across(value):.1f} {self._top}V{self._floor}" {style}/>')


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
    ends: tuple[str, str] | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Draws a heat map with a legend of its colors: blue above 0, orange below.

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
        ends: Texts of the legend for the strongest colors; by default the values that have them.
        marks: Places, in the units of `edges`, and texts of ticks below the map.

    Example:
        >>> heat_map([[1.0, -1.0]], ["hr"], ["a", "b"]).count("<rect")
        2
    """
    table = np.asarray(values, dtype=np.float64)
    sizes = np.abs(table[np.isfinite(table)])
    colors = table / (sizes.max(initial=0.0) or 1.0) if shares is None else np.asarray(shares, dtype=np.float64)
    names = [shortened(name, 18) for name in rows]
    left, top = 10 + max(map(text_width, names), default=0), 8 + 17 * bool(title)
    given = np.arange(table.shape[1] + 1.0) if edges is None else np.asarray(edges, dtype=np.float64)

    def across(places: ArrayLike) -> NDArray[np.float64]:
        shifted = np.asarray(places, dtype=np.float64) - given[0]
        return left + shifted / ((given[-1] - given[0]) or 1) * (width - left - 2)

    sides = across(given)
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
    if marks:
        below += axis_ticks(across([place for place, _ in marks]), [text for _, text in marks], floor, width)
        depth += 20
    if xlabel:
        below.append(put((left + width) / 2, floor + depth + 14, xlabel, anchor="middle"))
    depth += 20 if xlabel else 4
    legend = _color_legend(colors, sizes.max(initial=0.0), ends, left, floor + depth)
    return svg(width, floor + depth + 18 * bool(legend), "".join([*body, *below, legend]), title)


def _color_legend(
    colors: NDArray[np.float64], most: float, ends: tuple[str, str] | None, left: float, top: float
) -> str:
    """Returns a row of the colors between two texts; "" if there is no color."""
    finite = colors[np.isfinite(colors)]
    if not finite.size or not np.abs(finite).max() > 1e-3:
        return ""
    low, high = float(finite.min() < 0), float(finite.max() > 0)
    texts = ends or (number(-most * low), number(most * high))
    start = left + text_width(texts[0]) + 6
    parts = [put(left, top + 11, texts[0])]
    for index, share in enumerate(np.linspace(-low, high, _SWATCHES)):
        color = shade(abs(share), COLORS[0] if share >= 0 else COLORS[1])
        parts.append(f'<path d="M{start + 10 * index:.1f} {top + 2}h10v10h-10Z" fill="{color}" stroke="{GRID}"/>')
    parts.append(put(start + 10 * _SWATCHES + 6, top + 11, texts[1]))
    return f'<g class="legend">{"".join(parts)}</g>'


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
