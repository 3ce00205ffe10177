"""`chronode analyze` for UnICORNN's studies that train."""

from __future__ import annotations

from typing import Annotated

import typer

from .analyze_shared import (
    OUTPUT,
    DeltaT,
    Epochs,
    Hidden,
    Json,
    Layers,
    Output,
    Piece,
    Runs,
    Seed,
    TaskName,
    finish,
    numbers,
    progress_bar,
    scores,
    trial_of,
    whole_numbers,
)


def time_steps(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Layers = 2,
    hidden: Hidden = 32,
    delta_t: DeltaT = 0.3,
    seed: Seed = 0,
    output: Output = OUTPUT,
    json: Json = False,
) -> None:
    """The time steps that a UnICORNN learns (its figure 5).

    Example: chronode analyze time-steps --task psmnist --layers 3 --hidden 256 --delta-t 0.19
    """
    from ..analysis import oscillator_studies, plots_oscillators

    found = oscillator_studies.learned_steps(trial_of(task, epochs, layers, hidden, delta_t, seed))
    summary = f"smallest step: Δt / {found.spread:.1f}"
    finish(
        Piece("time-steps", found, plots_oscillators.plot_effective_steps), summary=summary, output=output, as_json=json
    )


def weight_norms(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Layers = 3,
    hidden: Hidden = 32,
    delta_t: DeltaT = 0.3,
    runs: Runs = 3,
    seed: Seed = 0,
    output: Output = OUTPUT,
    json: Json = False,
) -> None:
    """The norms of UnICORNN's hidden weights during training (its figure 7).

    Example: chronode analyze weight-norms --epochs 20
    """
    from ..analysis import oscillator_studies, plots_oscillators

    trial = trial_of(task, epochs, layers, hidden, delta_t, seed, runs)
    with progress_bar("weight-norms") as progress:
        found = oscillator_studies.weight_norms(trial, progress=progress)
    summary = f"largest norm: {found.norms.max():.3g}"
    finish(
        Piece("weight-norms", found, plots_oscillators.plot_weight_norms), summary=summary, output=output, as_json=json
    )


def sensitivity(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Layers = 2,
    hidden: Hidden = 32,
    delta_ts: Annotated[str, typer.Option("--delta-t", help="Values of Δt, separated by commas.")] = "0.03,0.1,0.3,1",
    alphas: Annotated[str, typer.Option("--alpha", help="Values of α, separated by commas.")] = "0.3,1,3,10",
    runs: Runs = 1,
    seed: Seed = 0,
    output: Output = OUTPUT,
    json: Json = False,
) -> None:
    """How much UnICORNN's score depends on Δt and α (its figure 4).

    Example: chronode analyze sensitivity --runs 3
    """
    from ..analysis import oscillator_studies, plots_oscillators

    trial = trial_of(task, epochs, layers, hidden, 0.3, seed, runs)
    values = {"delta_t": numbers("--delta-t", delta_ts), "alpha": numbers("--alpha", alphas)}
    with progress_bar("sensitivity") as progress:
        found = oscillator_studies.sensitivity(trial, **values, progress=progress)
    summary = "\n".join(scores(part) for part in (found.delta_t, found.alpha))
    finish(
        Piece("sensitivity", found, plots_oscillators.plot_sensitivity), summary=summary, output=output, as_json=json
    )


def stacking(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Annotated[str, typer.Option(help="Numbers of layers, separated by commas.")] = "3,4,5,6",
    hidden: Hidden = 32,
    delta_t: DeltaT = 0.3,
    runs: Runs = 1,
    seed: Seed = 0,
    output: Output = OUTPUT,
    json: Json = False,
) -> None:
    """Residual against plain stacking of UnICORNN (its figure 6).

    Example: chronode analyze stacking --layers 3,6 --runs 3
    """
    from ..analysis import oscillator_studies, plots_oscillators

    trial = trial_of(task, epochs, 1, hidden, delta_t, seed, runs)
    counts = whole_numbers("--layers", layers)
    with progress_bar("stacking") as progress:
        found = oscillator_studies.stacking(trial, layers=counts, progress=progress)
    finish(
        Piece("stacking", found, plots_oscillators.plot_stacking), summary=scores(found), output=output, as_json=json
    )


def subsampling(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Layers = 2,
    hidden: Hidden = 32,
    delta_t: DeltaT = 0.3,
    entries: Annotated[str, typer.Option(help="Numbers of steps to keep, separated by commas.")] = "8,16,32,64",
    runs: Runs = 1,
    seed: Seed = 0,
    output: Output = OUTPUT,
    json: Json = False,
) -> None:
    """UnICORNN's score with only the last, or random, entries of each series (its figure 3).

    Example: chronode analyze subsampling --task eigenworms --entries 1000,5000,17984
    """
    from ..analysis import oscillator_studies, plots_oscillators

    trial = trial_of(task, epochs, layers, hidden, delta_t, seed, runs)
    counts = whole_numbers("--entries", entries)
    with progress_bar("subsampling") as progress:
        found = oscillator_studies.subsampling(trial, entries=counts, progress=progress)
    finish(
        Piece("subsampling", found, plots_oscillators.plot_subsampling),
        summary=scores(found),
        output=output,
        as_json=json,
    )
