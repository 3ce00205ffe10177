"""Numbers, ticks, text and colors of plots."""

from __future__ import annotations

import math
from html import escape

import numpy as np
from numpy.typing import ArrayLike

_FONT = 11
# Okabe and Ito's palette: distinguishable for color-blind readers.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


def number(value: float) -> str:
    """Returns a number to at most four significant digits, with commas from 10,000 on.

    Example:
        >>> number(0.123456), number(12345.6), number(1e-7), number(0.0)
        ('0.1235', '12,346', '1e-07', '0')
    """
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def ticks(low: float, high: float, most: int = 6, *, whole: bool = False) -> list[float]:
    """Returns round numbers between `low` and `high`, at most `most` of them.

    Example:
        >>> ticks(0.0, 1.0), ticks(1, 3, whole=True)
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0, 2.0, 3.0])
    """
    room = (high - low) / max(most - 1, 1)
    if not math.isfinite(room) or room <= 0:
        return [low]
    size = 10.0 ** math.floor(math.log10(room))
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if size * factor >= room * (1 - 1e-9))
    while math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) < 1:  # at least two
        step /= 2
    if whole:
        step = max(1.0, round(step))
    first = math.ceil(low / step - 1e-9)
    return [round(count * step, 12) for count in range(first, math.floor(high / step + 1e-9) + 1)]


def span(*values: ArrayLike, zero: bool = False, room: float = 0.05) -> tuple[float, float]:
    """Returns the range of all finite values with some room on both sides.

    Example:
        >>> span([0.0, 10.0, np.nan], room=0.1), span([], [3.0, 3.0])
        ((-1.0, 11.0), (2.5, 3.5))
    """
    every = np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in (*values, [0.0] if zero else [])])
    every = every[np.isfinite(every)]
    if not len(every):
        return 0.0, 1.0
    low, high = float(every.min()), float(every.max())
    extra = room * (high - low) if high - low > 1e-12 * max(abs(low), abs(high)) else 0.5 * (abs(high) / 3 or 1.0)
    return (low if zero and low == 0 else low - extra), high + extra


def shortened(text: str, most: int) -> str:
    """Shortens a long text in the middle, because similar names mostly differ at the end."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most - most // 2 - 1) :]}"


def put(
    x: float, y: float, text: str, *, anchor: str = "start", color: str = "#374151", bold: bool = False, whole: str = ""
) -> str:
    look = (f' text-anchor="{anchor}"' if anchor != "start" else "") + (' font-weight="600"' if bold else "")
    full = f"<title>{escape(whole)}</title>" if whole and whole != text else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}"{look}>{escape(text)}{full}</text>'


def text_width(text: str) -> float:
    """Returns the approximate width of a text in a browser's sans-serif font."""
    return sum(_FONT if ord(letter) > 0x2E80 else 0.6 * _FONT for letter in text)


def svg(width: float, height: float, body: str, label: str) -> str:
    name = f' aria-label="{escape(label)}"' if label else ""
    font = f'font-family="system-ui, sans-serif" font-size="{_FONT}"'
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img"{name} {font}>{body}</svg>'
