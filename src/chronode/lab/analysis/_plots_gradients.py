"""Plots of gradient flow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ._gradient_table import GradientTable
from ._gradients import GradientFlow
from ._losses import GradientHistory, LossGradients, LossSurface
from ._plots import color, finish, panels, save


def plot_gradient_flow(flows: Sequence[GradientFlow], path: str | Path) -> Path:
    """Draws ‖∂h_T/∂h_t‖ over t, the median over sequences (mmRNN Fig. 1 with ode-rnn, rnn-decay, mmrnn).

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import noise_flows
        >>> found = noise_flows(["rnn", "mmrnn"], steps=20, hidden_size=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_gradient_flow(found, f"{folder}/gradient_flow.png").name
        'gradient_flow.png'
    """
    figure, axes = panels()
    for index, flow in enumerate(flows):
        curve = np.nanmedian(flow.log10_norms, axis=0)
        name = flow.model if flow.norm == "spectral" else f"{flow.model} ({flow.norm.title()} norm)"
        axes[0, 0].plot(curve, color=color(index), lw=2, label=name)
    axes[0, 0].axhline(0, color="0.5", ls=":", lw=1.5)
    finish(axes[0, 0], "step t", r"$\log_{10}\,\|\partial h_T / \partial h_t\|$", "What is left of step t", legend=True)
    return save(figure, path)


def plot_gradient_table(table: GradientTable, path: str | Path) -> Path:
    """Draws mmRNN Table 2 over the length; the numbers of the paper are dashed.

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import gradient_table
        >>> found = gradient_table(lengths=[5, 10], hidden_size=4, seeds=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_gradient_table(found, f"{folder}/gradient_table.png").name
        'gradient_table.png'
    """
    figure, axes = panels()
    for index, name in enumerate(table.models):
        axes[0, 0].plot(table.lengths, table.means[index], color=color(index), lw=2, marker="o", label=f"{name}, here")
        if name in table.paper:
            lengths = sorted(table.paper[name])
            means = [table.paper[name][length][0] for length in lengths]
            axes[0, 0].plot(lengths, means, color=color(index), lw=1.5, ls="--", marker="x", label=f"{name}, paper")
    axes[0, 0].set_yscale("log")
    finish(axes[0, 0], "sequence length T (steps)", "mean gradient norm of a unit", "mmRNN's Table 2", legend=True)
    return save(figure, path)


def plot_singular_values(flow: GradientFlow, path: str | Path) -> Path:
    """Draws all singular values of ∂h_T/∂h_t over t, of the first sequence.

    Example:
        >>> import tempfile, torch
        >>> from chronode.lab.analysis import gradient_flow
        >>> found = gradient_flow("lstm", torch.randn(1, 20, 2), hidden_size=4, singular_values=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_singular_values(found, f"{folder}/singular_values.png").name
        'singular_values.png'
    """
    if flow.log10_singular_values is None:
        raise ValueError("this flow has no singular values: pass singular_values=True to gradient_flow.")
    figure, axes = panels()
    axes[0, 0].plot(flow.log10_singular_values[0], color=color(0), lw=0.8, alpha=0.5)
    finish(axes[0, 0], "step t", r"$\log_{10}$ singular values of $\partial h_T / \partial h_t$", flow.model)
    return save(figure, path)


def plot_loss_gradients(found: Sequence[LossGradients], path: str | Path) -> Path:
    """Draws ‖∂L/∂h_t‖ over t, as a share of its largest value (mmRNN Fig. 3 left).

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import teach_bits
        >>> found = teach_bits(["lstm"], steps=6, hidden_size=4, points=2)[0]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_loss_gradients(found, f"{folder}/loss_gradients.png").name
        'loss_gradients.png'
    """
    figure, axes = panels()
    for index, one in enumerate(found):
        curve = one.norms.mean(0)
        axes[0, 0].semilogy(range(1, len(curve) + 1), curve / curve.max(), color=color(index), lw=2, label=one.model)
    label = r"$\|\partial L / \partial h_t\|$ (share of its maximum)"
    finish(axes[0, 0], "step t", label, "The teaching signal on its way back", legend=True)
    return save(figure, path)


def plot_loss_surfaces(surfaces: Sequence[LossSurface], path: str | Path) -> Path:
    """Draws the losses on a plane in weight space, side by side on one color scale (mmRNN Fig. 3 right).

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import teach_bits
        >>> found = teach_bits(["lstm"], steps=6, hidden_size=4, points=3)[1]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_loss_surfaces(found, f"{folder}/loss_surfaces.png").name
        'loss_surfaces.png'
    """
    figure, axes = panels(len(surfaces), width=4.2 * len(surfaces), height=3.8)
    least, most = (f([f(s.values) for s in surfaces]) for f in (np.min, np.max))
    for one, surface in zip(axes[0], surfaces, strict=True):
        shown = one.pcolormesh(
            surface.steps, surface.steps, surface.values.T, vmin=least, vmax=most, cmap="cividis", shading="nearest"
        )
        finish(one, "first direction (row lengths)", "second direction (row lengths)", surface.model)
    figure.colorbar(shown, ax=list(axes[0]), label="loss")
    return save(figure, path)


def plot_history(histories: Sequence[GradientHistory], path: str | Path) -> Path:
    """Draws the ratio, ‖∂h_T/∂h_1‖, ‖∂L/∂h_1‖ and the loss over training (iRNN Figs. 3, 8 and 9).

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import track_adding
        >>> found = track_adding(["irnn"], length=6, steps=2, every=1, hidden_size=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_history(found, f"{folder}/history.png").name
        'history.png'
    """
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
    return save(figure, path)
