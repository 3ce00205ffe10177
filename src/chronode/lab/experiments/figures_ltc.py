"""Figures and Table 2 of LTC."""

from __future__ import annotations

from typing import Any

from .. import analysis
from ..analysis import LayerTrajectory, Setting
from .drawings import Canvas, drawing


def _sweep(canvas: Canvas, part: str, over: str, values: Any, activation: str = "tanh") -> None:
    setting = Setting(activation, width=canvas.pick(6, 100, 100))
    found = analysis.sweep(over, values, setting=setting, tries=canvas.pick(1, 5, 100))
    canvas.add(found, analysis.plot_sweep, part)


@drawing("ltc/figure1", "trajectories of a circle from layer to layer")
def figure1(canvas: Canvas) -> None:
    """Draws the three layers of one LTC."""
    found = analysis.trajectory("ltc", Setting("tanh", width=canvas.pick(6, 100, 100), depth=3))
    layers = [
        LayerTrajectory(f"layer {index + 1}", found.latent[index], found.lengths[index], found.explained[index])
        for index in range(3)
    ]
    canvas.add(layers, analysis.plot_trajectories)


@drawing("ltc/figure2", "trajectory length by layers, weights and width, for several activations")
def figure2(canvas: Canvas) -> None:
    """Draws parts A to E of the figure."""
    depths, widths = (
        canvas.pick((1, 2), (1, 2, 3), (1, 2, 3, 4, 5, 6)),
        canvas.pick((4, 8), (10, 25, 50, 100), (10, 25, 50, 100, 200)),
    )
    _sweep(canvas, "a", "depth", depths, "hardtanh")
    _sweep(canvas, "b", "sigma_w", canvas.pick((1.0, 2.0), (1.0, 2.0, 4.0), (1.0, 2.0, 4.0, 8.0)))
    _sweep(canvas, "c", "width", widths, "relu")
    _sweep(canvas, "d", "width", widths, "hardtanh")
    _sweep(canvas, "e", "depth", depths, "sigmoid")


@drawing("ltc/figure3", "trajectory length by solver, width, weights and layers; the variance explained")
def figure3(canvas: Canvas) -> None:
    """Draws parts A to D of the figure; B has two plots."""
    _sweep(canvas, "a", "solver", ("rk23", "rk45", "adams", "implicit"))
    _sweep(canvas, "b", "width", canvas.pick((4, 8), (10, 25, 50, 100), (10, 25, 50, 100, 150, 200)))
    setting = Setting("tanh", width=canvas.pick(8, 100, 100))
    found = [analysis.trajectory(model, setting) for model in ("neural-ode", "ct-rnn", "ltc")]
    canvas.add(found, analysis.plot_explained, "b-explained")
    _sweep(canvas, "c", "sigma_w", canvas.pick((1.0, 2.0), (0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0, 4.0, 8.0)))
    _sweep(canvas, "d", "depth", canvas.pick((1, 2), (1, 2, 3), (1, 2, 3, 4, 5, 6)))


@drawing("ltc/table2", "computational depth of Neural ODE, CT-RNN and LTC by activation")
def table2(canvas: Canvas) -> None:
    """Draws 100 networks of 100 units at the paper budget."""
    setting = Setting(width=canvas.pick(6, 100, 100))
    canvas.add(analysis.depth_table(canvas.pick(1, 20, 100), setting=setting), analysis.plot_depth)
