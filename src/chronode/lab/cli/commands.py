"""`chronode demo`, `bench`, `reproduce` and `results`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ...cli.flags import words
from ...cli.options import Address, EngineName, engine_for, with_plugins
from ...system import built_in


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    for command in (demo, reproduce, results):
        app.command()(command)
    if (benchmarks := built_in("benchmarks")) is not None:
        app.command()(benchmarks.bench)
    else:  # an installed wheel
        app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(bench)


Format = Literal["markdown", "latex", "csv"]
HOME = "https://github.com/chronode/chronode"


@with_plugins
def demo(
    models: Annotated[str, typer.Option(help="Models to compare, separated by commas.")] = "mmrnn,lstm-dt,ode-rnn",
    epochs: Annotated[int, typer.Option(min=1, help="Number of passes over the training data.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for data, weights and batch order.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for the plot.")] = Path("runs/demo"),
) -> None:
    """Train a few models on irregular events and compare them.

    The task is the parity of event-encoded bit streams; a plot shows the accuracy over epochs.

    Example: chronode demo --models mmrnn,ltc,gru --epochs 10
    """
    from .demo import run_demo

    run_demo(words(models), epochs, seed, output)


def bench() -> None:
    """Time the models (only in a checkout of the repository).

    Example: chronode bench --case mmrnn --repeats 3
    """
    raise ValueError(f"bench is not part of the installed package: git clone {HOME}, then `make bench` there.")


@with_plugins
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="RECIPE", help="Recipes, such as mmrnn/table3.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every recipe.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the recipes.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="List the missing runs and their estimated hours without running them.")
    ] = False,
    budget: Annotated[str, typer.Option(help="Budget: smoke, laptop, long or paper.")] = "laptop",
    only: Annotated[
        str, typer.Option(help="Tasks or columns of the table to run, separated by commas. [example: event]")
    ] = "",
    models: Annotated[str, typer.Option(help="Models to run, separated by commas. [example: irnn,lstm]")] = "",
    also: Annotated[
        str,
        typer.Option(help="Models to add as rows of your own, with the same protocol and budget. [example: my-cell]"),
    ] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Most seeds of a number; by default those of the recipe. [example: 1]")
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of models trained at a time, each in its own process; 0 with Ray: one for each core.",
            rich_help_panel="Workers",
        ),
    ] = 1,
    engine: EngineName = "local",
    address: Address = None,
    ledger: Annotated[Path, typer.Option(help="Folder of the ledger.")] = Path("results"),
    output: Annotated[Path, typer.Option(help="Folder for tables, plots and unfinished runs.")] = Path("runs/tables"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    format: Annotated[Format | None, typer.Option(help="Print markdown, latex or csv. [example: latex]")] = None,
) -> None:
    """Reproduce a table of a paper, or draw one of its figures.

    Our numbers are shown next to the published ones; rows of your own are marked and never counted.

    Example: chronode reproduce mmrnn/table3 --budget laptop --only event
    """
    from ..experiments.ledger import Ledger
    from .reproduce import chosen_recipes, draw, run_reproduce, show_plan, show_recipes, wanted_cells, with_rows

    # Without a worker's own process, the memory that a run took would be that of all runs before it too.
    trainer = engine_for(engine, workers if engine == "ray" else max(workers, 1), address, fresh=True)
    if listed:
        return show_recipes(json)
    chosen, drawn = chosen_recipes(names or [], every)
    chosen = with_rows(chosen, words(also))
    cells = wanted_cells(chosen, budget, words(only), words(models)) if chosen else []  # figures have no cells
    if plan:
        return show_plan(chosen, cells, budget, Ledger(ledger), seeds=seeds, as_json=json)
    draw(drawn, budget, output, json)
    if not chosen:
        return None
    form = "json" if json else format
    run_reproduce(chosen, cells, budget, Ledger(ledger), seeds=seeds, engine=trainer, output=output, form=form)


def results(
    ledger: Annotated[Path, typer.Option(help="Folder of the ledger.")] = Path("results"),
    output: Annotated[Path, typer.Option(help="Page to write.")] = Path("RESULTS.md"),
    archive: Annotated[
        bool, typer.Option("--archive", help="First move runs that no recipe needs to LEDGER/archive.")
    ] = False,
    stale: Annotated[
        str, typer.Option(help="With --archive: changed models, all of whose runs are moved. [example: ct-rnn,gru-d]")
    ] = "",
    format: Annotated[
        Format | None, typer.Option(help="Print all tables as markdown, latex or csv instead. [example: latex]")
    ] = None,
) -> None:
    """Write RESULTS.md from the ledger of finished runs.

    Includes plots, and the figures in LEDGER/figures.

    Example: chronode results
    """
    from ..experiments.ledger import Ledger
    from ..experiments.page import all_tables, render
    from ..experiments.recipe import current_hashes

    if archive:
        current, changed = current_hashes(), set(words(stale))
        moved = Ledger(ledger).archive(lambda entry: entry.config_hash in current and entry.model not in changed)
        print(f"{moved} runs moved to {ledger / 'archive'}")
    if format is not None:
        print("\n\n".join(all_tables(Ledger(ledger), format)))
        return
    filled = render(Ledger(ledger), output, output.parent / ledger.name)
    print(f"{output}: {filled} cells of the tables are filled")
