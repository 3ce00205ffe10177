"""The page of `health`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np

from ..report.curves import COLOURS
from .health import Health
from .plots import finish, panels, save


def plot_health(found: Health, path: str | Path) -> Path:
    """Gradient flow, output ranges and the findings on one page."""
    figure, axes = panels(2, rows=2, width=10, height=7)
    flow, ranges, shares, words = axes.flat
    flow.plot(found.flow.log10_norms.T, color=COLOURS[0], lw=1, alpha=0.6)
    finish(flow, "step t", r"$\log_{10}\,\|\partial h_T / \partial h_t\|$", "Gradient flow, one line a sequence")
    units = np.arange(len(found.low))
    ranges.vlines(units, found.low, found.high, color=COLOURS[2], lw=2)
    ranges.plot(list(found.dead), found.low[list(found.dead)], "x", color=COLOURS[1], label="dead")
    finish(ranges, "unit", "output, 1 % to 99 %", "Output ranges", legend=bool(found.dead))
    names = ("saturated", "dead units", "effect of\ndoubling dt")
    values = (found.saturated, len(found.dead) / len(found.low), found.time_effect)
    shares.barh(names, [100 * value for value in values], color=COLOURS[: len(names)])
    finish(shares, "share (%)", "", "Shares")
    words.axis("off")
    text = "\n\n".join(textwrap.fill(line, 62) for line in found.findings)
    words.text(0, 1, text, va="top", fontsize=9.5, transform=words.transAxes)
    return save(figure, path)
