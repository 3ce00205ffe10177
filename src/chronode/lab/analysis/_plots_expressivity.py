"""Plots of expressivity and LTC analyses, one function each, written as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..papers import numbers
from ._expressivity import REFINE, Sweep, Trajectory
from ._liquid import LayerTrajectory, TimeConstants
from ._plots import color, finish, panels, save

NAMES = {"neural-ode": "Neural ODE", "ct-rnn": "CT-RNN", "ltc": "LTC"}
UNITS = {"width": "width k (units)", "depth": "layers", "sigma_w": "σ_w", "sigma_b": "σ_b"}


def plot_trajectories(found: Sequence[Trajectory | LayerTrajectory], path: str | Path) -> Path:
    """Draws the trajectory of each network (last layer), with its length.

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import layer_trajectory
        >>> found = [layer_trajectory(name, hidden_size=4, samples=50) for name in ("lstm", "ltc")]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_trajectories(found, f"{folder}/trajectories.png").name
        'trajectories.png'
    """
    figure, (axes,) = panels(len(found), width=max(6.0, 3.4 * len(found)), height=3.6)
    for index, (each, one) in enumerate(zip(axes, found, strict=True)):
        last = one.latent[-1] if isinstance(one, Trajectory) else one.latent
        length = one.lengths[-1] if isinstance(one, Trajectory) else one.length
        each.plot(*last.T, color=color(index), lw=1.5)
        each.plot(*last[0], color="0.2", marker="o", ms=5)
        title = f"{NAMES.get(one.model, one.model)}: length {length:.3g}"
        finish(each, "1st principal component", "2nd principal component", title)
    return save(figure, path)


def plot_sweep(found: Sweep, path: str | Path) -> Path:
    """Draws the trajectory length over the varied setting: median and quartiles; dashed lines are the lower bounds.

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import Setting, sweep
        >>> found = sweep("width", [4, 8], tries=2, setting=Setting(recipe="text"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_sweep(found, f"{folder}/sweep.png").name
        'sweep.png'
    """
    figure, ((axes,),) = panels()
    numeric = all(isinstance(value, (int, float)) for value in found.values)
    places = np.array(found.values if numeric else range(len(found.values)), dtype=float)
    for index, model in enumerate(found.models):
        low, middle, high = np.nanquantile(found.lengths[index], (0.25, 0.5, 0.75), axis=-1)
        bars = np.stack([middle - low, high - middle])
        # Shifted, so that bars do not hide each other.
        at = places * 1.03 ** (index - 1) if numeric else places + 0.08 * (index - 1)
        style = {
            "color": color(index),
            "marker": "os^"[index % 3],
            "capsize": 3,
            "lw": 2 if numeric else 0,
            "elinewidth": 2,
        }
        axes.errorbar(at, middle, bars, label=NAMES[model], **style)
        bound = np.nanmedian(found.bounds[index], axis=-1)
        shown = np.where(bound > 0, bound, np.nan)
        axes.plot(
            at,
            shown,
            color=color(index),
            ls="--" if numeric else "",
            marker="_",
            ms=12,
            label=f"{NAMES[model]}, bound",
        )
    axes.set_yscale("log")
    if numeric:
        axes.set_xscale("log", base=2)
    axes.set_xticks(places, [f"{value:g}" if numeric else str(value) for value in found.values], minor=False)
    axes.minorticks_off()
    title = f"{found.lengths.shape[-1]} tries, recipe {found.setting.recipe!r}"
    finish(axes, UNITS.get(found.over, found.over), "trajectory length (input: 2π)", title)
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=9.5, loc="outside right center")
    return save(figure, path)


def plot_explained(found: Sequence[Trajectory | LayerTrajectory], path: str | Path, components: int = 8) -> Path:
    """Draws the explained variance of each principal component (bars) and the cumulative sum (line).

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import layer_trajectory
        >>> found = [layer_trajectory("lstm", hidden_size=4, samples=50)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_explained(found, f"{folder}/explained.png").name
        'explained.png'
    """
    figure, (axes,) = panels(len(found), width=max(6.0, 3.4 * len(found)), height=3.4)
    for index, (each, one) in enumerate(zip(axes, found, strict=True)):
        shares = one.explained[-1] if isinstance(one, Trajectory) else one.explained
        shares = 100 * shares[:components]
        number = np.arange(1, len(shares) + 1)
        each.bar(number, shares, color=color(index))
        each.plot(number, shares.cumsum(), color="0.2", marker="o", ms=4, lw=1.5, label="sum")
        each.set_xticks(number)
        finish(each, "principal component", "variance explained (%)", NAMES.get(one.model, one.model), legend=True)
    return save(figure, path)


def plot_depth(found: Sweep, path: str | Path) -> Path:
    """Draws the computational depth of each model (LTC Table 2), median and quartiles; crosses are the values of the
    paper.

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import Setting, depth_table
        >>> found = depth_table(1, activations=["sigmoid"], setting=Setting(width=5))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_depth(found, f"{folder}/depth.png").name
        'depth.png'
    """
    figure, ((axes,),) = panels()
    places = np.arange(len(found.values))
    paper = {(figure.model, figure.options.removeprefix("activation=")): figure.mean for figure in numbers("ltc", "2")}
    for index, model in enumerate(found.models):
        low, middle, high = np.quantile(REFINE * found.depth[index], (0.25, 0.5, 0.75), axis=-1)
        at, bars = places + 0.26 * (index - 1), np.stack([middle - low, high - middle])
        axes.bar(at, middle, 0.24, yerr=bars, capsize=3, color=color(index), label=NAMES[model])
        if found.over == "activation":
            means = [paper[model, value] for value in found.values]
            label = "mean of the paper" if index == len(found.models) - 1 else None
            axes.plot(at, means, color="black", marker="X", ls="", ms=8, mec="white", label=label)
    axes.set_yscale("log")
    axes.set_xticks(places, found.values)
    title = f"Computational depth, median of {found.depth.shape[-1]} tries"
    finish(axes, found.over, f"solver steps per input sample x {REFINE}", title, legend=True)
    return save(figure, path)


def plot_time_constants(found: TimeConstants, path: str | Path, neurons: int = 6) -> Path:
    """Draws τ_sys of some neurons of the first sequence; thin dashed lines are their bounds (theorem 1).

    Example:
        >>> import tempfile, torch
        >>> from chronode.lab.analysis import time_constants
        >>> found = time_constants("ltc", torch.randn(1, 20, 2), hidden_size=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_time_constants(found, f"{folder}/time_constants.png").name
        'time_constants.png'
    """
    figure, ((axes,),) = panels()
    for index in range(min(neurons, found.values.shape[-1])):
        axes.plot(found.time, found.values[0, :, index], color=color(index), lw=2, label=f"neuron {index + 1}")
        for bound in (found.lower[index], found.upper[index]):
            axes.axhline(bound, color=color(index), ls="--", lw=0.8)
    finish(axes, "time (units of dt)", "τ_sys (units of dt)", "Time constants of a running LTC")
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    return save(figure, path)
