"""`chronode analyze` for UnICORNN: energy, volume, inverse, bounds, and the studies that train models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import analysis
from .analyze_shared import Findings, Floats, Integers, Names, command, noise_series, progress_bar, table

if TYPE_CHECKING:
    from ..analysis import StudyScores, StudySetup


@command()
def energy(
    steps: int = 2000,
    delta_t: float = 0.1,
    alpha: float = 1.0,
    layers: int = 1,
    hidden: int = 16,
    noise: bool = False,
    seed: int = 0,
) -> Findings:
    """Show the Hamiltonian of UnICORNN over time.

    Example: chronode analyze energy --delta-t 0.05
    """
    x = noise_series(1, steps, 1, seed=seed)
    x = x if noise else x.new_ones(1, steps, 1)
    settings = {"num_layers": layers, "delta_t": delta_t, "alpha": alpha}
    result = analysis.energy("unicornn", x, hidden_size=hidden, seed=seed, **settings)
    return Findings(f"largest change of H: {100 * result.drift.max():.3g}% of its initial value", result)


@command()
def volume(
    model: Names = ("unicornn", "cornn", "gru", "ltc", "lstm"), steps: int = 100, hidden: int = 8, seed: int = 0
) -> Findings:
    """Show the volume of a set of states over time.

    Example: chronode analyze volume --model unicornn,lstm
    """
    x = noise_series(4, steps, 2, seed=seed)
    results = [analysis.phase_space_volume(name, x, hidden_size=hidden, seed=seed) for name in model]
    lines = [
        f"{one.model}: log10 of the volume after {steps} steps {one.log10_volume[:, -1].mean():.4g}" for one in results
    ]
    return Findings("\n".join(lines), results)


@command(delta_t="Values of Δt, separated by commas.")
def inverse(
    steps: int = 2000, delta_t: Floats = (0.03, 0.1, 0.3), layers: int = 1, hidden: int = 16, seed: int = 0
) -> Findings:
    """Measure the error of UnICORNN's inverse.

    The states before each step are computed from those after it.

    Example: chronode analyze inverse --steps 5000 --delta-t 0.1
    """
    sizes = {"hidden_size": hidden, "num_layers": layers, "seed": seed}
    result = analysis.reconstruction(steps, delta_t=delta_t, **sizes)
    lines = [
        f"Δt = {value:g}, {kind}: largest error {result.error[i, j].max():.2g}"
        for i, value in enumerate(result.delta_t)
        for j, kind in enumerate(result.dtypes)
    ]
    return Findings("\n".join(lines), result)


@command()
def state_bounds(
    steps: int = 500, delta_t: float = 0.1, alpha: float = 1.0, layers: int = 2, hidden: int = 16, seed: int = 0
) -> Findings:
    """Compare the states of UnICORNN with the bound C.1.

    Example: chronode analyze state-bounds --alpha 4
    """
    x, settings = noise_series(4, steps, 2, seed=seed), {"num_layers": layers, "delta_t": delta_t, "alpha": alpha}
    result = analysis.state_bounds("unicornn", x, hidden_size=hidden, seed=seed, **settings)
    return Findings(f"largest |y| {result.y.max():.3g} of {result.y_bound[:, -1].max():.3g} allowed at the end", result)


@command(lengths="Lengths N, separated by commas.")
def gradient_bounds(
    lengths: Integers = (10, 30, 100, 300, 1000),
    delta_t: float = 0.1,
    alpha: float = 1.0,
    layers: int = 1,
    hidden: int = 16,
    seed: int = 0,
) -> Findings:
    """Compare the gradients of UnICORNN with the bound (12).

    Example: chronode analyze gradient-bounds --layers 3
    """
    sizes, settings = lengths, {"num_layers": layers, "delta_t": delta_t, "alpha": alpha}
    result = analysis.gradient_bounds("unicornn", sizes, hidden_size=hidden, seed=seed, **settings)
    lines = [
        f"N = {n}: measured {measured:.3g}, bound {bound:.3g}"
        for n, measured, bound in zip(result.lengths, result.measured, result.bound, strict=True)
    ]
    return Findings("\n".join(lines), result)


@command()
def gradient_formula(steps: int = 100, at: int = 3, seed: int = 0) -> Findings:
    """Compare the gradient of UnICORNN with formula (14).

    The comparison is made as Δt goes to 0.

    Example: chronode analyze gradient-formula --steps 200
    """
    result = analysis.representation(steps=steps, at=at, seed=seed)
    return Findings(f"measured / formula at Δt = {result.delta_t[-1]:g}: {result.ratio[-1].mean():.6f}", result)


@command()
def time_steps(
    task: str = "digits-seq", epochs: int = 10, layers: int = 2, hidden: int = 32, delta_t: float = 0.3, seed: int = 0
) -> Findings:
    """Show the learned time steps (UnICORNN figure 5).

    Example: chronode analyze time-steps --task psmnist --layers 3 --hidden 256 --delta-t 0.19
    """
    result = analysis.learned_steps(_setup(task, epochs, hidden, seed, layers=layers, delta_t=delta_t))
    return Findings(f"smallest step: Δt / {result.spread:.1f}", result)


@command()
def weight_norms(
    task: str = "digits-seq",
    epochs: int = 10,
    layers: int = 3,
    hidden: int = 32,
    delta_t: float = 0.3,
    runs: int = 3,
    seed: int = 0,
) -> Findings:
    """Show weight norms during training (UnICORNN figure 7).

    Example: chronode analyze weight-norms --epochs 20
    """
    setup = _setup(task, epochs, hidden, seed, layers=layers, delta_t=delta_t, runs=runs)
    with progress_bar("weight-norms") as progress:
        result = analysis.weight_norms(setup, progress=progress)
    return Findings(f"largest norm: {result.norms.max():.3g}", result)


@command(delta_t="Values of Δt, separated by commas.", alpha="Values of α, separated by commas.")
def sensitivity(
    task: str = "digits-seq",
    epochs: int = 10,
    layers: int = 2,
    hidden: int = 32,
    delta_t: Floats = (0.03, 0.1, 0.3, 1.0),
    alpha: Floats = (0.3, 1.0, 3.0, 10.0),
    runs: int = 1,
    seed: int = 0,
) -> Findings:
    """Measure the score over Δt and α (UnICORNN figure 4).

    Example: chronode analyze sensitivity --runs 3
    """
    setup = _setup(task, epochs, hidden, seed, layers=layers, runs=runs)
    values = {"delta_t": delta_t, "alpha": alpha}
    with progress_bar("sensitivity") as progress:
        result = analysis.sensitivity(setup, **values, progress=progress)
    return Findings("\n".join(_scores(part) for part in (result.delta_t, result.alpha)), result)


@command(layers="Numbers of layers, separated by commas.")
def stacking(
    task: str = "digits-seq",
    epochs: int = 10,
    layers: Integers = (3, 4, 5, 6),
    hidden: int = 32,
    delta_t: float = 0.3,
    runs: int = 1,
    seed: int = 0,
) -> Findings:
    """Compare residual and plain stacks (UnICORNN figure 6).

    Example: chronode analyze stacking --layers 3,6 --runs 3
    """
    setup = _setup(task, epochs, hidden, seed, delta_t=delta_t, runs=runs)
    with progress_bar("stacking") as progress:
        result = analysis.stacking(setup, layers=layers, progress=progress)
    return Findings(_scores(result), result)


@command()
def subsampling(
    task: str = "digits-seq",
    epochs: int = 10,
    layers: int = 2,
    hidden: int = 32,
    delta_t: float = 0.3,
    entries: Integers = (8, 16, 32, 64),
    runs: int = 1,
    seed: int = 0,
) -> Findings:
    """Measure the score on fewer steps (UnICORNN figure 3).

    Only the last steps of each series are kept, or random ones.

    Example: chronode analyze subsampling --task eigenworms --entries 1000,5000,17984
    """
    setup = _setup(task, epochs, hidden, seed, layers=layers, delta_t=delta_t, runs=runs)
    with progress_bar("subsampling") as progress:
        result = analysis.subsampling(setup, entries=entries, progress=progress)
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
