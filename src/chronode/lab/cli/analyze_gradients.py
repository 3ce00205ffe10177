"""`chronode analyze` for gradients: mmRNN Table 2, gradient flow, the teaching signal, training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .analyze_shared import Findings, Hidden, Models, Piece, Seed, models_in, whole_numbers

if TYPE_CHECKING:
    from ..analysis._gradient_table import GradientTable


def gradients(
    model: Models = "ode-rnn,mmrnn",
    lengths: Annotated[str, typer.Option(help="Sequence lengths, separated by commas.")] = "5,10,25,50",
    setting: Annotated[str, typer.Option(help="'paper' (as in mmRNN Table 2) or 'default' (as created).")] = "paper",
    weight_scale: Annotated[float, typer.Option(help="Additional factor for all weight matrices.")] = 1.0,
    hidden: Hidden = 64,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random initializations.")] = 3,
) -> Findings:
    """Measure gradient norms by length (mmRNN Table 2).

    Example: chronode analyze gradients --model mmrnn,ode-rnn --lengths 5,10,25,50
    """
    from ..analysis._gradient_table import gradient_table
    from ..analysis._plots_gradients import plot_gradient_table

    found = gradient_table(
        models_in(model),
        whole_numbers("--lengths", lengths),
        setting=setting,
        weight_scale=weight_scale,
        hidden_size=hidden,
        seeds=seeds,
    )
    notes = [f"{name}: {text}" for name, text in found.made_as.items()]
    notes.append(
        "norm: of ∂h_T/∂h_0 for each unit of the first part of the state; mean ± standard deviation over units, "
        "sequences and seeds; the paper states neither its norm nor its weights"
    )
    return Findings(_table(found), [Piece("gradients", found, plot_gradient_table)], notes)


def _table(found: GradientTable) -> str:
    """Formats plain columns: with the frames of rich, the numbers of the paper would not fit 80 characters."""
    rows = [["length", *map(str, found.lengths)]]
    for index, name in enumerate(found.models):
        pairs = zip(found.means[index], found.stds[index], strict=True)
        rows.append([f"{name}, chronode", *(_mean_and_std(*pair) for pair in pairs)])
        if name in found.paper:
            known = [found.paper[name].get(length) for length in found.lengths]
            rows.append([f"{name}, paper", *("" if pair is None else _mean_and_std(*pair) for pair in known)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *rest = widths
    lines = [
        f"{row[0]:<{first}}" + "".join(f"  {cell:>{w}}" for cell, w in zip(row[1:], rest, strict=True)) for row in rows
    ]
    return "\n".join(["Gradient norms (mmRNN, Table 2)", *lines])


def _mean_and_std(mean: float, spread: float) -> str:
    digits = ".2f" if 0.01 <= mean < 1e5 else ".1e"
    return f"{mean:{digits}} ± {spread:{digits}}"


def flow(
    model: Models = "ode-rnn,rnn-decay,mmrnn",
    steps: Annotated[int, typer.Option(min=2, help="Sequence length T.")] = 100,
    hidden: Hidden = 64,
    seed: Seed = 0,
) -> Findings:
    """Show the gradient flow over time (mmRNN figure 1).

    How much of step t remains at the last step, on noise with irregular gaps.

    Example: chronode analyze flow --model irnn,rnn,lstm --steps 200
    """
    from ...cli.tables import Table
    from ..analysis._gradients import noise_flows
    from ..analysis._plots_gradients import plot_gradient_flow

    flows = noise_flows(models_in(model), steps=steps, hidden_size=hidden, seed=seed)
    table = Table("model", "log10 of ‖∂h_T/∂h_1‖", "log10 of the ratio to ‖∂h_T/∂h_(T-1)‖", "norm")
    for one in flows:
        table.add_row(one.model, f"{one.log10_norms[:, 1].mean():.2f}", f"{one.log10_ratio.mean():.2f}", one.norm)
    return Findings(table, [Piece("flow", flows, plot_gradient_flow)])


def teaching(
    model: Models = "ode-rnn,mmrnn",
    steps: Annotated[int, typer.Option(min=2, help="Longest block of bits.")] = 31,
    hidden: Hidden = 32,
    seed: Seed = 0,
) -> Findings:
    """Show the gradient of the loss by step (mmRNN figure 3).

    Also draws the loss surface. The data are bit streams.

    Example: chronode analyze teaching --model ode-rnn,mmrnn,lstm
    """
    from ..analysis._losses import teach_bits
    from ..analysis._plots_gradients import plot_loss_gradients, plot_loss_surfaces

    signals, surfaces = teach_bits(models_in(model), steps=steps, hidden_size=hidden, seed=seed)
    lines = [
        f"{signal.model}: {signal.norms[:, 0].mean() / signal.norms[:, -1].mean():.1e} of the signal at the last step "
        f"reaches the first; the loss varies by {surface.values.max() - surface.values.min():.3f} over the plane"
        for signal, surface in zip(signals, surfaces, strict=True)
    ]
    pieces = [Piece("teaching", signals, plot_loss_gradients), Piece("surface", surfaces, plot_loss_surfaces)]
    return Findings("\n".join(lines), pieces)


def training(
    model: Models = "rnn,lstm,irnn",
    length: Annotated[int, typer.Option(min=2, help="Length of the adding problem.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 100,
    every: Annotated[int, typer.Option(min=1, help="Steps between records.")] = 10,
    hidden: Hidden = 32,
    seed: Seed = 0,
) -> Findings:
    """Record the gradient flow in training (iRNN figure 3).

    The task is the adding problem, as in iRNN figures 3, 8 and 9.

    Example: chronode analyze training --model rnn,irnn --length 200 --steps 1000
    """
    from ..analysis._losses import track_adding
    from ..analysis._plots_gradients import plot_history

    histories = track_adding(models_in(model), length=length, steps=steps, every=every, hidden_size=hidden, seed=seed)
    lines = [
        f"{one.model}: loss {one.losses[0]:.3f} → {one.losses[-1]:.3f}, "
        f"gradient ratio {one.ratio[0]:.2g} → {one.ratio[-1]:.2g}"
        for one in histories
    ]
    return Findings("\n".join(lines), [Piece("training", histories, plot_history)])
