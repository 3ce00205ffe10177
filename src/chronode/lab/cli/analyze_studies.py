"""`chronode analyze` for the studies of UnICORNN that train models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .analyze_shared import (
    DeltaT,
    DeltaTs,
    Findings,
    Hidden,
    Layers,
    Piece,
    Seed,
    numbers,
    progress_bar,
    table,
    whole_numbers,
)

if TYPE_CHECKING:
    from ..analysis._oscillator_studies import StudyScores
    from ..analysis._study import StudySetup

TaskName = Annotated[str, typer.Option(help="Task to train on; `chronode tasks` lists all.")]
Epochs = Annotated[int, typer.Option(min=1, help="Number of passes over the training data.")]
Runs = Annotated[int, typer.Option(min=1, help="Number of runs of each kind, with different seeds.")]


def time_steps(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Layers = 2,
    hidden: Hidden = 32,
    delta_t: DeltaT = 0.3,
    seed: Seed = 0,
) -> Findings:
    """Show the learned time steps (UnICORNN figure 5).

    Example: chronode analyze time-steps --task psmnist --layers 3 --hidden 256 --delta-t 0.19
    """
    from ..analysis import _oscillator_studies as oscillator_studies
    from ..analysis import _plots_oscillators as plots_oscillators

    found = oscillator_studies.learned_steps(_trial(task, epochs, hidden, seed, layers=layers, delta_t=delta_t))
    summary = f"smallest step: Δt / {found.spread:.1f}"
    return Findings(summary, [Piece("time-steps", found, plots_oscillators.plot_effective_steps)])


def weight_norms(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Layers = 3,
    hidden: Hidden = 32,
    delta_t: DeltaT = 0.3,
    runs: Runs = 3,
    seed: Seed = 0,
) -> Findings:
    """Show weight norms during training (UnICORNN figure 7).

    Example: chronode analyze weight-norms --epochs 20
    """
    from ..analysis import _oscillator_studies as oscillator_studies
    from ..analysis import _plots_oscillators as plots_oscillators

    trial = _trial(task, epochs, hidden, seed, layers=layers, delta_t=delta_t, runs=runs)
    with progress_bar("weight-norms") as progress:
        found = oscillator_studies.weight_norms(trial, progress=progress)
    summary = f"largest norm: {found.norms.max():.3g}"
    return Findings(summary, [Piece("weight-norms", found, plots_oscillators.plot_weight_norms)])


def sensitivity(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Layers = 2,
    hidden: Hidden = 32,
    delta_t: DeltaTs = "0.03,0.1,0.3,1",
    alpha: Annotated[str, typer.Option(help="Values of α, separated by commas.")] = "0.3,1,3,10",
    runs: Runs = 1,
    seed: Seed = 0,
) -> Findings:
    """Measure the score over Δt and α (UnICORNN figure 4).

    Example: chronode analyze sensitivity --runs 3
    """
    from ..analysis import _oscillator_studies as oscillator_studies
    from ..analysis import _plots_oscillators as plots_oscillators

    trial = _trial(task, epochs, hidden, seed, layers=layers, runs=runs)
    values = {"delta_t": numbers("--delta-t", delta_t), "alpha": numbers("--alpha", alpha)}
    with progress_bar("sensitivity") as progress:
        found = oscillator_studies.sensitivity(trial, **values, progress=progress)
    summary = "\n".join(_scores(part) for part in (found.delta_t, found.alpha))
    return Findings(summary, [Piece("sensitivity", found, plots_oscillators.plot_sensitivity)])


def stacking(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Annotated[str, typer.Option(help="Numbers of layers, separated by commas.")] = "3,4,5,6",
    hidden: Hidden = 32,
    delta_t: DeltaT = 0.3,
    runs: Runs = 1,
    seed: Seed = 0,
) -> Findings:
    """Compare residual and plain stacks (UnICORNN figure 6).

    Example: chronode analyze stacking --layers 3,6 --runs 3
    """
    from ..analysis import _oscillator_studies as oscillator_studies
    from ..analysis import _plots_oscillators as plots_oscillators

    trial = _trial(task, epochs, hidden, seed, delta_t=delta_t, runs=runs)
    counts = whole_numbers("--layers", layers)
    with progress_bar("stacking") as progress:
        found = oscillator_studies.stacking(trial, layers=counts, progress=progress)
    return Findings(_scores(found), [Piece("stacking", found, plots_oscillators.plot_stacking)])


def subsampling(
    task: TaskName = "digits-seq",
    epochs: Epochs = 10,
    layers: Layers = 2,
    hidden: Hidden = 32,
    delta_t: DeltaT = 0.3,
    entries: Annotated[str, typer.Option(help="Numbers of steps to keep, separated by commas.")] = "8,16,32,64",
    runs: Runs = 1,
    seed: Seed = 0,
) -> Findings:
    """Measure the score on fewer steps (UnICORNN figure 3).

    Only the last steps of each series are kept, or random ones.

    Example: chronode analyze subsampling --task eigenworms --entries 1000,5000,17984
    """
    from ..analysis import _oscillator_studies as oscillator_studies
    from ..analysis import _plots_oscillators as plots_oscillators

    trial = _trial(task, epochs, hidden, seed, layers=layers, delta_t=delta_t, runs=runs)
    counts = whole_numbers("--entries", entries)
    with progress_bar("subsampling") as progress:
        found = oscillator_studies.subsampling(trial, entries=counts, progress=progress)
    return Findings(_scores(found), [Piece("subsampling", found, plots_oscillators.plot_subsampling)])


def _trial(
    task: str, epochs: int, hidden: int, seed: int, *, layers: int = 1, delta_t: float = 0.3, runs: int = 1
) -> StudySetup:
    """Returns the trial of a study."""
    from ...training import Settings
    from ..analysis._study import StudySetup

    training = Settings(epochs=epochs, learning_rate=1e-2, seed=seed)
    settings = {"delta_t": delta_t}
    return StudySetup(task, hidden_size=hidden, num_layers=layers, settings=settings, training=training, runs=runs)


def _scores(found: StudyScores) -> str:
    return table(found.kinds, found.values, found.scores, f"test {found.metric} over {found.over}")
