"""`chronode analyze` for UnICORNN: energy, volume, inverse, bounds, and the studies that train models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .. import analysis
from .analyze_shared import (
    DeltaT,
    DeltaTs,
    Findings,
    Hidden,
    Layers,
    Models,
    Seed,
    Steps,
    command,
    models_in,
    noise_series,
    numbers,
    progress_bar,
    table,
    whole_numbers,
)

if TYPE_CHECKING:
    from ..analysis import StudyScores, StudySetup

Alpha = Annotated[float, typer.Option(help="α of UnICORNN.")]
TaskName = Annotated[str, typer.Option(help="Task to train on; `chronode tasks` lists all.")]
Epochs = Annotated[int, typer.Option(min=1, help="Number of passes over the training data.")]
Runs = Annotated[int, typer.Option(min=1, help="Number of runs of each kind, with different seeds.")]


@command
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
    x = noise_series(1, steps, 1, seed=seed)
    x = x if noise else x.new_ones(1, steps, 1)
    settings = {"num_layers": layers, "delta_t": delta_t, "alpha": alpha}
    result = analysis.energy("unicornn", x, hidden_size=hidden, seed=seed, **settings)
    return Findings(f"largest change of H: {100 * result.drift.max():.3g}% of its initial value", result)


@command
def volume(
    model: Models = "unicornn,cornn,gru,ltc,lstm", steps: Steps = 100, hidden: Hidden = 8, seed: Seed = 0
) -> Findings:
    """Show the volume of a set of states over time.

    Example: chronode analyze volume --model unicornn,lstm
    """
    x = noise_series(4, steps, 2, seed=seed)
    results = [analysis.phase_space_volume(name, x, hidden_size=hidden, seed=seed) for name in models_in(model)]
    lines = [
        f"{one.model}: log10 of the volume after {steps} steps {one.log10_volume[:, -1].mean():.4g}" for one in results
    ]
    return Findings("\n".join(lines), results)


@command
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
    sizes = {"hidden_size": hidden, "num_layers": layers, "seed": seed}
    result = analysis.reconstruction(steps, delta_t=numbers("--delta-t", delta_t), **sizes)
    lines = [
        f"Δt = {value:g}, {kind}: largest error {result.error[i, j].max():.2g}"
        for i, value in enumerate(result.delta_t)
        for j, kind in enumerate(result.dtypes)
    ]
    return Findings("\n".join(lines), result)


@command
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
    x, settings = noise_series(4, steps, 2, seed=seed), {"num_layers": layers, "delta_t": delta_t, "alpha": alpha}
    result = analysis.state_bounds("unicornn", x, hidden_size=hidden, seed=seed, **settings)
    return Findings(f"largest |y| {result.y.max():.3g} of {result.y_bound[:, -1].max():.3g} allowed at the end", result)


@command
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
    sizes, settings = whole_numbers("--lengths", lengths), {"num_layers": layers, "delta_t": delta_t, "alpha": alpha}
    result = analysis.gradient_bounds("unicornn", sizes, hidden_size=hidden, seed=seed, **settings)
    lines = [
        f"N = {n}: measured {measured:.3g}, bound {bound:.3g}"
        for n, measured, bound in zip(result.lengths, result.measured, result.bound, strict=True)
    ]
    return Findings("\n".join(lines), result)


@command
def gradient_formula(
    steps: Steps = 100,
    at: Annotated[int, typer.Option(min=2, help="Step k whose contribution is measured.")] = 3,
    seed: Seed = 0,
) -> Findings:
    """Compare the gradient of UnICORNN with formula (14).

    The comparison is made as Δt goes to 0.

    Example: chronode analyze gradient-formula --steps 200
    """
    result = analysis.representation(steps=steps, at=at, seed=seed)
    return Findings(f"measured / formula at Δt = {result.delta_t[-1]:g}: {result.ratio[-1].mean():.6f}", result)


@command
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
    result = analysis.learned_steps(_setup(task, epochs, hidden, seed, layers=layers, delta_t=delta_t))
    return Findings(f"smallest step: Δt / {result.spread:.1f}", result)


@command
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
    setup = _setup(task, epochs, hidden, seed, layers=layers, delta_t=delta_t, runs=runs)
    with progress_bar("weight-norms") as progress:
        result = analysis.weight_norms(setup, progress=progress)
    return Findings(f"largest norm: {result.norms.max():.3g}", result)


@command
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
    setup = _setup(task, epochs, hidden, seed, layers=layers, runs=runs)
    values = {"delta_t": numbers("--delta-t", delta_t), "alpha": numbers("--alpha", alpha)}
    with progress_bar("sensitivity") as progress:
        result = analysis.sensitivity(setup, **values, progress=progress)
    return Findings("\n".join(_scores(part) for part in (result.delta_t, result.alpha)), result)


@command
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
    setup = _setup(task, epochs, hidden, seed, delta_t=delta_t, runs=runs)
    counts = whole_numbers("--layers", layers)
    with progress_bar("stacking") as progress:
        result = analysis.stacking(setup, layers=counts, progress=progress)
    return Findings(_scores(result), result)


@command
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
    setup = _setup(task, epochs, hidden, seed, layers=layers, delta_t=delta_t, runs=runs)
    counts = whole_numbers("--entries", entries)
    with progress_bar("subsampling") as progress:
        result = analysis.subsampling(setup, entries=counts, progress=progress)
    return Findings(_scores(result), result)


def _setup(
    task: str, epochs: int, hidden: int, seed: int, *, layers: int = 1, delta_t: float = 0.3, runs: int = 1
) -> StudySetup:
    """Returns the training that a study repeats."""
    from ...training import Settings

    training = Settings(epochs=epochs, learning_rate=1e-2, seed=seed)
    sizes = {"hidden_size": hidden, "num_layers": layers, "runs": runs}
    return analysis.StudySetup(task, settings={"delta_t": delta_t}, training=training, **sizes)


def _scores(result: StudyScores) -> str:
    return table(result.kinds, result.values, result.scores, f"test {result.metric} over {result.over}")
