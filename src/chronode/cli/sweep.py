"""`chronode sweep`: search for good settings of a model by validation."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..settings import SettingError, named
from . import flags
from .options import Address, ConfigFile, DataSource, EngineName, Workers, engine_for, with_plugins
from .tables import Table

if TYPE_CHECKING:
    from ..runs import Config, Outcome
    from ..search import Range, Search, Trial
    from ..search.engine import Engine
    from ..training import Event


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(cls=flags.PanelCommand)(with_plugins(flags.with_settings(sweep, without=("budget",))))


def sweep(
    data: DataSource = None,
    trials: Annotated[
        int,
        typer.Option(min=1, help="Total number of trials, including those of earlier calls.", rich_help_panel="Search"),
    ] = 30,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="NAME=RANGE",
            help="Range to search: NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=a,b,c; may be repeated. "
            "[example: hidden_size=16,32]",
            rich_help_panel="Search",
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Fixed setting that is not searched; may be repeated. [example: dropout=0]",
            rich_help_panel="Search",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Minutes after which no new trial starts. [example: 60]", rich_help_panel="Search"),
    ] = None,
    pruner: Annotated[
        str,
        typer.Option(help="Method that stops bad trials early: median, hyperband or none.", rich_help_panel="Search"),
    ] = "median",
    best: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of the best trials that are trained for the test; the outputs of several are averaged. "
            "[example: 3]",
            rich_help_panel="Search",
        ),
    ] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of the search; by default runs/sweep-NAME-MODEL. [example: runs/search]"
        ),
    ] = None,
    config: ConfigFile = None,
    workers: Workers = 0,
    engine: EngineName = "local",
    address: Address = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    **given: Any,
) -> None:
    """Search for good settings of a model.

    Trials are compared on the validation part, and the best one is tested once.

    The ranges of the papers are searched unless --range is given; a setting that is given as an option or with --fix
    is not searched. The same command resumes after an interruption; several processes may share a folder.

    Example: chronode sweep bitstream --model unicornn --trials 30 --epochs 5

    Example: chronode sweep vitals.csv --target outcome --id patient --range hidden_size=16,32 --fix dropout=0
    """
    from ..runs import with_named_model
    from ..search import source_of_ranges
    from .options import folder_for
    from .outcome import say
    from .train import effective

    runner = engine_for(engine, workers, address)
    asked = effective(data, config, given, Console(stderr=True))
    asked, searched = _space(with_named_model(asked), given, ranges or [], fix or [])
    folder = folder_for("sweep", asked.data.source, output, asked.model.model)
    search = _open(asked, searched, folder, pruner)
    console = Console(stderr=json)
    say(
        console, f"searching {asked.model.model}: " + ", ".join(f"{name} {values}" for name, values in searched.items())
    )
    say(console, f"ranges: {source_of_ranges(asked.model.model)}")
    if best > trials:
        raise SettingError(f"{named('best', best)} needs at least as many {named('trials', ...)}.", argument="best")
    outcome = _carry_out(search, trials, None if timeout is None else 60 * timeout, runner, console, best)
    _report(search, outcome, console, json)


def _open(asked: Config, searched: dict[str, Range], folder: Path, pruner: str) -> Search:
    try:
        from ..search import Search
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise ImportError("tuning needs optuna: pip install 'chronode[tune]'") from error
    return Search(asked, searched, folder, pruner=pruner)


def _space(asked: Config, given: dict[str, Any], ranges: list[str], fix: list[str]) -> tuple[Config, dict[str, Range]]:
    """Returns (the config with the fixed settings, the ranges to search)."""
    from ..search import applied, ranges_for, read_fixed, read_range

    model = asked.model.model
    searched = ranges_for(model)
    extra = dict(read_range(text, model) for text in ranges)
    fixed = dict(read_fixed(text, model) for text in fix)
    flagged = {name for part in ("model", "training") for name in flags.values(flags.SECTIONS[part], given)}
    flagged |= flags.values(flags.SECTIONS["model"], given).get("settings", {}).keys()
    for name in extra:
        if name in fixed or name in flagged:
            raise ValueError(f"{name} is both fixed and searched: remove one of them.")
    searched = {name: values for name, values in {**searched, **extra}.items() if name not in (*fixed, *flagged)}
    return applied(asked, fixed), searched


def _carry_out(
    search: Search, trials: int, timeout: float | None, engine: Engine, console: Console, best: int
) -> Outcome | None:
    """Searches, then trains and tests the best settings; None if another process will."""
    from ..report.run_page import draw_run
    from ..training import ProgressBar
    from .outcome import say

    epochs = search.config.training.epochs
    try:
        with ProgressBar(epochs, console.file, runs=trials, ended=search.count()) as bar:

            def show(trial: Trial) -> None:
                if trial.state == "running":
                    bar.begin(f"trial {trial.number}")
                else:
                    bar.end(f"trial {trial.number}", _line(trial, search))

            def on_event(number: int, event: Event) -> None:
                bar.event(f"trial {number}", event)

            search.run(trials, timeout=timeout, engine=engine, on_event=on_event, on_trial=show)
        if search.shared():
            say(
                console,
                "another process is still searching in this folder; the last one trains and tests the best settings.",
            )
            return None
        if search.best() is None:
            typer.echo("chronode: no trial was completed: try lower learning rates or --pruner none.", err=True)
            raise typer.Exit(1)
        say(console, "training the best settings again for the test:")
        with ProgressBar(epochs, console.file, labels=["best"]) as bar:
            outcome = search.train_best(best, on_event=bar, draw=draw_run)
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        typer.echo(f"stopped; the trials are in {search.folder}. Run the same command to resume.", err=True)
        raise typer.Exit(1) from error
    return outcome


def _line(trial: Trial, search: Search) -> str:
    best = search.best()
    results = {"complete": f"{search.metric} {trial.value or 0:.4g}", "fail": "stopped"}
    result = results.get(trial.state, f"pruned after {trial.epochs} epochs")
    mark = "  (best)" if best is not None and best.number == trial.number else ""
    return f"trial {trial.number}: {result}{mark}  {_settings(trial)}" + (f"  {trial.fault}" if trial.fault else "")


def _settings(trial: Trial) -> str:
    shown = {name: f"{value:.3g}" if isinstance(value, float) else value for name, value in trial.settings.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _report(search: Search, outcome: Outcome | None, console: Console, as_json: bool) -> None:
    """Prints the best settings, their file, the test result and the report."""
    from ..report.many_pages import write_search
    from ..storage import replacing
    from .options import this_command
    from .outcome import say, scores_table
    from .train import as_yaml

    best = search.best()
    if best is None:
        return
    trials, importances = search.trials(), search.importances()
    file, settings = search.folder / "best.yaml", as_yaml(search.best_config())
    with replacing(file) as draft:
        draft.write_text(settings, encoding="utf-8")
    report = write_search(
        *(trials, search.metric, importances, search.folder / "search.html"),
        title=f"Search: {search.config.model.model} on {Path(search.config.data.source).name}",
        lower_is_better=search.lower_is_better,
        best=settings,
        test=None if outcome is None else outcome.summary["test"],
        command=this_command(),
    )
    if as_json:
        test = None if outcome is None else outcome.summary["test"]
        result = {"metric": search.metric, "best": asdict(best), "test": test, "importances": importances}
        files = {"config": str(file), "report": str(report), "run": None if outcome is None else str(outcome.run.path)}
        print(jsonlib.dumps({**result, **files, "trials": [asdict(trial) for trial in trials]}, indent=1))
        return
    console.print(_table(search, trials))
    if outcome is not None and outcome.summary["test"]:
        name = "best trial" if outcome.run.path.name.startswith("best-") else "ensemble"
        scores = {name: outcome.summary["test"], **outcome.summary["baselines"]}
        console.print(scores_table("test", scores, outcome.summary.get("positive")))
    say(console, f"best: trial {best.number}, validation {search.metric} {best.value:.4g}: {_settings(best)}")
    say(console, f"settings: {file}   report: {report}" + ("" if outcome is None else f"   run: {outcome.run.path}"))
    say(console, f"next: chronode train --config {file}")


def _table(search: Search, trials: list[Trial], most: int = 5) -> Table:
    """Returns a table of the best trials."""
    done = [trial for trial in trials if trial.state == "complete"]
    ordered = sorted(done, key=lambda trial: trial.value or 0.0, reverse=not search.lower_is_better)
    pruned = sum(trial.state == "pruned" for trial in trials)
    table = Table("trial", title=f"Best of {len(done)} trials ({pruned} more were pruned)")
    for name in (search.metric, *search.ranges, "seconds"):
        table.add_column(name, justify="right")
    for trial in ordered[:most]:
        values = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in trial.settings.values()]
        table.add_row(str(trial.number), f"{trial.value:.4g}", *values, f"{trial.seconds or 0:.1f}")
    return table
