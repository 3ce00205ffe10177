"""Plots of gradients, learning curves, equilibria and health."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...report.pages import COLORS
from ._equilibrium import Convergence, Eigenvalues, PhasePortrait
from ._gradient_table import GradientTable
from ._gradients import GradientFlow
from ._health import Health
from ._learning import LearningCurves, Speed
from ._liquid import TimeScales
from ._losses import GradientHistory, LossGradients, LossSurface
from ._plots import color, draws, finish, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@draws(GradientFlow, many=True)
def _gradient_flow(flows: Sequence[GradientFlow]) -> Figure:
    """Draws ‖∂h_T/∂h_t‖ over t, the median over sequences (mmRNN Fig. 1 with ode-rnn, rnn-decay, mmrnn)."""
    figure, axes = panels()
    for index, flow in enumerate(flows):
        curve = np.nanmedian(flow.log10_norms, axis=0)
        name = flow.model if flow.norm == "spectral" else f"{flow.model} ({flow.norm.title()} norm)"
        axes[0, 0].plot(curve, color=color(index), lw=2, label=name)
    axes[0, 0].axhline(0, color="0.5", ls=":", lw=1.5)
    finish(axes[0, 0], "step t", r"$\log_{10}\,\|\partial h_T / \partial h_t\|$", "What is left of step t", legend=True)
    return figure


@draws(GradientTable)
def _gradient_table(table: GradientTable) -> Figure:
    """Draws mmRNN Table 2 over the length; the numbers of the paper are dashed."""
    figure, axes = panels()
    for index, name in enumerate(table.models):
        axes[0, 0].plot(table.lengths, table.means[index], color=color(index), lw=2, marker="o", label=f"{name}, here")
        if name in table.paper:
            lengths = sorted(table.paper[name])
            means = [table.paper[name][length][0] for length in lengths]
            axes[0, 0].plot(lengths, means, color=color(index), lw=1.5, ls="--", marker="x", label=f"{name}, paper")
    axes[0, 0].set_yscale("log")
    finish(axes[0, 0], "sequence length T (steps)", "mean gradient norm of a unit", "mmRNN's Table 2", legend=True)
    return figure


@draws(GradientFlow, kind="singular values")
def _singular_values(flow: GradientFlow) -> Figure:
    """Draws all singular values of ∂h_T/∂h_t over t, of the first sequence."""
    if flow.log10_singular_values is None:
        raise ValueError("this flow has no singular values: pass singular_values=True to gradient_flow.")
    figure, axes = panels()
    axes[0, 0].plot(flow.log10_singular_values[0], color=color(0), lw=0.8, alpha=0.5)
    finish(axes[0, 0], "step t", r"$\log_{10}$ singular values of $\partial h_T / \partial h_t$", flow.model)
    return figure


@draws(LossGradients, many=True)
def _loss_gradients(results: Sequence[LossGradients]) -> Figure:
    """Draws ‖∂L/∂h_t‖ over t, as a share of its largest value (mmRNN Fig. 3 left)."""
    figure, axes = panels()
    for index, one in enumerate(results):
        curve = one.norms.mean(0)
        axes[0, 0].semilogy(range(1, len(curve) + 1), curve / curve.max(), color=color(index), lw=2, label=one.model)
    label = r"$\|\partial L / \partial h_t\|$ (share of its maximum)"
    finish(axes[0, 0], "step t", label, "The teaching signal on its way back", legend=True)
    return figure


@draws(LossSurface, many=True)
def _loss_surfaces(surfaces: Sequence[LossSurface]) -> Figure:
    """Draws the losses on a plane in weight space, side by side on one color scale (mmRNN Fig. 3 right)."""
    figure, axes = panels(len(surfaces), width=4.2 * len(surfaces), height=3.8)
    least, most = (f([f(s.values) for s in surfaces]) for f in (np.min, np.max))
    for one, surface in zip(axes[0], surfaces, strict=True):
        shown = one.pcolormesh(
            surface.steps, surface.steps, surface.values.T, vmin=least, vmax=most, cmap="cividis", shading="nearest"
        )
        finish(one, "first direction (row lengths)", "second direction (row lengths)", surface.model)
    figure.colorbar(shown, ax=list(axes[0]), label="loss")
    return figure


@draws(GradientHistory, many=True)
def _history(histories: Sequence[GradientHistory]) -> Figure:
    """Draws the ratio, ‖∂h_T/∂h_1‖, ‖∂L/∂h_1‖ and the loss over training (iRNN Figs. 3, 8 and 9)."""
    figure, axes = panels(2, rows=2, width=9, height=6.4)
    shown = {
        "ratio": r"$\|\partial h_T/\partial h_1\| \;/\; \|\partial h_T/\partial h_{T-1}\|$",
        "first": r"$\|\partial h_T / \partial h_1\|$",
        "loss_first": r"$\|\partial L / \partial h_1\|$",
        "losses": "loss",
    }
    for one, (field, label) in zip(axes.flat, shown.items(), strict=True):
        for index, history in enumerate(histories):
            one.semilogy(history.steps, getattr(history, field), color=color(index), lw=2, label=history.model)
        finish(one, "training step", label, "", legend=field == "ratio")
    return figure


@draws(LearningCurves, many=True)
def _learning(results: Sequence[LearningCurves]) -> Figure:
    """Draws the training loss over steps, one panel per task (iRNN Fig. 4): a running mean over a fiftieth of the
    steps.

    The dotted line is the loss of always predicting the mean.
    """
    figure, (axes,) = panels(len(results), width=max(6.4, 4.4 * len(results)), height=3.8)
    for index, (each, curves) in enumerate(zip(axes, results, strict=True)):
        for number, (name, losses) in enumerate(zip(curves.models, curves.losses, strict=True)):
            window = max(1, len(losses) // 50)
            smooth = np.convolve(losses, np.ones(window) / window, "valid")
            each.plot(np.arange(window, len(losses) + 1), smooth, color=color(number), lw=1.5, label=name)
        if curves.naive is not None:
            each.axhline(curves.naive, color="0.4", ls=":", lw=1.5, label="naive")
        length = curves.options.get("length")
        title = curves.task if length is None else f"{curves.task}, length {length}"
        finish(each, "training step", "loss", title, legend=index == 0)
    return figure


@draws(Speed)
def _speed(result: Speed) -> Figure:
    """Draws the time of forward and backward over the length, one line per model (UnICORNN Fig. 2)."""
    figure, ((axes,),) = panels()
    for index, (name, seconds) in enumerate(zip(result.models, result.seconds, strict=True)):
        axes.loglog(result.lengths, 1e3 * seconds, color=color(index), marker="o", lw=2, label=name)
    axes.set_xticks(result.lengths, [str(length) for length in result.lengths])
    axes.minorticks_off()
    title = f"Batch of {result.batch}, {result.hidden_size} units"
    finish(axes, "length T (steps)", "forward + backward (ms)", title, legend=True)
    return figure


@draws(Convergence)
def _convergence(result: Convergence) -> Figure:
    """Draws the distance to the root over k, one line per sequence (iRNN and ERNN Fig. 6)."""
    figure, axes = panels()
    axes[0, 0].semilogy(result.distances.T, color=color(0), lw=1, alpha=0.6)
    if np.isfinite(result.bound):
        k = np.arange(result.distances.shape[1])
        worst = result.distances[:, 0].max() * result.bound**k
        axes[0, 0].semilogy(k, worst, color=color(1), ls="--", lw=2, label=f"guarantee, {result.bound:.2f} per step")
    title = f"{result.model}: η = {result.eta:g}, measured rate {np.nanmedian(result.rates):.2f} per step"
    finish(axes[0, 0], "recursion step k", r"$\|g_k - g^*\|$", title, legend=bool(np.isfinite(result.bound)))
    return figure


@draws(Eigenvalues)
def _eigenvalues(result: Eigenvalues) -> Figure:
    """Draws a histogram of the real parts (iRNN Fig. 7, ERNN Fig. 5)."""
    figure, axes = panels()
    axes[0, 0].hist(result.real, bins=60, color=color(0))
    axes[0, 0].axvline(0, color=color(1), ls="--", lw=2)
    title = f"{result.model}: {result.stable:.1%} negative"
    finish(axes[0, 0], r"real part of the eigenvalues of $\nabla\phi\,PU - \gamma I$", "count", title)
    return figure


@draws(PhasePortrait)
def _phase(portrait: PhasePortrait) -> Figure:
    """Draws one panel per model: the start is a black circle, later steps are lighter (iRNN Fig. 2, ERNN Fig. 1)."""
    count = len(portrait.models)
    figure, axes = panels(count, width=3.6 * count, height=3.7)
    for one, name, path_taken in zip(axes[0], portrait.models, portrait.states, strict=True):
        one.plot(*path_taken.T, color="0.8", lw=0.6, zorder=1)
        dots = one.scatter(*path_taken[1:].T, c=np.arange(1, len(path_taken)), cmap="viridis", s=5, zorder=2)
        one.plot(*path_taken[0], "o", color="black", ms=8, zorder=3)
        finish(one, "first unit", "second unit", name)
    figure.colorbar(dots, ax=list(axes[0]), label="step")
    return figure


@draws(Health)
def _health(result: Health) -> Figure:
    """Draws gradient flow, output ranges, time and the findings on one page."""
    figure, axes = panels(2, rows=2, width=10, height=7)
    flow, ranges, time, words = axes.flat
    flow.plot(result.flow.log10_norms.T, color=color(0), lw=1, alpha=0.6)
    finish(flow, "step t", r"$\log_{10}\,\|\partial h_T / \partial h_t\|$", "Gradient flow, one line per sequence")
    units = np.arange(len(result.low))
    ranges.vlines(units, result.low, result.high, color=color(2), lw=2)
    ranges.plot(list(result.dead), result.low[list(result.dead)], "x", color=color(1), label="dead")
    finish(ranges, "unit", "output, 1% to 99%", "Output ranges", legend=bool(result.dead))
    if result.scales is None:
        _draw_shares(time, result)
    else:
        _draw_scales(time, result, result.scales)
    words.axis("off")
    text = "\n\n".join(textwrap.fill(line, 62) for line in result.findings)
    words.text(0, 1, text, va="top", fontsize=9.5, transform=words.transAxes)
    return figure


def _draw_shares(axes: Any, result: Health) -> None:
    names = ("saturated", "dead units", "effect of\ndoubling dt")
    values = (result.saturated, len(result.dead) / len(result.low), result.time_effect)
    axes.barh(names, [100 * value for value in values], color=COLORS[: len(names)])
    finish(axes, "share (%)", "", "Shares")


def _draw_scales(axes: Any, result: Health, scales: TimeScales) -> None:
    axes.semilogy(scales.values, color=color(0), marker=".", lw=1, label="units")
    axes.axhspan(result.gaps[0], result.gaps[2], color=color(4), alpha=0.35, lw=0, label="gaps, 5% to 95%")
    axes.axhline(result.gaps[1], color=color(4), lw=2)
    axes.axhline(result.span, color="0.3", ls=":", lw=1.5, label="span of a series")
    finish(axes, "unit, sorted", "time (units of dt)", scales.what[0].upper() + scales.what[1:], legend=True)
