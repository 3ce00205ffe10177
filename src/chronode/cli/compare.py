"""`chronode compare` and `ensemble`: several runs, compared or combined into one model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..settings import one_of
from . import flags
from .options import Address, ConfigFile, DataSource, EngineName, Workers, check_folder, engine_for, with_plugins
from .tables import Table

if TYPE_CHECKING:
    from ..search import Comparison, PlannedRun, RunResult
    from ..search.engine import Engine


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.command()(with_plugins(ensemble))
    app.command(cls=flags.PanelCommand)(with_plugins(flags.with_settings(compare, without=("model", "budget"))))


def compare(
    data: DataSource = None,
    models: Annotated[
        str, typer.Option(help="Models to compare, separated by commas.", rich_help_panel="Search")
    ] = "mmrnn,lstm-dt",
    seeds: Annotated[
        int, typer.Option(min=1, help="Runs per model, each with its own split and weights.", rich_help_panel="Search")
    ] = 3,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the runs; by default runs/compare-NAME. [example: runs/first]"),
    ] = None,
    config: ConfigFile = None,
    workers: Workers = 0,
    engine: EngineName = "local",
    address: Address = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    format: Annotated[
        str, typer.Option("--format", help="Print the table for other programs. [example: markdown, latex or csv]")
    ] = "",
    **given: Any,
) -> None:
    """Compare models on a file or a task, over several seeds.

    The table shows mean ± standard deviation over seeds, best model first, and the mean difference of each other model
    to the best over the same seeds, with a 95% interval.

    Within a seed, all models use the same series. Networks are compared without a linear start, unless --start linear
    is given. Finished runs are kept: the same command resumes after an interruption, and with more models or seeds it
    trains only the new ones. Set an option of a single model with MODEL.NAME=VALUE.

    Example: chronode compare bitstream --models mmrnn,unicornn,lstm --seeds 3 --epochs 5 --set unicornn.delta_t=0.2
    """
    from ..report import FORMATS, text_table
    from ..report.many_pages import write_comparison
    from ..search import Comparison, plan
    from ..storage import json_text, write_json
    from .options import folder_for, this_command
    from .train import effective

    if format:
        one_of("--format", format, FORMATS)
    runner = engine_for(engine, workers, address)
    asked = effective(data, config, given, Console(stderr=True))
    folder = folder_for("compare", asked.data.source, output)
    runs = plan(asked, flags.words(models), seeds, folder)
    console = Console(stderr=json or bool(format))
    comparison = Comparison.of(_train(runs, runner, asked.training.epochs, console, folder))
    summary = {"data": asked.data.source, **comparison.as_dict()}
    title = f"Models on {Path(asked.data.source).name}: {seeds} seed{'s' * (seeds > 1)}"
    report = write_comparison(comparison, folder / "comparison.html", title=title, command=this_command())
    summary["report"] = str(report)
    write_json(folder / "comparison.json", summary)
    if json:
        print(json_text(summary), end="")
    elif format:
        headings, rows = comparison.table()
        print(text_table(headings, rows, format, numeric=headings[1:]))
    else:
        _show(console, comparison, summary, folder)
    if comparison.failed:
        raise typer.Exit(1)


def _train(runs: list[PlannedRun], engine: Engine, epochs: int, console: Console, folder: Path) -> list[RunResult]:
    """Returns all results in the order of `runs`; Ctrl-C prints how to resume and exits with code 1."""
    from ..report.run_page import draw_run
    from ..search import compare as train_all
    from ..training import ProgressBar
    from .outcome import say

    kept = {str(planned.folder) for planned in runs if planned.result() is not None}
    if kept:
        say(console, f"{len(kept)} of {len(runs)} runs already exist in {folder}")
    results: dict[str, RunResult] = {}
    hooks: dict[str, Any] = {"engine": engine, "draw": draw_run}
    try:
        with ProgressBar(epochs, console.file, runs=len(runs), ended=len(kept)) as bar:
            hooks["on_start"] = lambda planned: bar.begin(_label(planned))
            hooks["on_event"] = lambda planned, event: bar.event(_label(planned), event)
            for result in train_all(runs, **hooks):
                results[result.run] = result
                if result.run not in kept:
                    bar.end(_label(result), _line(result))
    except KeyboardInterrupt as error:
        typer.echo(f"stopped; finished runs are in {folder}. Run the same command to resume.", err=True)
        raise typer.Exit(1) from error
    return [results[str(planned.folder)] for planned in runs]


def _label(one: PlannedRun | RunResult) -> str:
    return f"{one.model}, seed {one.seed}"


def _line(result: RunResult) -> str:
    name = _label(result)
    if result.fault:
        return f"{name}: failed"
    scores = ", ".join(f"{metric} {value:.4g}" for metric, value in (result.test or {}).items() if value is not None)
    return f"{name}: test {scores} ({result.seconds:.2g} s per epoch)"


def _show(console: Console, comparison: Comparison, summary: dict[str, Any], folder: Path) -> None:
    from .outcome import say

    console.print(_table(comparison, summary["data"]))
    for one in comparison.failed:
        say(console, f"{one.model}, seed {one.seed}: {one.fault}", style="red")
    say(console, f"runs: {folder}   report: {summary['report']}")
    best = comparison.rows[0]
    if best.results:
        say(console, f"next: chronode show {best.results[0].run}   or add models (--models) and seeds (--seeds)")


def _table(comparison: Comparison, source: str) -> Table:
    (first, *others), rows = comparison.table()
    table = Table(first, title=f"Test part of {source}", caption="mean ± standard deviation over seeds")
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row, style="dim" if row[0].startswith("baseline: ") else None)
    return table


def ensemble(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUNS", help="Run folders, or folders of runs such as that of `compare`.")
    ],
    best: Annotated[
        int | None,
        typer.Option(min=2, help="Only this number of runs, the best by their validation metric. [example: 3]"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Run folder; by default runs/ensemble-1, -2, ... [example: runs/three]"),
    ] = None,
) -> None:
    """Combine several runs into one model whose outputs are averaged.

    The runs must have been trained on the same series with the same seed. The result is a run folder for predict,
    evaluate, check, threshold, pack and the others; its table has the single runs beside it.

    Example: chronode ensemble runs/compare-vitals --best 3 -o runs/three
    """
    from ..report.run_page import draw_run
    from ..runs import best_runs, ensemble_runs, next_folder
    from .outcome import say, show_outcome

    for folder in runs:
        check_folder(folder)
    console = Console()
    folders = best_runs(runs, best)
    say(console, f"ensemble of {', '.join(map(str, folders))}")
    outcome = ensemble_runs(folders, output or next_folder("runs", "ensemble"), command=sys.argv[1:], draw=draw_run)
    show_outcome(console, outcome)
