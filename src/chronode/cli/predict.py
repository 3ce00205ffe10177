"""`chronode evaluate` and `chronode predict`: a trained model on new files."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..storage import check_new
from .flags import words
from .options import RunFolder, check_order, check_source, with_plugins

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
    intervals: Intervals = "",
    anyway: Anyway = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Evaluate a trained model on a file with known targets.

    For forecasts, also the coverage of prediction intervals, the pinball loss of their ends and the CRPS.

    Example: chronode evaluate runs/vitals-1 ward_b.csv
    """
    from ..runs import baselines_of, load, series_of
    from .outcome import print_result, say, say_note, scores_table, targets_table

    check_order("evaluate", run, data)
    trained = load(run, anyway=anyway)
    series = series_of(trained, data, labeled=True, anyway=anyway)
    console = Console(stderr=json)
    for note in series.notes if data else ():
        say_note(console, note)
    scores = trained.evaluate(series) | trained.interval_scores(series, trained.levels(_levels(intervals)))
    simple, each = baselines_of(trained, series if data else None), trained.evaluate_targets(series)
    targets = {own: {"test": found, "baselines": simple.targets.get(own, {})} for own, found in each.items()}
    rows, name = simple.overall, data or "test part"
    if json:
        plain = _plain({name: scores, **rows})
        about: dict[str, Any] = {"run": str(run), "model": trained.model.title, "data": name, "series": len(series)}
        about |= {"positive": trained.objective.positive, "metrics": plain.pop(name), "baselines": plain}
        about["targets"] = {
            own: {"metrics": _plain({own: found})[own], "baselines": _plain(simple.targets.get(own, {}))}
            for own, found in each.items()
        }
        print_result(jsonlib.dumps(about, indent=1))
    else:
        say(console, f"{run}: {trained.model.title}")
        title, positive = f"{len(series):,} series", trained.objective.positive
        console.print(scores_table(title, {name: scores, **rows}, positive, len(targets)))
        if targets:
            console.print(targets_table(targets, trained.objective.metric))


def predict(
    run: RunFolder,
    data: Annotated[
        str | None,
        typer.Argument(
            help="File with the columns of training, or - for standard input. It needs no target.",
            callback=check_source,
        ),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="A .csv or .parquet file; - prints CSV.")] = "-",
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
    anyway: Anyway = False,
    json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Predict classes, values or the next steps of new series.

    Writes a row per series, a row per step for targets per step, or a row per series, future time and channel for
    forecasts.

    Example: chronode predict runs/vitals-1 new.csv -o out.csv
    """
    from ..runs import as_csv, as_rows, load, prediction_columns, series_of, without_formulas, write_table
    from .outcome import print_result, say, say_note

    check_order("predict", run, data)
    if output != "-" and Path(output).suffix not in (".csv", ".txt", ".parquet", ".pq"):
        raise ValueError(f"--output {output} must be a .csv or .parquet file, or - for the terminal.")
    if output != "-":
        check_new(Path(output), "--output", force=force)
    trained = load(run, anyway=anyway)
    series = series_of(trained, data, labeled=False, anyway=anyway)
    errors = Console(stderr=True)
    for note in series.notes if data else ():
        say_note(errors, note)
    options: dict[str, Any] = {"intervals": _levels(intervals), "at": words(at), "wide": wide, "last": last}
    columns = prediction_columns(trained, series, coming=data is not None, **options)
    count = len(next(iter(columns.values())))
    if escape_formulas and Path(output).suffix not in (".parquet", ".pq") and not json:
        columns = without_formulas(columns)
    if output != "-":
        about = {"model": trained.model.title, "run": str(run)}
        say(errors, f"{write_table(columns, output, about)}: {count:,} rows with {', '.join(columns)}")
    if json:
        print_result(jsonlib.dumps(as_rows(columns), indent=1))
    elif output == "-":
        print_result(as_csv(columns))


def _plain(scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float | None]]:
    """Returns metrics for JSON, None for those that are not defined."""
    return {
        row: {name: None if value != value else value for name, value in own.items()} for row, own in scores.items()
    }


def _levels(text: str) -> list[float]:
    """Returns the levels of `--intervals 80,95`."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"--intervals {text} must be levels in percent, separated by commas: 80,95") from None
