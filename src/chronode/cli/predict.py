"""`chronode evaluate` and `chronode predict`: a trained model on new files."""

from __future__ import annotations

import json as jsonlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..settings import SettingError, named
from ..storage import check_new
from .flags import words
from .options import Address, Labels, RunFolder, check_order, check_source, engine_for, this_command, with_plugins

if TYPE_CHECKING:
    from ..data import Sequences
    from ..search.engine import Engine
    from ..training import Trained

Anyway = Annotated[
    bool,
    typer.Option("--anyway", help="Accept a failed run, and times or values that seem to use other units."),
]
Intervals = Annotated[
    str,
    typer.Option(
        "--intervals",
        metavar="LEVELS",
        help="For forecasts, prediction intervals of these levels in percent; those given to `chronode train` by "
        "default. [example: 80,95]",
    ),
]


ChunkWorkers = Annotated[
    int,
    typer.Option("--workers", min=0, help="Processes that predict chunks; 0: this one. With Ray, 0: one per core."),
]
ChunkEngine = Annotated[str, typer.Option("--engine", help="Engine of the workers: local or ray.")]


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.command()(with_plugins(evaluate))
    app.command()(with_plugins(predict))


def evaluate(
    run: RunFolder,
    data: Annotated[
        str | None,
        typer.Argument(
            help="File with targets, or - for standard input; the test part of the run by default.",
            callback=check_source,
        ),
    ] = None,
    labels: Labels = None,
    intervals: Intervals = "",
    until: Annotated[
        str,
        typer.Option(
            metavar="TIMES",
            help="Metrics of predictions from the beginning of each series, up to these times since its first "
            "observation. [example: 6h,12h,24h]",
        ),
    ] = "",
    first: Annotated[
        str,
        typer.Option(metavar="COUNTS", help="The same, by numbers of observations. [example: 1,5,10]"),
    ] = "",
    folds: Annotated[
        int | None,
        typer.Option(
            help="Cross-validate the configuration of the run on all series of its file, in this number of folds. "
            "[example: 5]"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Page for --until or --first, or .csv file of the predictions of --folds. [example: early.html]",
        ),
    ] = None,
    anyway: Anyway = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Evaluate a trained model on a file with known targets.

    For forecasts, also the coverage of prediction intervals, the pinball loss of their ends and the CRPS.

    Example: chronode evaluate runs/vitals-1 ward_b.csv
    """
    from ..runs import baselines_of, load, series_of
    from .outcome import print_result, say, say_note, scores_table, targets_tables

    check_order("evaluate", run, data)
    console = Console(stderr=json)
    if folds is not None:
        return _cross_validate(run, data, labels, folds, output, console, json)
    trained = load(run, anyway=anyway)
    series = series_of(trained, data, labeled=True, anyway=anyway, labels=labels)
    for note in series.notes if data else ():
        say_note(console, note)
    if until or first:
        return _early(trained, series, words(until), words(first), output, console, json)
    if output is not None:
        raise SettingError("--output needs --until, --first or --folds: add one of them.", argument="output")
    scores = trained.evaluate(series) | trained.interval_scores(series, trained.levels(_levels(intervals)))
    simple, each = baselines_of(trained, series if data else None), trained.evaluate_targets(series)
    positives = {name: part.objective.positive for name, part in trained.by_target.items()}
    targets = {
        target: {"test": row, "baselines": simple.targets.get(target, {}), "positive": positives.get(target)}
        for target, row in each.items()
    }
    rows, name = simple.overall, data or "test part"
    if json:
        plain = _plain({name: scores, **rows})
        result: dict[str, Any] = {"run": str(run), "model": trained.model.title, "data": name, "series": len(series)}
        result |= {"positive": trained.objective.positive, "metrics": plain.pop(name), "baselines": plain}
        result["targets"] = {
            target: {"metrics": _plain({target: row})[target], "baselines": _plain(simple.targets.get(target, {}))}
            for target, row in each.items()
        }
        print_result(jsonlib.dumps(result, indent=1))
    else:
        say(console, f"{run}: {trained.model.title}")
        title, positive = f"{len(series):,} series", trained.objective.positive
        console.print(scores_table(title, {name: scores, **rows}, positive, len(targets)))
        for table in targets_tables(name, targets, trained.objective.metric):
            console.print(table)


def _cross_validate(
    run: Path, data: str | None, labels: str | None, folds: int, output: Path | None, console: Console, as_json: bool
) -> None:
    """Prints cross-validated metrics of the configuration of a run."""
    from ..runs import Run, config_of, cross_validate, write_table
    from ..training import Note
    from .outcome import print_result, say, scores_table, shown

    if output is not None and output.suffix not in (".csv", ".parquet"):
        raise ValueError(f"--output {output} must be a .csv or .parquet file for the predictions of --folds.")
    if (run / "ensemble.json").is_file():
        raise SettingError(f"{run} is an ensemble: cross-validate one of its runs.", argument="folds")
    config = config_of(Run.open(run))
    config = config if data is None else config.with_values({"data": {"source": data, "labels": labels}})
    result = cross_validate(
        config, folds, on_event=lambda event: say(console, event.text) if isinstance(event, Note) else None
    )
    if output is not None:
        say(console, f"predictions: {write_table(result.predictions, output)}")
    if as_json:
        return print_result(jsonlib.dumps(result.as_dict(), indent=1))
    rows: dict[str, dict[str, Any]] = {
        "all folds": dict(result.scores),
        "95% interval": {},
        "lowest": {},
        "highest": {},
    }
    for name in result.scores:
        if name in result.intervals:
            rows["95% interval"][name] = " to ".join(map(shown, result.intervals[name]))
        each = [scores[name] for scores in result.folds]
        rows["lowest"][name], rows["highest"][name] = min(each), max(each)
    console.print(scores_table(f"{folds} folds", rows, result.positive, len(result.targets)))


def _early(
    trained: Trained,
    series: Sequences,
    until: list[str],
    first: list[str],
    output: Path | None,
    console: Console,
    as_json: bool,
) -> None:
    """Prints metrics over the part of each series that was seen."""
    from ..judge import headline
    from ..report.backtest_page import write_early
    from ..runs import early_scores
    from .outcome import print_result, say, scores_table

    if not all(count.isdecimal() for count in first):
        raise SettingError(f"{named('first', ','.join(first))} must be whole numbers.", argument="first")
    early = early_scores(trained, series, until=until, first=[int(count) for count in first])
    goal = trained.objective
    metric = headline({"metric": goal.metric, "test": early.scores[-1]})
    if output is not None:
        title = f"{trained.path}: {trained.model.title}"
        say(console, f"page: {write_early(output, early, metric, title=title, command=this_command())}")
    if as_json:
        return print_result(early.to_json())
    names = {
        f"{label}": {"steps seen": steps, **scores}
        for label, steps, scores in zip(early.labels, early.steps, early.scores, strict=True)
    }
    console.print(scores_table(f"{len(series):,} series, up to", names, goal.positive, len(goal.targets)))


def predict(
    run: RunFolder,
    data: Annotated[
        str | None,
        typer.Argument(
            help="File with the columns of training, or - for standard input. It needs no target.",
            callback=check_source,
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="A .csv or .parquet file, or a folder for a .parquet file per chunk of series, which is resumed; - "
            "prints CSV.",
        ),
    ] = "-",
    last: Annotated[bool, typer.Option("--last", help="For predictions per step, print only the last step.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="For forecasts, write a column per channel instead of a row per channel.")
    ] = False,
    intervals: Intervals = "",
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="TIMES",
            help="For forecasts, these times instead of the next steps, written as in the data. "
            "[example: 2024-05-01,2024-05-03]",
        ),
    ] = "",
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="In CSV, write an apostrophe before ids and labels that begin with = + - or @, which spreadsheets "
            "would calculate.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Add the contributions of channels and static columns to the prediction of each series; `chronode "
            "explain` has spans of time and a page.",
        ),
    ] = False,
    anyway: Anyway = False,
    json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
    workers: ChunkWorkers = 0,
    engine: ChunkEngine = "local",
    address: Address = None,
) -> None:
    """Predict classes, values or the next steps of new series.

    Writes a row per series, a row per step for targets per step, or a row per series, future time and channel for
    forecasts.

    Example: chronode predict runs/vitals-1 new.csv -o out.csv
    """
    from ..runs import as_csv, as_rows, load, prediction_columns, series_of, without_formulas, write_table
    from .outcome import print_result, say, say_note

    check_order("predict", run, data)
    options: dict[str, Any] = {"intervals": _levels(intervals), "at": words(at), "wide": wide, "last": last}
    options["explained"] = explain
    if data is not None and output != "-" and (Path(output).suffix == "" or Path(output).is_dir()):
        workers_there = engine_for(engine, workers, address)
        return _score(run, data, Path(output), workers_there, options, anyway=anyway, force=force)
    if workers or engine != "local":
        raise ValueError("--workers and --engine need a folder of predictions: --output scores/")
    if output != "-" and Path(output).suffix not in (".csv", ".txt", ".parquet", ".pq"):
        raise ValueError(f"--output {output} must be a .csv or .parquet file, or - for the terminal.")
    if output != "-":
        check_new(Path(output), "--output", force=force)
    trained = load(run, anyway=anyway)
    series = series_of(trained, data, labeled=False, anyway=anyway)
    errors = Console(stderr=True)
    for note in series.notes if data else ():
        say_note(errors, note)
    columns = prediction_columns(trained, series, coming=data is not None, **options)
    count = len(next(iter(columns.values())))
    if escape_formulas and Path(output).suffix not in (".parquet", ".pq") and not json:
        columns = without_formulas(columns)
    if output != "-":
        metadata = {"model": trained.model.title, "run": str(run)}
        say(errors, f"{write_table(columns, output, metadata)}: {count:,} rows with {', '.join(columns)}")
    if json:
        print_result(jsonlib.dumps(as_rows(columns), indent=1))
    elif output == "-":
        print_result(as_csv(columns))


def _score(
    run: Path, data: str, output: Path, engine: Engine, options: dict[str, Any], *, anyway: bool, force: bool
) -> None:
    """Predicts in chunks, with rows per second and the time left."""
    from ..search import score_in_chunks
    from ..training import ProgressBar
    from .outcome import say, say_note

    console, began = Console(stderr=True), time.monotonic()
    with ProgressBar(1, console.file, runs=1) as bar:

        def show(what: str, share: float, rows: int) -> None:
            bar.advance(what, share, f"{rows:,} rows, {share * rows / (time.monotonic() - began):,.0f} rows/s")

        result = score_in_chunks(
            run, data, output, engine=engine, options=options, anyway=anyway, force=force, on_progress=show
        )
    for note in result.notes:
        say_note(console, note)
    there = f", {result.before} of them there already" if result.before else ""
    say(console, f"{output}: {result.series:,} series in {result.chunks} files{there}")


def _plain(scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float | None]]:
    """Returns metrics for JSON, None for those that are not defined."""
    return {
        row: {name: None if value != value else value for name, value in metrics.items()}
        for row, metrics in scores.items()
    }


def _levels(text: str) -> list[float]:
    """Returns the levels of `--intervals 80,95`."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"--intervals {text} must be levels in percent, separated by commas: 80,95") from None
