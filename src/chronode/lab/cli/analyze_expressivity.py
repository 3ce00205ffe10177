"""`chronode analyze` for LTC: trajectories, computational depth, time constants."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...cli.flags import words
from .analyze_shared import Findings, Hidden, Layers, Piece, Seed, Steps, numbers, progress_bar, table, whole_numbers

Activation = Annotated[str, typer.Option(help="tanh, sigmoid, relu or hardtanh.")]
Width = Annotated[int, typer.Option(min=2, help="Units per layer.")]
Recipe = Annotated[str, typer.Option(help="authors (their published code) or text (the text of the paper).")]
Workers = Annotated[int, typer.Option(min=1, help="Processes.")]


def trajectory(
    model: Annotated[
        str,
        typer.Option(help="neural-ode, ct-rnn, ltc (random networks of the paper), or names from `chronode models`."),
    ] = "neural-ode,ct-rnn,ltc",
    activation: Activation = "tanh",
    width: Width = 100,
    layers: Layers = 1,
    recipe: Recipe = "authors",
    registry: Annotated[bool, typer.Option(help="Use the models of `chronode models` for all names.")] = False,
    explained: Annotated[bool, typer.Option(help="Draw the explained variance instead of the trajectories.")] = False,
    seed: Seed = 0,
) -> Findings:
    """Draw the trajectory of a network (LTC figures 1, 2).

    The input of the network is a circle.

    Example: chronode analyze trajectory --activation relu
    """
    from ..analysis import _circle as circle
    from ..analysis import _expressivity as measure
    from ..analysis import _liquid as liquid
    from ..analysis import _plots_expressivity as plots_expressivity

    setting = circle.Setting(activation, width=width, depth=layers, recipe=recipe)
    found = [
        measure.trajectory(name, setting, seed=seed)
        if name in circle.MODELS and not registry
        else liquid.layer_trajectory(name, hidden_size=width, seed=seed, num_layers=layers)
        for name in words(model)
    ]
    lengths = [one.length if isinstance(one, liquid.LayerTrajectory) else one.lengths[-1] for one in found]
    lines = [f"{one.model}: length {length:.4g}" for one, length in zip(found, lengths, strict=True)]
    draw = plots_expressivity.plot_explained if explained else plots_expressivity.plot_trajectories
    return Findings("\n".join(lines), [Piece("trajectory", found, draw)])


def expressivity(
    over: Annotated[str, typer.Option(help="width, depth, sigma_w, sigma_b, activation, solver or recipe.")] = "width",
    values: Annotated[str, typer.Option(help="Values, separated by commas.")] = "10,25,50,100",
    activation: Activation = "tanh",
    width: Width = 100,
    recipe: Recipe = "authors",
    tries: Annotated[int, typer.Option(min=1, help="Number of random networks per model and value.")] = 10,
    workers: Workers = 1,
    seed: Seed = 0,
) -> Findings:
    """Measure the length of trajectories (LTC figure 3).

    Varies one setting, and shows the bounds of theorems 4 and 5.

    Example: chronode analyze expressivity --over solver --values rk23,rk45,adams,implicit
    """
    from ..analysis import _circle as circle
    from ..analysis import _expressivity as measure
    from ..analysis import _plots_expressivity as plots_expressivity

    given: list[Any] = words(values)
    if over in ("width", "depth", "sigma_w", "sigma_b"):
        read = whole_numbers if over in ("width", "depth") else numbers
        given = list(read("--values", values))
    setting = circle.Setting(activation, width=width, recipe=recipe)
    with progress_bar("expressivity") as progress:
        found = measure.sweep(over, given, setting=setting, tries=tries, seed=seed, workers=workers, progress=progress)
    summary = table(found.models, found.values, found.lengths, "median length")
    return Findings(summary, [Piece("expressivity", found, plots_expressivity.plot_sweep)])


def depth_table(
    tries: Annotated[int, typer.Option(min=1, help="Number of random networks per model and activation.")] = 100,
    width: Annotated[int, typer.Option(min=2, help="Units.")] = 100,
    recipe: Recipe = "authors",
    workers: Workers = 2,
    seed: Seed = 0,
) -> Findings:
    """Measure the computational depth (LTC Table 2).

    Compares neural ODE, CT-RNN and LTC.

    Example: chronode analyze depth-table --tries 10
    """
    from ..analysis import _circle as circle
    from ..analysis import _expressivity as measure
    from ..analysis import _plots_expressivity as plots_expressivity

    setting = circle.Setting(width=width, recipe=recipe)
    with progress_bar("depth-table") as progress:
        found = measure.depth_table(tries, setting=setting, seed=seed, workers=workers, progress=progress)
    title = f"median number of solver steps per input sample x {measure.REFINE}"
    summary = table(found.models, found.values, measure.REFINE * found.depth, title)
    if found.stopped.any():
        summary += f"\n{found.stopped.sum()} tries were stopped after {circle.STEPS_AT_MOST:,} steps"
    return Findings(summary, [Piece("depth-table", found, plots_expressivity.plot_depth)])


def time_constants(
    steps: Steps = 100,
    form: Annotated[str, typer.Option(help="synaptic or dense.")] = "synaptic",
    hidden: Hidden = 6,
    seed: Seed = 0,
) -> Findings:
    """Show the time constants of an LTC that reads a circle.

    Example: chronode analyze time-constants --form dense
    """
    import torch

    from ..analysis import _liquid as liquid
    from ..analysis import _plots_expressivity as plots_expressivity

    angle = torch.linspace(0, 2 * torch.pi, steps)
    x = torch.stack([angle.sin(), angle.cos()], dim=-1)[None]
    dt = float(angle[1]) if steps > 1 else 1.0
    found = liquid.time_constants("ltc", x, dt=dt, hidden_size=hidden, seed=seed, form=form)
    summary = f"τ_sys from {found.values.min():.3g} to {found.values.max():.3g}"
    return Findings(summary, [Piece("time-constants", found, plots_expressivity.plot_time_constants)])
