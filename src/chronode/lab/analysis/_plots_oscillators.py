"""Plots of oscillator analyses and studies, one function each, written as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._oscillator_bounds import GradientBounds, Representation, StateBounds
from ._oscillator_studies import EffectiveSteps, Sensitivity, StudyScores, WeightNorms
from ._oscillators import Energy, Reconstruction, Volume
from ._plots import color, finish, panels, save

DASHES = ("-", "--", ":", "-.")


def plot_energy(found: Energy, path: str | Path) -> Path:
    """Draws the deviation of the Hamiltonian of each layer from its first value in percent (mean over sequences).

    Example:
        >>> import tempfile, torch
        >>> from chronode.lab.analysis import energy
        >>> found = energy("unicornn", torch.ones(50, 1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_energy(found, f"{folder}/energy.png").name
        'energy.png'
    """
    figure, ((axes,),) = panels()
    first = found.values[..., :1]
    change = 100 * ((found.values - first) / np.abs(first)).mean(1)
    for index, line in enumerate(change):
        axes.plot(line, color=color(index), lw=1.5, label=f"layer {index + 1}")
    finish(axes, "step n", "change of H (% of H at step 0)", "Hamiltonian over time", legend=True)
    return save(figure, path)


def plot_volume(found: Sequence[Volume], path: str | Path) -> Path:
    """Draws the volume of a set of states over time, one line per model (mean of the logarithms over sequences).

    Example:
        >>> import tempfile, torch
        >>> from chronode.lab.analysis import phase_space_volume
        >>> found = [phase_space_volume(name, torch.randn(9, 2), hidden_size=4) for name in ("unicornn", "gru")]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_volume(found, f"{folder}/volume.png").name
        'volume.png'
    """
    figure, ((axes,),) = panels()
    for index, volume in enumerate(found):
        line = volume.log10_volume.mean(0)
        axes.plot(line, color=color(index), ls=DASHES[index % 4], lw=2, label=volume.model)
    finish(axes, "step n", "log₁₀ of the volume (1 at step 0)", "Phase-space volume", legend=True)
    return save(figure, path)


def plot_reconstruction(found: Reconstruction, path: str | Path) -> Path:
    """Draws the error of the restored states over inverse steps, one line per Δt, one style per precision.

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import reconstruction
        >>> found = reconstruction(20, delta_t=[0.1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_reconstruction(found, f"{folder}/reconstruction.png").name
        'reconstruction.png'
    """
    figure, ((axes,),) = panels()
    back = np.arange(1, found.error.shape[-1])
    error = np.where(found.error > 0, found.error, np.nan)[..., 1:]  # 0 cannot be shown on a logarithmic axis
    for i, delta_t in enumerate(found.delta_t):
        for j, dtype in enumerate(found.dtypes):
            name = f"Δt = {delta_t:g}, {dtype}"
            axes.loglog(back, error[i, j], color=color(i), ls=DASHES[j % 4], lw=1.5, label=name)
    finish(axes, "inverse steps", "largest error of y and z", "Error of the inverse", legend=True)
    return save(figure, path)


def plot_state_bounds(found: StateBounds, path: str | Path) -> Path:
    """Draws the largest |y| and |z| over time; dashed lines are the bounds C.1.

    Example:
        >>> import tempfile, torch
        >>> from chronode.lab.analysis import state_bounds
        >>> found = state_bounds("unicornn", torch.randn(20, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_state_bounds(found, f"{folder}/state_bounds.png").name
        'state_bounds.png'
    """
    figure, (axes,) = panels(2, width=9.2)
    for each, name, measured, bound in (
        (axes[0], "|y|", found.y, found.y_bound),
        (axes[1], "|z|", found.z, found.z_bound),
    ):
        for index, (line, limit) in enumerate(zip(measured, bound, strict=True)):
            each.semilogy(np.maximum(line, 1e-3), color=color(index), lw=1.5, label=f"layer {index + 1}")
            each.semilogy(limit, color=color(index), ls="--", lw=1.5, label=f"layer {index + 1}, bound C.1")
        finish(each, "step n", f"largest {name}", f"Hidden states {name}", legend=True)
    return save(figure, path)


def plot_gradient_bounds(found: GradientBounds, path: str | Path) -> Path:
    """Draws the largest gradient over the length; dashed lines are the bounds (12).

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import gradient_bounds
        >>> found = gradient_bounds(lengths=[5, 10])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_gradient_bounds(found, f"{folder}/gradient_bounds.png").name
        'gradient_bounds.png'
    """
    figure, ((axes,),) = panels()
    axes.loglog(found.lengths, found.measured, color=color(0), marker="o", lw=2, label="measured")
    axes.loglog(found.lengths, found.bound, color=color(1), marker="s", ls="--", lw=2, label="bound (12)")
    finish(axes, "length N (steps)", "max |∂E/∂θ|", "Gradients of the loss", legend=True)
    return save(figure, path)


def plot_representation(found: Representation, path: str | Path) -> Path:
    """Draws the contribution of step k to the gradient and formula (14), and the distance of their ratio from its
    limit.

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import representation
        >>> found = representation([0.1, 0.01], steps=10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_representation(found, f"{folder}/representation.png").name
        'representation.png'
    """
    figure, (axes,) = panels(2, width=9.2)
    for index, (name, values) in enumerate((("measured", found.measured), ("formula (14)", found.formula))):
        middle = np.median(np.abs(values), axis=1)
        axes[0].loglog(found.delta_t, middle, color=color(index), marker="os"[index], ls=DASHES[index], label=name)
    finish(
        axes[0],
        "Δt",
        f"|contribution of step {found.at} to ∂E/∂w|",
        f"Median over units, n = {found.steps}",
        legend=True,
    )
    limit = (found.steps - found.at + 1) / found.steps
    distance = np.abs(found.ratio - limit).max(1)
    axes[1].loglog(found.delta_t, distance, color=color(0), marker="o", label="worst unit")
    slope = distance[-1] * (np.array(found.delta_t) / found.delta_t[-1]) ** 2
    axes[1].loglog(found.delta_t, slope, color="0.4", ls=":", label="Δt²")
    finish(axes[1], "Δt", f"|measured / formula - {limit:g}|", "Distance from the limit (n - k + 1)/n", legend=True)
    return save(figure, path)


def plot_effective_steps(found: EffectiveSteps, path: str | Path) -> Path:
    """Draws the effective time steps of all units, smallest first, one line per layer; dashed: the largest possible.

    Example:
        >>> import tempfile, chronode
        >>> from chronode.lab.analysis import effective_steps
        >>> found = effective_steps(chronode.create("unicornn", 3, 16, num_layers=2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_effective_steps(found, f"{folder}/effective_steps.png").name
        'effective_steps.png'
    """
    figure, ((axes,),) = panels()
    for index, (steps, largest) in enumerate(zip(found.steps, found.delta_t, strict=True)):
        axes.plot(steps, color=color(index), marker=".", lw=1, label=f"layer {index + 1}")
        axes.axhline(largest, color=color(index), ls="--", lw=1)
    finish(axes, "unit, sorted", "effective time step Δt σ(c)", f"Smallest step: Δt / {found.spread:.1f}", legend=True)
    return save(figure, path)


def plot_weight_norms(found: WeightNorms, path: str | Path) -> Path:
    """Draws ‖w‖∞ of each layer over epochs: mean and one standard deviation over runs (shaded).

    Example:
        >>> import tempfile
        >>> found = WeightNorms("adding", np.array([[[1.0, 1.2, 1.1]]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_weight_norms(found, f"{folder}/weight_norms.png").name
        'weight_norms.png'
    """
    figure, ((axes,),) = panels()
    for index in range(found.norms.shape[1]):
        mean, spread = found.norms[:, index].mean(0), found.norms[:, index].std(0)
        axes.plot(mean, color=color(index), marker="o", ms=3, lw=2, label=f"layer {index + 1}")
        axes.fill_between(range(len(mean)), mean - spread, mean + spread, color=color(index), alpha=0.2, lw=0)
    finish(axes, "epoch", "‖w‖∞", f"Hidden weights during training on {found.task}", legend=True)
    return save(figure, path)


def plot_sensitivity(found: Sensitivity, path: str | Path) -> Path:
    """Draws the score over Δt and over α: mean and standard deviation over runs.

    Example:
        >>> import tempfile
        >>> part = StudyScores("adding", "mse", "delta_t", (0.1, 0.3), ("unicornn",), np.array([[[0.2], [0.1]]]))
        >>> found = Sensitivity(part, part)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_sensitivity(found, f"{folder}/sensitivity.png").name
        'sensitivity.png'
    """
    figure, (axes,) = panels(2, width=9.2)
    for each, part, name in ((axes[0], found.delta_t, "Δt"), (axes[1], found.alpha, "α")):
        _draw_comparison(each, part, name)
        each.set_xscale("log")
    low = min(each.get_ylim()[0] for each in axes)
    high = max(each.get_ylim()[1] for each in axes)
    for each in axes:
        each.set_ylim(low, high)  # the same range, for comparison
    return save(figure, path)


def plot_stacking(found: StudyScores, path: str | Path) -> Path:
    """Draws the score over the number of layers, one line per kind of stacking.

    Example:
        >>> import tempfile
        >>> found = StudyScores("adding", "mse", "layers", (1, 2), ("plain",), np.array([[[0.2], [0.1]]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_stacking(found, f"{folder}/stacking.png").name
        'stacking.png'
    """
    figure, ((axes,),) = panels()
    _draw_comparison(axes, found, "layers")
    axes.set_xticks(found.values)
    return save(figure, path)


def plot_subsampling(found: StudyScores, path: str | Path) -> Path:
    """Draws the score over the number of entries used.

    Example:
        >>> import tempfile
        >>> found = StudyScores("adding", "mse", "entries", (8, 16), ("last entries",), np.array([[[0.2], [0.1]]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_subsampling(found, f"{folder}/subsampling.png").name
        'subsampling.png'
    """
    figure, ((axes,),) = panels()
    _draw_comparison(axes, found, "entries of each series (steps)")
    return save(figure, path)


def _draw_comparison(axes: Any, found: StudyScores, name: str) -> None:
    """Draws mean and standard deviation over runs, one line per kind."""
    scale = 100 if found.metric in ("accuracy", "f1", "auroc") else 1
    for index, kind in enumerate(found.kinds):
        scores = scale * found.scores[index]
        style = {"color": color(index), "marker": "os^"[index % 3], "ls": DASHES[index % 4], "capsize": 3, "lw": 2}
        axes.errorbar(found.values, scores.mean(-1), scores.std(-1), label=kind, **style)
    unit = " (%)" if scale == 100 else ""
    finish(axes, name, f"test {found.metric}{unit}", found.task, legend=len(found.kinds) > 1)
