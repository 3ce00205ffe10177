"""The page of `health`."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from ...report.pages import COLORS
from ._health import Health
from ._plots import color, finish, panels, save
from ._timescales import TimeScales


def plot_health(found: Health, path: str | Path) -> Path:
    """Draws gradient flow, output ranges, time and the findings on one page.

    Example:
        >>> import chronode, tempfile
        >>> from chronode.lab.analysis import health
        >>> from chronode.model._model import SequenceModel
        >>> from chronode.lab.tasks.bitstream import bitstream
        >>> found = health(SequenceModel(chronode.create("ltc", 1, 4, outputs="last"), 2), bitstream(4, seed=0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_health(found, f"{folder}/health.png").name
        'health.png'
    """
    figure, axes = panels(2, rows=2, width=10, height=7)
    flow, ranges, time, words = axes.flat
    flow.plot(found.flow.log10_norms.T, color=color(0), lw=1, alpha=0.6)
    finish(flow, "step t", r"$\log_{10}\,\|\partial h_T / \partial h_t\|$", "Gradient flow, one line per sequence")
    units = np.arange(len(found.low))
    ranges.vlines(units, found.low, found.high, color=color(2), lw=2)
    ranges.plot(list(found.dead), found.low[list(found.dead)], "x", color=color(1), label="dead")
    finish(ranges, "unit", "output, 1% to 99%", "Output ranges", legend=bool(found.dead))
    if found.scales is None:
        _draw_shares(time, found)
    else:
        _draw_scales(time, found, found.scales)
    words.axis("off")
    text = "\n\n".join(textwrap.fill(line, 62) for line in found.findings)
    words.text(0, 1, text, va="top", fontsize=9.5, transform=words.transAxes)
    return save(figure, path)


def _draw_shares(axes: Any, found: Health) -> None:
    names = ("saturated", "dead units", "effect of\ndoubling dt")
    values = (found.saturated, len(found.dead) / len(found.low), found.time_effect)
    axes.barh(names, [100 * value for value in values], color=COLORS[: len(names)])
    finish(axes, "share (%)", "", "Shares")


def _draw_scales(axes: Any, found: Health, scales: TimeScales) -> None:
    axes.semilogy(scales.values, color=color(0), marker=".", lw=1, label="units")
    axes.axhspan(found.gaps[0], found.gaps[2], color=color(4), alpha=0.35, lw=0, label="gaps, 5% to 95%")
    axes.axhline(found.gaps[1], color=color(4), lw=2)
    axes.axhline(found.span, color="0.3", ls=":", lw=1.5, label="span of a series")
    finish(axes, "unit, sorted", "time (units of dt)", scales.what[0].upper() + scales.what[1:], legend=True)
