"""`chronode analyze` for iRNN and ERNN: equilibria and phase portraits."""

from __future__ import annotations

from typing import Annotated

import typer

from .analyze_shared import Findings, Hidden, Models, Piece, Seed, models_in, noise_series


def equilibrium(
    model: Annotated[str, typer.Option(help="irnn, sirnn or ernn.")] = "irnn",
    steps: Annotated[int, typer.Option(min=2, help="Recursion steps K.")] = 40,
    eta: Annotated[float, typer.Option(help="Step size η.")] = 0.5,
    hidden: Hidden = 32,
    seed: Seed = 0,
) -> Findings:
    """Show convergence and eigenvalues (iRNN figures 6, 7).

    Convergence to the root that SciPy finds, and eigenvalues of the Jacobian there.

    Example: chronode analyze equilibrium --model ernn
    """
    import numpy as np

    from ...nn import find_model
    from ...nn.cells.irnn import EquilibriumCell
    from ..analysis._equilibrium import convergence, equilibrium_eigenvalues
    from ..analysis._instrumented import as_layer
    from ..analysis._plots_equilibrium import plot_convergence, plot_eigenvalues

    if not issubclass(find_model(model).cell, EquilibriumCell):
        raise ValueError(f"--model {model} is not an equilibrium model: choose irnn, sirnn or ernn.")
    layer = as_layer(model, 3, hidden, seed, recurrent="full")
    x = noise_series(8, 30, 3, seed=seed)
    found, values = convergence(layer, x[:, 0], steps=steps, eta=eta), equilibrium_eigenvalues(layer, x)
    summary = (
        f"rate per step: {np.nanmean(found.rates):.3f} (guaranteed: {found.bound:.3f})\n"
        f"eigenvalues with a negative real part: {values.stable:.1%}"
    )
    pieces = [Piece("convergence", found, plot_convergence), Piece("eigenvalues", values, plot_eigenvalues)]
    return Findings(summary, pieces)


def phase(
    model: Models = "rnn,fastrnn,irnn",
    steps: Annotated[int, typer.Option(min=2, help="Steps of the random walk.")] = 1000,
    seed: Seed = 0,
) -> Findings:
    """Draw phase portraits of two units (iRNN figure 2).

    The input is a random walk, as in ERNN figure 1.

    Example: chronode analyze phase --model rnn,fastrnn,ernn
    """
    from ..analysis._phase import phase_portrait
    from ..analysis._plots_equilibrium import plot_phase

    found = phase_portrait(models_in(model), steps=steps, seed=seed)
    lines = [
        f"{name}: a median step moves the state by {speed:.2%} of its range"
        for name, speed in zip(found.models, found.speed, strict=True)
    ]
    return Findings("\n".join(lines), [Piece("phase", found, plot_phase)])
