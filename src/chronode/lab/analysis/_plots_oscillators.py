"""Plots of the analyses and studies of UnICORNN and LTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..papers import numbers
from ._expressivity import REFINE, Sweep, Trajectory
from ._liquid import LayerTrajectory, TimeConstants
from ._oscillator_bounds import GradientBounds, Representation, StateBounds
from ._oscillator_studies import EffectiveSteps, Sensitivity, StudyScores, WeightNorms
from ._oscillators import Energy, Reconstruction, Volume
from ._plots import color, draws, finish, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DASHES = ("-", "--", ":", "-.")
NAMES = {"neural-ode": "Neural ODE", "ct-rnn": "CT-RNN", "ltc": "LTC"}
UNITS = {"width": "width k (units)", "depth": "layers", "sigma_w": "σ_w", "sigma_b": "σ_b"}


@draws(Energy)
def _energy(result: Energy) -> Figure:
    """Draws the deviation of the Hamiltonian of each layer from its first value in percent (mean over sequences)."""
    figure, ((axes,),) = panels()
    first = result.values[..., :1]
    change = 100 * ((result.values - first) / np.abs(first)).mean(1)
    for index, line in enumerate(change):
        axes.plot(line, color=color(index), lw=1.5, label=f"layer {index + 1}")
    finish(axes, "step n", "change of H (% of H at step 0)", "Hamiltonian over time", legend=True)
    return figure


@draws(Volume, many=True)
def _volume(results: Sequence[Volume]) -> Figure:
    """Draws the volume of a set of states over time, one line per model (mean of the logarithms over sequences)."""
    figure, ((axes,),) = panels()
    for index, volume in enumerate(results):
        line = volume.log10_volume.mean(0)
        axes.plot(line, color=color(index), ls=DASHES[index % 4], lw=2, label=volume.model)
    finish(axes, "step n", "log₁₀ of the volume (1 at step 0)", "Phase-space volume", legend=True)
    return figure


@draws(Reconstruction)
def _reconstruction(result: Reconstruction) -> Figure:
    """Draws the error of the restored states over inverse steps, one line per Δt, one style per precision."""
    figure, ((axes,),) = panels()
    back = np.arange(1, result.error.shape[-1])
    error = np.where(result.error > 0, result.error, np.nan)[..., 1:]  # 0 cannot be shown on a logarithmic axis
    for i, delta_t in enumerate(result.delta_t):
        for j, dtype in enumerate(result.dtypes):
            name = f"Δt = {delta_t:g}, {dtype}"
            axes.loglog(back, error[i, j], color=color(i), ls=DASHES[j % 4], lw=1.5, label=name)
    finish(axes, "inverse steps", "largest error of y and z", "Error of the inverse", legend=True)
    return figure


@draws(StateBounds)
def _state_bounds(result: StateBounds) -> Figure:
    """Draws the largest |y| and |z| over time; dashed lines are the bounds C.1."""
    figure, (axes,) = panels(2, width=9.2)
    for each, name, measured, bound in (
        (axes[0], "|y|", result.y, result.y_bound),
        (axes[1], "|z|", result.z, result.z_bound),
    ):
        for index, (line, limit) in enumerate(zip(measured, bound, strict=True)):
            each.semilogy(np.maximum(line, 1e-3), color=color(index), lw=1.5, label=f"layer {index + 1}")
            each.semilogy(limit, color=color(index), ls="--", lw=1.5, label=f"layer {index + 1}, bound C.1")
        finish(each, "step n", f"largest {name}", f"Hidden states {name}", legend=True)
    return figure


@draws(GradientBounds)
def _gradient_bounds(result: GradientBounds) -> Figure:
    """Draws the largest gradient over the length; dashed lines are the bounds (12)."""
    figure, ((axes,),) = panels()
    axes.loglog(result.lengths, result.measured, color=color(0), marker="o", lw=2, label="measured")
    axes.loglog(result.lengths, result.bound, color=color(1), marker="s", ls="--", lw=2, label="bound (12)")
    finish(axes, "length N (steps)", "max |∂E/∂θ|", "Gradients of the loss", legend=True)
    return figure


@draws(Representation)
def _representation(result: Representation) -> Figure:
    """Draws the contribution of step k to the gradient and formula (14), and the distance of their ratio from its
    limit.
    """
    figure, (axes,) = panels(2, width=9.2)
    for index, (name, values) in enumerate((("measured", result.measured), ("formula (14)", result.formula))):
        middle = np.median(np.abs(values), axis=1)
        axes[0].loglog(result.delta_t, middle, color=color(index), marker="os"[index], ls=DASHES[index], label=name)
    finish(
        axes[0],
        "Δt",
        f"|contribution of step {result.at} to ∂E/∂w|",
        f"Median over units, n = {result.steps}",
        legend=True,
    )
    limit = (result.steps - result.at + 1) / result.steps
    distance = np.abs(result.ratio - limit).max(1)
    axes[1].loglog(result.delta_t, distance, color=color(0), marker="o", label="worst unit")
    slope = distance[-1] * (np.array(result.delta_t) / result.delta_t[-1]) ** 2
    axes[1].loglog(result.delta_t, slope, color="0.4", ls=":", label="Δt²")
    finish(axes[1], "Δt", f"|measured / formula - {limit:g}|", "Distance from the limit (n - k + 1)/n", legend=True)
    return figure


@draws(EffectiveSteps)
def _effective_steps(result: EffectiveSteps) -> Figure:
    """Draws the effective time steps of all units, smallest first, one line per layer; dashed: the largest possible."""
    figure, ((axes,),) = panels()
    for index, (steps, largest) in enumerate(zip(result.steps, result.delta_t, strict=True)):
        axes.plot(steps, color=color(index), marker=".", lw=1, label=f"layer {index + 1}")
        axes.axhline(largest, color=color(index), ls="--", lw=1)
    finish(axes, "unit, sorted", "effective time step Δt σ(c)", f"Smallest step: Δt / {result.spread:.1f}", legend=True)
    return figure


@draws(WeightNorms)
def _weight_norms(result: WeightNorms) -> Figure:
    """Draws ‖w‖∞ of each layer over epochs: mean and one standard deviation over runs (shaded)."""
    figure, ((axes,),) = panels()
    for index in range(result.norms.shape[1]):
        mean, spread = result.norms[:, index].mean(0), result.norms[:, index].std(0)
        axes.plot(mean, color=color(index), marker="o", ms=3, lw=2, label=f"layer {index + 1}")
        axes.fill_between(range(len(mean)), mean - spread, mean + spread, color=color(index), alpha=0.2, lw=0)
    finish(axes, "epoch", "‖w‖∞", f"Hidden weights during training on {result.task}", legend=True)
    return figure


@draws(Sensitivity)
def _sensitivity(result: Sensitivity) -> Figure:
    """Draws the score over Δt and over α: mean and standard deviation over runs."""
    figure, (axes,) = panels(2, width=9.2)
    for each, part, name in ((axes[0], result.delta_t, "Δt"), (axes[1], result.alpha, "α")):
        _draw_comparison(each, part, name)
        each.set_xscale("log")
    low = min(each.get_ylim()[0] for each in axes)
    high = max(each.get_ylim()[1] for each in axes)
    for each in axes:
        each.set_ylim(low, high)  # the same range, for comparison
    return figure


@draws(StudyScores)
def _study_scores(result: StudyScores) -> Figure:
    """Draws the score over the number of layers or of entries used, one line per kind."""
    figure, ((axes,),) = panels()
    _draw_comparison(axes, result, "layers" if result.over == "layers" else "entries of each series (steps)")
    if result.over == "layers":
        axes.set_xticks(result.values)
    return figure


def _draw_comparison(axes: Any, result: StudyScores, name: str) -> None:
    """Draws mean and standard deviation over runs, one line per kind."""
    scale = 100 if result.metric in ("accuracy", "f1", "auroc") else 1
    for index, kind in enumerate(result.kinds):
        scores = scale * result.scores[index]
        style = {"color": color(index), "marker": "os^"[index % 3], "ls": DASHES[index % 4], "capsize": 3, "lw": 2}
        axes.errorbar(result.values, scores.mean(-1), scores.std(-1), label=kind, **style)
    unit = " (%)" if scale == 100 else ""
    finish(axes, name, f"test {result.metric}{unit}", result.task, legend=len(result.kinds) > 1)


@draws(Trajectory, LayerTrajectory, many=True)
def _trajectories(results: Sequence[Trajectory | LayerTrajectory]) -> Figure:
    """Draws the trajectory of each network (last layer), with its length."""
    figure, (axes,) = panels(len(results), width=max(6.0, 3.4 * len(results)), height=3.6)
    for index, (each, one) in enumerate(zip(axes, results, strict=True)):
        last = one.latent[-1] if isinstance(one, Trajectory) else one.latent
        length = one.lengths[-1] if isinstance(one, Trajectory) else one.length
        each.plot(*last.T, color=color(index), lw=1.5)
        each.plot(*last[0], color="0.2", marker="o", ms=5)
        title = f"{NAMES.get(one.model, one.model)}: length {length:.3g}"
        finish(each, "1st principal component", "2nd principal component", title)
    return figure


@draws(Sweep)
def _sweep(result: Sweep) -> Figure:
    """Draws the trajectory length over the varied setting: median and quartiles; dashed lines are the lower bounds."""
    figure, ((axes,),) = panels()
    numeric = all(isinstance(value, (int, float)) for value in result.values)
    positions = np.array(result.values if numeric else range(len(result.values)), dtype=float)
    for index, model in enumerate(result.models):
        low, middle, high = np.nanquantile(result.lengths[index], (0.25, 0.5, 0.75), axis=-1)
        bars = np.stack([middle - low, high - middle])
        # Shifted, so that bars do not hide each other.
        at = positions * 1.03 ** (index - 1) if numeric else positions + 0.08 * (index - 1)
        style = {
            "color": color(index),
            "marker": "os^"[index % 3],
            "capsize": 3,
            "lw": 2 if numeric else 0,
            "elinewidth": 2,
        }
        axes.errorbar(at, middle, bars, label=NAMES[model], **style)
        bound = np.nanmedian(result.bounds[index], axis=-1)
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
    axes.set_xticks(positions, [f"{value:g}" if numeric else str(value) for value in result.values], minor=False)
    axes.minorticks_off()
    title = f"{result.lengths.shape[-1]} tries, recipe {result.setting.recipe!r}"
    finish(axes, UNITS.get(result.over, result.over), "trajectory length (input: 2π)", title)
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=9.5, loc="outside right center")
    return figure


@draws(Trajectory, LayerTrajectory, kind="explained", many=True)
def _explained(results: Sequence[Trajectory | LayerTrajectory], components: int = 8) -> Figure:
    """Draws the explained variance of each principal component (bars) and the cumulative sum (line)."""
    figure, (axes,) = panels(len(results), width=max(6.0, 3.4 * len(results)), height=3.4)
    for index, (each, one) in enumerate(zip(axes, results, strict=True)):
        shares = one.explained[-1] if isinstance(one, Trajectory) else one.explained
        shares = 100 * shares[:components]
        number = np.arange(1, len(shares) + 1)
        each.bar(number, shares, color=color(index))
        each.plot(number, shares.cumsum(), color="0.2", marker="o", ms=4, lw=1.5, label="sum")
        each.set_xticks(number)
        finish(each, "principal component", "variance explained (%)", NAMES.get(one.model, one.model), legend=True)
    return figure


@draws(Sweep, kind="depth")
def _depth(result: Sweep) -> Figure:
    """Draws the computational depth of each model (LTC Table 2), median and quartiles; crosses are the values of the
    paper.
    """
    figure, ((axes,),) = panels()
    positions = np.arange(len(result.values))
    paper = {(figure.model, figure.options.removeprefix("activation=")): figure.mean for figure in numbers("ltc", "2")}
    for index, model in enumerate(result.models):
        low, middle, high = np.quantile(REFINE * result.depth[index], (0.25, 0.5, 0.75), axis=-1)
        at, bars = positions + 0.26 * (index - 1), np.stack([middle - low, high - middle])
        axes.bar(at, middle, 0.24, yerr=bars, capsize=3, color=color(index), label=NAMES[model])
        if result.over == "activation":
            means = [paper[model, value] for value in result.values]
            label = "mean of the paper" if index == len(result.models) - 1 else None
            axes.plot(at, means, color="black", marker="X", ls="", ms=8, mec="white", label=label)
    axes.set_yscale("log")
    axes.set_xticks(positions, result.values)
    title = f"Computational depth, median of {result.depth.shape[-1]} tries"
    finish(axes, result.over, f"solver steps per input sample x {REFINE}", title, legend=True)
    return figure


@draws(TimeConstants)
def _time_constants(result: TimeConstants, neurons: int = 6) -> Figure:
    """Draws τ_sys of some neurons of the first sequence; thin dashed lines are their bounds (theorem 1)."""
    figure, ((axes,),) = panels()
    for index in range(min(neurons, result.values.shape[-1])):
        axes.plot(result.time, result.values[0, :, index], color=color(index), lw=2, label=f"neuron {index + 1}")
        for bound in (result.lower[index], result.upper[index]):
            axes.axhline(bound, color=color(index), ls="--", lw=0.8)
    finish(axes, "time (units of dt)", "τ_sys (units of dt)", "Time constants of a running LTC")
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
