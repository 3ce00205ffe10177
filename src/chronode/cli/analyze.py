"""`chronode analyze`: gradient flow and equilibria of models at their initialisation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from ..analysis import GradientTable

analyze_app = typer.Typer(
    help="Look inside models: gradient flow, equilibria, phase portraits.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Output = Annotated[Path, typer.Option(help="Folder for plots and JSON.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the weights and the inputs.")]
Hidden = Annotated[int, typer.Option(min=1, help="Units H.")]
OUTPUT = Path("runs/analyze")


def names_in(option: str, text: str) -> list[str]:
    """The comma-separated names of an option, each a registered model."""
    from ..nn.registry import find

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"{option} is empty; give names as in `chronode models`, separated by commas.")
    for name in names:
        find(name)
    return names


def numbers_in(option: str, text: str) -> list[int]:
    """The comma-separated whole numbers of an option."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} takes whole numbers separated by commas such as 5,10,25, got {text!r}.") from None


@analyze_app.command()
def gradients(
    model: Annotated[str, typer.Option(help="Models, separated by commas.")] = "ode-rnn,mmrnn",
    lengths: Annotated[str, typer.Option(help="Sequence lengths, separated by commas.")] = "5,10,25,50",
    setting: Annotated[str, typer.Option(help="'paper' (as mmRNN's Table 2) or 'default' (as created).")] = "paper",
    weight_scale: Annotated[float, typer.Option(help="A further factor on all weight matrices.")] = 1.0,
    hidden: Hidden = 64,
    seeds: Annotated[int, typer.Option(min=1, help="Initialisations.")] = 3,
    output: Output = OUTPUT,
) -> None:
    """Gradient norms by sequence length: mmRNN's Table 2 beside the paper's.

    Example: chronode analyze gradients --model mmrnn,ode-rnn --lengths 5,10,25,50
    """
    from ..analysis import gradient_table
    from ..analysis.plots_gradients import plot_gradient_table

    found = gradient_table(
        names_in("--model", model),
        numbers_in("--lengths", lengths),
        setting=setting,
        weight_scale=weight_scale,
        hidden_size=hidden,
        seeds=seeds,
    )
    console = Console()
    console.print(_table(found))
    for name, told in found.made_as.items():
        console.print(f"{name}: {told}", highlight=False)
    console.print(
        "norm: of ∂h_T/∂h_0 for each unit of the first part of the state; mean ± standard deviation over units, "
        "sequences and seeds; the paper states neither its norm nor its weights",
        highlight=False,
    )
    found.to_json(output / "gradients.json")
    _tell(console, plot_gradient_table(found, output / "gradients.png"))


def _table(found: GradientTable) -> Table:
    table = Table("sequence length", title="Gradient norms (mmRNN, Table 2)")
    for length in found.lengths:
        table.add_column(str(length), justify="right")
    for index, name in enumerate(found.models):
        cells = zip(found.means[index], found.stds[index], strict=True)
        table.add_row(f"{name}, here", *(f"{mean:.3g} ± {std:.2g}" for mean, std in cells))
        if name in found.paper:
            told = [found.paper[name].get(length) for length in found.lengths]
            table.add_row(f"{name}, paper", *("" if pair is None else f"{pair[0]} ± {pair[1]}" for pair in told))
    return table


@analyze_app.command()
def flow(
    model: Annotated[str, typer.Option(help="Models, separated by commas.")] = "ode-rnn,rnn-decay,mmrnn",
    steps: Annotated[int, typer.Option(min=2, help="Sequence length T.")] = 100,
    hidden: Hidden = 64,
    seed: Seed = 0,
    output: Output = OUTPUT,
) -> None:
    """How much of step t is left at the last step (mmRNN Fig. 1), on noise with irregular gaps.

    Example: chronode analyze flow --model irnn,rnn,lstm --steps 200
    """
    import torch

    from ..analysis import gradient_flow
    from ..analysis.plots_gradients import plot_gradient_flow

    dice = torch.Generator().manual_seed(seed)
    x, dt = torch.randn(2, steps, 1, generator=dice), torch.rand(2, steps, generator=dice)
    names = names_in("--model", model)
    flows = [gradient_flow(name, x, dt=dt, hidden_size=hidden, seed=seed) for name in names]
    console = Console()
    table = Table("model", "log10 of ‖∂h_T/∂h_1‖", "log10 of the ratio to ‖∂h_T/∂h_(T-1)‖")
    for one in flows:
        table.add_row(one.model, f"{one.log10_norms[:, 1].mean():.2f}", f"{one.log10_ratio.mean():.2f}")
    console.print(table)
    for one in flows:
        one.to_json(output / f"flow-{one.model}.json")
    _tell(console, plot_gradient_flow(flows, output / "flow.png"))


@analyze_app.command()
def equilibrium(
    model: Annotated[str, typer.Option(help="irnn, sirnn or ernn.")] = "irnn",
    steps: Annotated[int, typer.Option(min=2, help="Recursion steps K.")] = 40,
    eta: Annotated[float, typer.Option(help="Step size η.")] = 0.5,
    hidden: Hidden = 32,
    seed: Seed = 0,
    output: Output = OUTPUT,
) -> None:
    """Convergence to scipy's root (iRNN Fig. 6) and the eigenvalues of the recursion's Jacobian (Fig. 7).

    Example: chronode analyze equilibrium --model ernn
    """
    import torch

    from ..analysis import convergence, equilibrium_eigenvalues
    from ..analysis.opened import as_layer
    from ..analysis.plots_equilibrium import plot_convergence, plot_eigenvalues
    from ..nn.equilibrium import EquilibriumCell
    from ..nn.registry import find

    if not issubclass(find(model).cell, EquilibriumCell):
        raise ValueError(f"--model {model} has no equilibrium recursion: choose irnn, sirnn or ernn.")
    layer = as_layer(model, 3, hidden, seed, recurrent="full")
    x = torch.randn(8, 30, 3, generator=torch.Generator().manual_seed(seed))
    found, values = convergence(layer, x[:, 0], steps=steps, eta=eta), equilibrium_eigenvalues(layer, x)
    console = Console()
    console.print(f"rate per step: {found.rates.mean():.3f} (guaranteed: {found.bound:.3f})", highlight=False)
    console.print(f"eigenvalues with a negative real part: {values.stable:.1%}", highlight=False)
    found.to_json(output / "convergence.json")
    values.to_json(output / "eigenvalues.json")
    _tell(console, plot_convergence(found, output / "convergence.png"))
    _tell(console, plot_eigenvalues(values, output / "eigenvalues.png"))


@analyze_app.command()
def phase(
    model: Annotated[str, typer.Option(help="Models, separated by commas.")] = "rnn,fastrnn,irnn",
    steps: Annotated[int, typer.Option(min=2, help="Steps of the random walk.")] = 1000,
    seed: Seed = 0,
    output: Output = OUTPUT,
) -> None:
    """Phase portraits of two units under a random walk (iRNN Fig. 2, ERNN Fig. 1).

    Example: chronode analyze phase --model rnn,fastrnn,ernn
    """
    from ..analysis import phase_portrait
    from ..analysis.plots_equilibrium import plot_phase

    found = phase_portrait(names_in("--model", model), steps=steps, seed=seed)
    console = Console()
    for name, speed in zip(found.models, found.speed, strict=True):
        console.print(f"{name}: a median step moves the state by {speed:.2%} of its range", highlight=False)
    found.to_json(output / "phase.json")
    _tell(console, plot_phase(found, output / "phase.png"))


@analyze_app.command()
def teaching(
    model: Annotated[str, typer.Option(help="Models, separated by commas.")] = "ode-rnn,mmrnn",
    steps: Annotated[int, typer.Option(min=2, help="Longest block of bits.")] = 31,
    hidden: Hidden = 32,
    seed: Seed = 0,
    output: Output = OUTPUT,
) -> None:
    """The loss's gradient at every step and the loss's surface (mmRNN Fig. 3), on bit streams.

    Example: chronode analyze teaching --model ode-rnn,mmrnn,lstm
    """
    import torch

    from ..analysis import loss_gradients, loss_surface
    from ..analysis.opened import as_layer
    from ..analysis.plots_gradients import plot_loss_gradients, plot_loss_surfaces
    from ..model import SequenceModel
    from ..tasks.bitstream import bitstream

    batch = bitstream(64, seed, event=False, shortest=steps, longest=steps).batch()
    assert batch.target is not None
    gradients, surfaces = [], []
    for name in names_in("--model", model):
        torch.manual_seed(seed)
        built = SequenceModel(as_layer(name, 1, hidden, seed, outputs="last"), 2)
        gradients.append(loss_gradients(built, batch.x, batch.target, dt=batch.dt, lengths=batch.lengths))
        told = {"dt": batch.dt, "lengths": batch.lengths, "points": 15, "radius": 2.0, "seed": seed}
        surfaces.append(loss_surface(built, batch.x, batch.target, **told))
    console = Console()
    for found, surface in zip(gradients, surfaces, strict=True):
        share = found.norms[:, 0].mean() / found.norms[:, -1].mean()
        spread = surface.values.max() - surface.values.min()
        console.print(
            f"{found.model}: {share:.1e} of the signal at the last step reaches the first; "
            f"the loss varies by {spread:.3f} over the plane",
            highlight=False,
        )
        found.to_json(output / f"teaching-{found.model}.json")
    _tell(console, plot_loss_gradients(gradients, output / "teaching.png"))
    _tell(console, plot_loss_surfaces(surfaces, output / "surface.png"))


@analyze_app.command()
def training(
    model: Annotated[str, typer.Option(help="Models, separated by commas.")] = "rnn,lstm,irnn",
    length: Annotated[int, typer.Option(min=2, help="Length of the adding problem.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 100,
    every: Annotated[int, typer.Option(min=1, help="Steps between records.")] = 10,
    hidden: Hidden = 32,
    seed: Seed = 0,
    output: Output = OUTPUT,
) -> None:
    """Gradient flow while learning the adding problem (iRNN Fig. 3, 8, 9).

    Example: chronode analyze training --model rnn,irnn --length 200 --steps 1000
    """
    from ..analysis import track_adding
    from ..analysis.plots_gradients import plot_history

    names = names_in("--model", model)
    histories = track_adding(names, length=length, steps=steps, every=every, hidden_size=hidden, seed=seed)
    console = Console()
    for history in histories:
        console.print(
            f"{history.model}: loss {history.losses[0]:.3f} → {history.losses[-1]:.3f}, "
            f"gradient ratio {history.ratio[0]:.2g} → {history.ratio[-1]:.2g}",
            highlight=False,
        )
        history.to_json(output / f"training-{history.model}.json")
    _tell(console, plot_history(histories, output / "training.png"))


def _tell(console: Console, path: Path) -> None:
    console.print(f"plot: {path}", soft_wrap=True, highlight=False)
