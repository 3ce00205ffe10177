"""`chronode analyze`: analyses of models; each command prints numbers and draws a plot."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...cli.flags import words
from ...cli.options import with_plugins
from ...cli.predict import Anyway, RunFolder
from .. import analysis
from .analyze_shared import (
    Findings,
    Integers,
    Json,
    Names,
    analyze_app,
    command,
    noise_series,
    numbers,
    progress_bar,
    show,
    table,
    whole_numbers,
)

if TYPE_CHECKING:
    from ..analysis import GradientTable


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.add_typer(analyze_app, name="analyze")


@analyze_app.command("health")
@with_plugins
def health(
    run: RunFolder,
    data: Annotated[
        str | None, typer.Argument(help="File with the columns of training; the test part of the run by default.")
    ] = None,
    anyway: Anyway = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for health.png and health.json; the run folder by default. [example: out]"),
    ] = None,
    json: Json = False,
) -> None:
    """Check the health of a trained model.

    Prints five findings (gradient flow, saturation, dead units, ranges, time) and draws a page of plots.

    Example: chronode analyze health runs/vitals-1
    """
    from ...runs import load, series_of

    trained = load(run, anyway=anyway)
    series = series_of(trained, data, labeled=False, anyway=anyway)
    for note in series.notes if data else ():
        print(f"note: {note}", file=sys.stderr)
    result = analysis.health(trained.model, series)
    result = replace(result, findings=(*_against_baselines(run), *result.findings))
    folder = output or (run if run.is_dir() else run.parent)
    show("health", Findings("\n".join(result.findings), result), folder, as_json=json)


def _against_baselines(folder: Path) -> list[str]:
    """Returns a finding if the model of a run folder does not beat a baseline on the test part."""
    from ...judge import unbeaten
    from ...runs import Run

    summary = Run.open(folder).summary() if (folder / "run.json").is_file() else None
    best = None if summary is None else unbeaten(asdict(summary))
    if best is None:
        return []
    return [f'Baselines: the model is not healthy: on the test part it does not beat "{best[0]}" ({best[1]:.4g}).']


@command()
def gradients(
    model: Names = ("ode-rnn", "mmrnn"),
    lengths: Integers = (5, 10, 25, 50),
    setting: str = "paper",
    weight_scale: float = 1.0,
    hidden: int = 64,
    seeds: int = 3,
) -> Findings:
    """Measure gradient norms by length (mmRNN Table 2).

    Example: chronode analyze gradients --model mmrnn,ode-rnn --lengths 5,10,25,50
    """
    options: dict[str, Any] = {"setting": setting, "weight_scale": weight_scale, "hidden_size": hidden, "seeds": seeds}
    result = analysis.gradient_table(model, lengths, **options)
    notes = [f"{name}: {text}" for name, text in result.made_as.items()]
    notes.append(
        "norm: of ∂h_T/∂h_0 for each unit of the first part of the state; mean ± standard deviation over units, "
        "sequences and seeds; the paper states neither its norm nor its weights"
    )
    return Findings(_norms(result), result, notes=notes)


def _norms(result: GradientTable) -> str:
    """Formats plain columns: with the frames of rich, the numbers of the paper would not fit 80 characters."""
    rows = [["length", *map(str, result.lengths)]]
    for index, name in enumerate(result.models):
        pairs = zip(result.means[index], result.stds[index], strict=True)
        rows.append([f"{name}, chronode", *(_mean_and_std(*pair) for pair in pairs)])
        if name in result.paper:
            printed = [result.paper[name].get(length) for length in result.lengths]
            rows.append([f"{name}, paper", *("" if pair is None else _mean_and_std(*pair) for pair in printed)])
    first, *rest = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [
        f"{row[0]:<{first}}" + "".join(f"  {cell:>{w}}" for cell, w in zip(row[1:], rest, strict=True)) for row in rows
    ]
    return "\n".join(["Gradient norms (mmRNN, Table 2)", *lines])


def _mean_and_std(mean: float, spread: float) -> str:
    digits = ".2f" if 0.01 <= mean < 1e5 else ".1e"
    return f"{mean:{digits}} ± {spread:{digits}}"


@command(steps=("Sequence length T.", 2))
def flow(
    model: Names = ("ode-rnn", "rnn-decay", "mmrnn"), steps: int = 100, hidden: int = 64, seed: int = 0
) -> Findings:
    """Show the gradient flow over time (mmRNN figure 1).

    How much of step t remains at the last step, on noise with irregular gaps.

    Example: chronode analyze flow --model irnn,rnn,lstm --steps 200
    """
    from ...cli.tables import Table

    flows = analysis.noise_flows(model, steps=steps, hidden_size=hidden, seed=seed)
    rows = Table("model", "log10 of ‖∂h_T/∂h_1‖", "log10 of the ratio to ‖∂h_T/∂h_(T-1)‖", "norm")
    for one in flows:
        rows.add_row(one.model, f"{one.log10_norms[:, 1].mean():.2f}", f"{one.log10_ratio.mean():.2f}", one.norm)
    return Findings(rows, flows)


@command(steps=("Longest block of bits.", 2))
def teaching(model: Names = ("ode-rnn", "mmrnn"), steps: int = 31, hidden: int = 32, seed: int = 0) -> Findings:
    """Show the gradient of the loss by step (mmRNN figure 3).

    Also draws the loss surface. The data are bit streams.

    Example: chronode analyze teaching --model ode-rnn,mmrnn,lstm
    """
    signals, surfaces = analysis.teach_bits(model, steps=steps, hidden_size=hidden, seed=seed)
    lines = [
        f"{signal.model}: {signal.norms[:, 0].mean() / signal.norms[:, -1].mean():.1e} of the signal at the last step "
        f"reaches the first; the loss varies by {surface.values.max() - surface.values.min():.3f} over the plane"
        for signal, surface in zip(signals, surfaces, strict=True)
    ]
    return Findings("\n".join(lines), {"teaching": signals, "surface": surfaces})


@command(steps=("Training steps.", 1))
def training(
    model: Names = ("rnn", "lstm", "irnn"),
    length: int = 50,
    steps: int = 100,
    every: int = 10,
    hidden: int = 32,
    seed: int = 0,
) -> Findings:
    """Record the gradient flow in training (iRNN figure 3).

    The task is the adding problem, as in iRNN figures 3, 8 and 9.

    Example: chronode analyze training --model rnn,irnn --length 200 --steps 1000
    """
    sizes = {"length": length, "steps": steps, "every": every, "hidden_size": hidden, "seed": seed}
    histories = analysis.track_adding(model, **sizes)
    lines = [
        f"{one.model}: loss {one.losses[0]:.3f} → {one.losses[-1]:.3f}, "
        f"gradient ratio {one.ratio[0]:.2g} → {one.ratio[-1]:.2g}"
        for one in histories
    ]
    return Findings("\n".join(lines), histories)


@command(model="irnn, sirnn or ernn.", steps=("Recursion steps K.", 2))
def equilibrium(model: str = "irnn", steps: int = 40, eta: float = 0.5, hidden: int = 32, seed: int = 0) -> Findings:
    """Show convergence and eigenvalues (iRNN figures 6, 7).

    Convergence to the root that SciPy finds, and eigenvalues of the Jacobian there.

    Example: chronode analyze equilibrium --model ernn
    """
    import numpy as np

    from ...nn import find_model
    from ...nn.cells.irnn import EquilibriumCell
    from ..analysis._instrumented import as_layer

    if not issubclass(find_model(model).cell, EquilibriumCell):
        raise ValueError(f"--model {model} is not an equilibrium model: choose irnn, sirnn or ernn.")
    layer, x = as_layer(model, 3, hidden, seed, recurrent="full"), noise_series(8, 30, 3, seed=seed)
    distances = analysis.convergence(layer, x[:, 0], steps=steps, eta=eta)
    values = analysis.equilibrium_eigenvalues(layer, x)
    summary = (
        f"rate per step: {np.nanmean(distances.rates):.3f} (guaranteed: {distances.bound:.3f})\n"
        f"eigenvalues with a negative real part: {values.stable:.1%}"
    )
    return Findings(summary, {"convergence": distances, "eigenvalues": values})


@command(steps=("Steps of the random walk.", 2))
def phase(model: Names = ("rnn", "fastrnn", "irnn"), steps: int = 1000, seed: int = 0) -> Findings:
    """Draw phase portraits of two units (iRNN figure 2).

    The input is a random walk, as in ERNN figure 1.

    Example: chronode analyze phase --model rnn,fastrnn,ernn
    """
    result = analysis.phase_portrait(model, steps=steps, seed=seed)
    lines = [
        f"{name}: a median step moves the state by {speed:.2%} of its range"
        for name, speed in zip(result.models, result.speed, strict=True)
    ]
    return Findings("\n".join(lines), result)


@command(model="neural-ode, ct-rnn, ltc (random networks of the paper), or names from `chronode models`.")
def trajectory(
    model: str = "neural-ode,ct-rnn,ltc",
    activation: str = "tanh",
    width: int = 100,
    layers: int = 1,
    recipe: str = "authors",
    registry: bool = False,
    explained: bool = False,
    seed: int = 0,
) -> Findings:
    """Draw the trajectory of a network (LTC figures 1, 2).

    The input of the network is a circle.

    Example: chronode analyze trajectory --activation relu
    """
    from ..analysis._circle import MODELS

    setting = analysis.Setting(activation, width=width, depth=layers, recipe=recipe)
    results = [
        analysis.trajectory(name, setting, seed=seed)
        if name in MODELS and not registry
        else analysis.layer_trajectory(name, hidden_size=width, seed=seed, num_layers=layers)
        for name in words(model)
    ]
    lengths = [one.length if isinstance(one, analysis.LayerTrajectory) else one.lengths[-1] for one in results]
    lines = [f"{one.model}: length {length:.4g}" for one, length in zip(results, lengths, strict=True)]
    return Findings("\n".join(lines), results, "explained" if explained else None)


@command()
def expressivity(
    over: str = "width",
    values: str = "10,25,50,100",
    activation: str = "tanh",
    width: int = 100,
    recipe: str = "authors",
    tries: int = 10,
    workers: int = 1,
    seed: int = 0,
) -> Findings:
    """Measure the length of trajectories (LTC figure 3).

    Varies one setting, and shows the bounds of theorems 4 and 5.

    Example: chronode analyze expressivity --over solver --values rk23,rk45,adams,implicit
    """
    chosen: list[Any] = words(values)
    if over in ("width", "depth", "sigma_w", "sigma_b"):
        read = whole_numbers if over in ("width", "depth") else numbers
        chosen = list(read("--values", values))
    setting = analysis.Setting(activation, width=width, recipe=recipe)
    options: dict[str, Any] = {"setting": setting, "tries": tries, "seed": seed, "workers": workers}
    with progress_bar("expressivity") as progress:
        result = analysis.sweep(over, chosen, **options, progress=progress)
    return Findings(table(result.models, result.values, result.lengths, "median length"), result)


@command(tries=("Number of random networks per model and activation.", 1), width=("Units.", 2))
def depth_table(
    tries: int = 100, width: int = 100, recipe: str = "authors", workers: int = 2, seed: int = 0
) -> Findings:
    """Measure the computational depth (LTC Table 2).

    Compares neural ODE, CT-RNN and LTC.

    Example: chronode analyze depth-table --tries 10
    """
    from ..analysis._circle import STEPS_AT_MOST
    from ..analysis._expressivity import REFINE

    setting = analysis.Setting(width=width, recipe=recipe)
    with progress_bar("depth-table") as progress:
        result = analysis.depth_table(tries, setting=setting, seed=seed, workers=workers, progress=progress)
    title = f"median number of solver steps per input sample x {REFINE}"
    summary = table(result.models, result.values, REFINE * result.depth, title)
    if result.stopped.any():
        summary += f"\n{result.stopped.sum()} tries were stopped after {STEPS_AT_MOST:,} steps"
    return Findings(summary, result, "depth")


@command()
def time_constants(steps: int = 100, form: str = "synaptic", hidden: int = 6, seed: int = 0) -> Findings:
    """Show the time constants of an LTC that reads a circle.

    Example: chronode analyze time-constants --form dense
    """
    import torch

    angle = torch.linspace(0, 2 * torch.pi, steps)
    x = torch.stack([angle.sin(), angle.cos()], dim=-1)[None]
    dt = float(angle[1]) if steps > 1 else 1.0
    result = analysis.time_constants("ltc", x, dt=dt, hidden_size=hidden, seed=seed, form=form)
    return Findings(f"τ_sys from {result.values.min():.3g} to {result.values.max():.3g}", result)


from . import analyze_oscillators as analyze_oscillators  # noqa: E402 - after these, in the order of --help
