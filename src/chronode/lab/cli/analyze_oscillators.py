"""`chronode analyze` for UnICORNN: energy, volume, inverse, bounds, the gradient formula."""

from __future__ import annotations

from typing import Annotated

import typer

from .analyze_shared import (
    DeltaT,
    DeltaTs,
    Findings,
    Hidden,
    Layers,
    Models,
    Piece,
    Seed,
    Steps,
    models_in,
    noise_series,
    numbers,
    whole_numbers,
)

Alpha = Annotated[float, typer.Option(help="α of UnICORNN.")]


def energy(
    steps: Steps = 2000,
    delta_t: DeltaT = 0.1,
    alpha: Alpha = 1.0,
    layers: Layers = 1,
    hidden: Hidden = 16,
    noise: Annotated[bool, typer.Option(help="Noise as input instead of a constant.")] = False,
    seed: Seed = 0,
) -> Findings:
    """Show the Hamiltonian of UnICORNN over time.

    Example: chronode analyze energy --delta-t 0.05
    """
    import torch

    from ..analysis import _oscillators as oscillators
    from ..analysis import _plots_oscillators as plots_oscillators

    x = noise_series(1, steps, 1, seed=seed) if noise else torch.ones(1, steps, 1)
    found = oscillators.energy(
        "unicornn", x, hidden_size=hidden, num_layers=layers, delta_t=delta_t, alpha=alpha, seed=seed
    )
    summary = f"largest change of H: {100 * found.drift.max():.3g}% of its initial value"
    return Findings(summary, [Piece("energy", found, plots_oscillators.plot_energy)])


def volume(
    model: Models = "unicornn,cornn,gru,ltc,lstm",
    steps: Steps = 100,
    hidden: Hidden = 8,
    seed: Seed = 0,
) -> Findings:
    """Show the volume of a set of states over time.

    Example: chronode analyze volume --model unicornn,lstm
    """
    from ..analysis import _oscillators as oscillators
    from ..analysis import _plots_oscillators as plots_oscillators

    x = noise_series(4, steps, 2, seed=seed)
    found = [oscillators.phase_space_volume(m, x, hidden_size=hidden, seed=seed) for m in models_in(model)]
    lines = [
        f"{one.model}: log10 of the volume after {steps} steps {one.log10_volume[:, -1].mean():.4g}" for one in found
    ]
    return Findings("\n".join(lines), [Piece("volume", found, plots_oscillators.plot_volume)])


def inverse(
    steps: Steps = 2000,
    delta_t: DeltaTs = "0.03,0.1,0.3",
    layers: Layers = 1,
    hidden: Hidden = 16,
    seed: Seed = 0,
) -> Findings:
    """Measure the error of UnICORNN's inverse.

    The states before each step are computed from those after it.

    Example: chronode analyze inverse --steps 5000 --delta-t 0.1
    """
    from ..analysis import _oscillators as oscillators
    from ..analysis import _plots_oscillators as plots_oscillators

    values = numbers("--delta-t", delta_t)
    found = oscillators.reconstruction(steps, delta_t=values, hidden_size=hidden, num_layers=layers, seed=seed)
    lines = [
        f"Δt = {value:g}, {kind}: largest error {found.error[i, j].max():.2g}"
        for i, value in enumerate(found.delta_t)
        for j, kind in enumerate(found.dtypes)
    ]
    return Findings("\n".join(lines), [Piece("inverse", found, plots_oscillators.plot_reconstruction)])


def state_bounds(
    steps: Steps = 500,
    delta_t: DeltaT = 0.1,
    alpha: Alpha = 1.0,
    layers: Layers = 2,
    hidden: Hidden = 16,
    seed: Seed = 0,
) -> Findings:
    """Compare the states of UnICORNN with the bound C.1.

    Example: chronode analyze state-bounds --alpha 4
    """
    from ..analysis import _oscillator_bounds as oscillator_bounds
    from ..analysis import _plots_oscillators as plots_oscillators

    x = noise_series(4, steps, 2, seed=seed)
    found = oscillator_bounds.state_bounds(
        "unicornn", x, hidden_size=hidden, num_layers=layers, delta_t=delta_t, alpha=alpha, seed=seed
    )
    summary = f"largest |y| {found.y.max():.3g} of {found.y_bound[:, -1].max():.3g} allowed at the end"
    return Findings(summary, [Piece("state-bounds", found, plots_oscillators.plot_state_bounds)])


def gradient_bounds(
    lengths: Annotated[str, typer.Option(help="Lengths N, separated by commas.")] = "10,30,100,300,1000",
    delta_t: DeltaT = 0.1,
    alpha: Alpha = 1.0,
    layers: Layers = 1,
    hidden: Hidden = 16,
    seed: Seed = 0,
) -> Findings:
    """Compare the gradients of UnICORNN with the bound (12).

    Example: chronode analyze gradient-bounds --layers 3
    """
    from ..analysis import _oscillator_bounds as oscillator_bounds
    from ..analysis import _plots_oscillators as plots_oscillators

    sizes = whole_numbers("--lengths", lengths)
    found = oscillator_bounds.gradient_bounds(
        "unicornn", sizes, hidden_size=hidden, num_layers=layers, delta_t=delta_t, alpha=alpha, seed=seed
    )
    lines = [
        f"N = {n}: measured {m:.3g}, bound {b:.3g}"
        for n, m, b in zip(found.lengths, found.measured, found.bound, strict=True)
    ]
    return Findings("\n".join(lines), [Piece("gradient-bounds", found, plots_oscillators.plot_gradient_bounds)])


def gradient_formula(
    steps: Steps = 100,
    at: Annotated[int, typer.Option(min=2, help="Step k whose contribution is measured.")] = 3,
    seed: Seed = 0,
) -> Findings:
    """Compare the gradient of UnICORNN with formula (14).

    The comparison is made as Δt goes to 0.

    Example: chronode analyze gradient-formula --steps 200
    """
    from ..analysis import _oscillator_bounds as oscillator_bounds
    from ..analysis import _plots_oscillators as plots_oscillators

    found = oscillator_bounds.representation(steps=steps, at=at, seed=seed)
    summary = f"measured / formula at Δt = {found.delta_t[-1]:g}: {found.ratio[-1].mean():.6f}"
    return Findings(summary, [Piece("gradient-formula", found, plots_oscillators.plot_representation)])
