"""Figures and Table 2 of mmRNN."""

from __future__ import annotations

from .. import analysis
from .drawings import Canvas, drawing


@drawing("mmrnn/figure1", "gradient flow from step t to the last step: ODE-RNN, RNN-decay, mmRNN")
def figure1(canvas: Canvas) -> None:
    """Uses noise with irregular gaps."""
    found = analysis.noise_flows(steps=canvas.pick(20, 100, 100), hidden_size=canvas.pick(4, 64, 64))
    canvas.add(found, analysis.plot_gradient_flow)


@drawing("mmrnn/figure3", "the teaching signal over time, and the loss surface")
def figure3(canvas: Canvas) -> None:
    """Uses blocks of 31 bits."""
    sizes = {"steps": canvas.pick(6, 31, 31), "hidden_size": canvas.pick(4, 32, 64), "points": canvas.pick(3, 15, 31)}
    signals, surfaces = analysis.teach_bits(**sizes)
    canvas.add(signals, analysis.plot_loss_gradients, "left")
    canvas.add(surfaces, analysis.plot_loss_surfaces, "right")


@drawing("mmrnn/table2", "gradient norms of ODE-RNN and mmRNN by length, compared with the paper")
def table2(canvas: Canvas) -> None:
    """Uses the setting fitted to the numbers of the paper; see docs/analysis.md."""
    found = analysis.gradient_table(hidden_size=canvas.pick(8, 64, 64), seeds=canvas.pick(1, 3, 3))
    canvas.add(found, analysis.plot_gradient_table)
