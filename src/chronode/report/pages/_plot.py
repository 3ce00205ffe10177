"""Plots as SVG text, for pages and notebooks; no plotting library is needed, and a plot takes less than 1 ms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._marks import COLORS, number, put, shortened, svg, text_width, ticks

GRAY = "#6b7280"
GRID = "#e5e7eb"
_MOST_POINTS = 600
"""Maximum number of points of a line; with more, the minimum and maximum of every stretch are kept."""


class Plot:
    """Lines, dots, bands and bars over two axes; `str(plot)` is the SVG.

    Args:
        x: Range of the horizontal axis.
        y: Range of the vertical axis.
        title: Text above the plot.
        xlabel: Text below the horizontal axis.
        ylabel: Text above the vertical axis.
        width: Width of the drawing in its own units; a page scales it.
        height: Height of the drawing.
        whole: Whether the ticks of the horizontal axis are whole numbers.
        log: Whether the horizontal axis is logarithmic (`x` in logarithms to base 10).
        bare: Whether the horizontal axis has no numbers, because a plot below shows them.
        left: Minimum room for the numbers of the vertical axis, so that stacked plots are aligned.
        marks: Places and texts of the ticks of the horizontal axis; None for numbers.

    Example:
        >>> plot = Plot((0, 2), (0, 1), title="loss")
        >>> plot.line([0, 1, 2], [1.0, 0.5, 0.25], name="training")
        >>> str(plot).startswith("<svg"), "training" in str(plot)
        (True, True)
    """

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        title: str = "",
        xlabel: str = "",
        ylabel: str = "",
        width: int = 440,
        height: int = 250,
        whole: bool = False,
        log: bool = False,
        bare: bool = False,
        left: float = 0.0,
        marks: Sequence[tuple[float, str]] | None = None,
    ):
        self.x, self.y, self.title, self.xlabel, self.ylabel = x, y, title, xlabel, ylabel
        self.width, self.height, self.whole, self.log = width, height, whole, log
        self.yticks = ticks(*y, most=6 if height > 150 else 4)
        self.left = max(left, 12 + max((text_width(number(tick)) for tick in self.yticks), default=0))
        self.top = 14 + 17 * bool(title) + 14 * bool(ylabel)
        self.bottom, self.right, self.bare = 6 if bare else 20 + 16 * bool(xlabel), 12, bare
        self.xticks = marks
        self.marks: list[str] = []
        self.names: list[tuple[str, str, str]] = []

    def line(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        color: str = COLORS[0],
        name: str = "",
        dash: str = "",
        dots: bool = False,
        width: float = 1.8,
        step: bool = False,
    ) -> None:
        """Adds a line through the finite points, broken at the others; `step` holds each value until the next."""
        across, up = _thinned(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
        finite = np.isfinite(across) & np.isfinite(up)
        path, pen = [], False
        for one, two, drawn in zip(self._across(across), self._up(up), finite, strict=True):
            if drawn:
                path.append(
                    (f"H{one:.1f}V{two:.1f}" if step else f"L{one:.1f} {two:.1f}") if pen else f"M{one:.1f} {two:.1f}"
                )
            pen = bool(drawn)
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self.marks.append(f'<path d="{"".join(path)}" fill="none" stroke="{color}" stroke-width="{width}"{style}/>')
        self._name(name, color, "line" if not dash else "dash")
        if dots or finite.sum() == 1:
            self.dots(across[finite], up[finite], color=color, size=2.2)

    def dots(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        color: str = COLORS[0],
        size: float = 3.0,
        name: str = "",
        opacity: float = 1.0,
        titles: Iterable[str] = (),
    ) -> None:
        """Adds a dot per point; `titles` are shown as tooltips."""
        across, up = self._across(np.asarray(x, dtype=np.float64)), self._up(np.asarray(y, dtype=np.float64))
        texts = list(titles) or [""] * len(across)
        look = f' fill-opacity="{opacity:.2g}"' if opacity < 1 else ""
        drawn = [
            f'<circle cx="{one:.1f}" cy="{two:.1f}" r="{size:g}">'
            + (f"<title>{escape(text)}</title>" if text else "")
            + "</circle>"
            for one, two, text in zip(across, up, texts, strict=True)
            if math.isfinite(one) and math.isfinite(two)
        ]
        self.marks.append(f'<g fill="{color}"{look}>{"".join(drawn)}</g>')
        self._name(name, color, "dot")

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, *, color: str = COLORS[0], name: str = "") -> None:
        """Adds the area between two lines."""
        across = self._across(np.asarray(x, dtype=np.float64))
        lower, upper = (self._up(np.asarray(side, dtype=np.float64)) for side in (low, high))
        finite = np.isfinite(across) & np.isfinite(lower) & np.isfinite(upper)
        there = [f"{one:.1f} {two:.1f}" for one, two in zip(across[finite], upper[finite], strict=True)]
        back = [f"{one:.1f} {two:.1f}" for one, two in zip(across[finite], lower[finite], strict=True)]
        if there:
            self.marks.insert(0, f'<path d="M{"L".join([*there, *back[::-1]])}Z" fill="{color}" fill-opacity="0.18"/>')
            self._name(name, color, "area")

    def bars(self, edges: ArrayLike, heights: ArrayLike, *, color: str = COLORS[0], unit: str = "") -> None:
        """Adds a bar between every two edges."""
        sides = self._across(np.asarray(edges, dtype=np.float64))
        values = np.asarray(heights, dtype=np.float64)
        base = self._up(np.array([max(0.0, self.y[0])]))[0]
        for left, right, value, top in zip(sides[:-1], sides[1:], values, self._up(values), strict=True):
            if value > 0:
                box = f'x="{left + 0.5:.1f}" y="{top:.1f}" width="{max(right - left - 1, 0.5):.1f}"'
                text = f"<title>{escape(f'{number(value)} {unit}'.strip())}</title>"
                self.marks.append(f'<rect {box} height="{max(base - top, 0):.1f}" fill="{color}">{text}</rect>')

    def upright(self, x: float, *, name: str = "", color: str = GRAY) -> None:
        """Adds a vertical dotted line."""
        path = f"M{self._across(np.array([x]))[0]:.1f} {self.top}V{self.height - self.bottom}"
        self.marks.append(f'<path d="{path}" stroke="{color}" stroke-dasharray="3 3" fill="none"/>')
        self._name(name, color, "dash")

    def level(self, y: float, *, name: str = "", color: str = GRAY) -> None:
        """Adds a horizontal dotted line."""
        path = f"M{self.left} {self._up(np.array([y]))[0]:.1f}H{self.width - self.right}"
        self.marks.append(f'<path d="{path}" stroke="{color}" stroke-dasharray="3 3" fill="none"/>')
        self._name(name, color, "dash")

    def __str__(self) -> str:
        rows = _legend(self.names, self.left, self.width - self.right)
        extra = 16 * len(rows)
        body = "".join([*self._axes(), *self.marks, *self._texts()])
        legend = "".join(_legend_row(row, self.height + 12 + 16 * index) for index, row in enumerate(rows))
        return svg(self.width, self.height + extra + 4 * bool(rows), body + legend, self.title or self.ylabel)

    def _name(self, name: str, color: str, kind: str) -> None:
        if name and (name, color, kind) not in self.names:
            self.names.append((name, color, kind))

    def _across(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.left + (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1) * (self.width - self.left - self.right)

    def _up(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        room = self.height - self.top - self.bottom
        return self.height - self.bottom - (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1) * room

    def _axes(self) -> Iterable[str]:
        floor = self.height - self.bottom
        for tick, up in zip(self.yticks, self._up(np.array(self.yticks)), strict=True):
            yield f'<path d="M{self.left} {up:.1f}H{self.width - self.right}" stroke="{GRID}"/>'
            yield put(self.left - 6, up + 4, number(tick), anchor="end")
        if not self.bare:
            marks = self.xticks
            if marks is None:
                places = ticks(*self.x, most=4 if self.log else 7, whole=self.whole or self.log)
                marks = [(place, number(10**place if self.log else place)) for place in places]
            across = self._across(np.array([place for place, _ in marks], dtype=np.float64))
            yield from axis_ticks(across, [text for _, text in marks], floor, self.width)
        yield f'<path d="M{self.left} {floor}H{self.width - self.right}" stroke="{GRAY}"/>'

    def _texts(self) -> Iterable[str]:
        letters = int(self.width - self.left) // 6
        if self.title:
            yield put(self.left, 14, shortened(self.title, letters), color="#111827", bold=True)
        if self.ylabel:
            yield put(self.left, 14 + 17 * bool(self.title) - 2, shortened(self.ylabel, letters))
        if self.xlabel:
            middle = (self.left + self.width - self.right) / 2
            yield put(middle, self.height - 3, shortened(self.xlabel, letters), anchor="middle")


def axis_ticks(across: ArrayLike, texts: Sequence[str], floor: float, width: float) -> Iterable[str]:
    """Returns ticks below a horizontal axis; a text that would touch the one before it is left out."""
    taken = -math.inf
    for place, text in zip(np.asarray(across).tolist(), texts, strict=True):
        half = text_width(text) / 2
        if place - half < taken or place + half > width + 1:
            continue
        taken = place + half + 8
        yield f'<path d="M{place:.1f} {floor}v4" stroke="{GRAY}"/>'
        yield put(place, floor + 16, text, anchor="middle")


def _thinned(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns fewer points that look the same: the minimum and maximum of every stretch."""
    if len(x) <= _MOST_POINTS:
        return x, y
    kept: set[int] = {0, len(x) - 1}
    for part in np.array_split(np.arange(len(x)), _MOST_POINTS // 2):
        finite = part[np.isfinite(y[part])]
        kept |= {int(finite[y[finite].argmin()]), int(finite[y[finite].argmax()])} if len(finite) else {int(part[0])}
    rows = np.array(sorted(kept))
    return x[rows], y[rows]


def _legend(names: list[tuple[str, str, str]], left: float, right: float) -> list[list[tuple[float, str, str, str]]]:
    """Returns rows of (place, name, color, kind)."""
    rows: list[list[tuple[float, str, str, str]]] = []
    x = math.inf
    for name, color, kind in names:
        text = shortened(name, 40)
        if x + 22 + text_width(text) > right:
            rows.append([])
            x = left
        rows[-1].append((x, text, color, kind))
        x += 34 + text_width(text)
    return rows


def _legend_row(row: list[tuple[float, str, str, str]], y: float) -> str:
    parts = []
    for x, name, color, kind in row:
        if kind == "dot":
            parts.append(f'<circle cx="{x + 8}" cy="{y - 4}" r="3.5" fill="{color}"/>')
        elif kind == "area":
            parts.append(f'<rect x="{x}" y="{y - 9}" width="16" height="10" fill="{color}" fill-opacity="0.3"/>')
        else:
            dash = ' stroke-dasharray="3 3"' if kind == "dash" else ""
            parts.append(f'<path d="M{x} {y - 4}h16" stroke="{color}" stroke-width="2"{dash}/>')
        parts.append(put(x + 21, y, name))
    return "".join(parts)
