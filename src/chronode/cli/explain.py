"""`chronode explain`: the columns and spans of time that predictions rest on."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..storage import check_new
from .options import OneTarget, RunFolder, check_order, check_source, this_command, with_plugins
from .predict import Anyway

if TYPE_CHECKING:
    from ..judge import Importance
    from ..training import Explanation
    from .tables import Table

_MOST_ROWS = 20
_MOST_COLUMNS = 6


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(with_plugins(explain))


def explain(
    run: RunFolder,
    data: Annotated[
        str | None,
        typer.Argument(
            help="File whose predictions are explained; without one, the importance of every column on the test part "
            "of the run.",
            callback=check_source,
        ),
    ] = None,
    target: OneTarget = None,
    of: Annotated[
        str | None,
        typer.Option(
            "--of",
            metavar="NAME",
            help="Class or target to explain; by default the positive of two classes, the predicted one of more, or "
            "the first target. [example: ill]",
        ),
    ] = None,
    spans: Annotated[int, typer.Option(min=1, help="Number of spans of equal duration of each series.")] = 4,
    repeats: Annotated[int, typer.Option(min=1, help="Permutations of each column for its importance.")] = 5,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="A .csv or .parquet file of contributions, or an .html page. [example: why.html]"
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")] = False,
    anyway: Anyway = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Explain predictions: contributions of channels, static columns and spans of time.

    Contributions are integrated gradients; they sum to the difference between a prediction and that for a series of
    means. The part of a model that has no gradients (trees) is divided by occlusion.

    Example: chronode explain runs/vitals-1 new.csv -o why.html
    """
    from ..judge import permutation_importance
    from ..report.explain_page import write_explanation
    from ..runs import explanation_columns, load, series_of, write_table
    from ..training import labeled
    from .outcome import print_result, say, say_note

    check_order("explain", run, data)
    suffix = Path(output).suffix
    if output and suffix not in (".csv", ".txt", ".parquet", ".pq", ".html"):
        raise ValueError(f"--output {output} must be a .csv, .parquet or .html file.")
    if output:
        check_new(Path(output), "--output", force=force)
    whole = load(run, anyway=anyway)
    trained = whole.of_target(target, "an explanation")
    trained.check("explain")
    console = Console(stderr=json)
    importance = None
    if data is None:
        tested = series_of(whole, labeled=True).with_classes(whole.objective.class_names)
        at = list(whole.by_target).index(trained.output_names()[0]) if whole.objective.heads else 0
        importance = permutation_importance(trained, tested.by_target[at], repeats=repeats)
    label = "" if importance is None else labeled(importance.metric, trained.objective.positive).replace("_", " ")
    series = series_of(whole, data, labeled=False, anyway=anyway)
    for note in series.notes if data else ():
        say_note(console, note)
    explanation = trained.explain(series, of=of, spans=spans) if data is not None or output else None
    options = {} if trained.reading is None else trained.reading.options
    if output and explanation is not None:
        if suffix == ".html":
            title = f"{run}: {trained.model.title}"
            texts = {"title": title, "importance": importance, "label": label, "command": this_command()}
            say(console, f"page: {write_explanation(output, explanation, series, **texts)}")
        else:
            table = explanation_columns(explanation, series, id=options.get("id") or "series")
            say(console, f"{write_table(table, output)}: {len(table['value']):,} rows with {', '.join(table)}")
    if json:
        texts = {"run": str(run), "model": trained.model.title}
        texts |= {} if importance is None else {"importance": importance.as_dict()}
        texts |= {} if explanation is None else {"contributions": explanation.as_dict()}
        print_result(jsonlib.dumps(texts, indent=1))
        return
    if importance is not None:
        console.print(_importance_table(importance, label))
    if explanation is not None:
        console.print(_contributions_table(explanation))
        say(console, _parts(explanation))


def _importance_table(importance: Importance, label: str) -> Table:
    from .outcome import shown
    from .tables import Table

    title = f"{label} {shown(importance.value)} on {importance.series:,} series of the test part; "
    title += "worse with the column of others by"
    table = Table("column", title=title, title_justify="left")
    for name in ("kind", "worse by", "95% interval"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for row in zip(importance.names, importance.kinds, importance.losses, importance.low, importance.high, strict=True):
        table.add_row(row[0], row[1], shown(row[2]), f"{shown(row[3])} to {shown(row[4])}")
    return table


def _contributions_table(explanation: Explanation) -> Table:
    """Returns the first series with their largest contributions."""
    import numpy as np

    from .outcome import shown
    from .tables import Table

    names = [*explanation.channel_names, *explanation.static_names]
    values = np.concatenate([explanation.channels, explanation.static], axis=1)
    order = np.sort(np.argsort(-np.abs(values).mean(0), kind="stable")[:_MOST_COLUMNS])
    few = values[:, order]
    heads = [names[index] for index in order]
    others = len(names) - len(heads)
    table = Table("series", title="contributions", title_justify="left")
    for name in ("output", "reference", *heads, *([f"{others} others"] if others else []), "prediction"):
        table.add_column(name, justify="left" if name == "output" else "right")
    for row in range(min(len(explanation), _MOST_ROWS)):
        rest = [f"{values[row].sum() - few[row].sum():+.3g}"] if others else []
        cells = [f"{value:+.3g}" for value in few[row]]
        table.add_row(
            str(explanation.ids[row]),
            explanation.names[row],
            shown(explanation.reference[row]),
            *cells,
            *rest,
            shown(explanation.output[row]),
        )
    if len(explanation) > _MOST_ROWS:
        table.caption = f"{len(explanation) - _MOST_ROWS:,} more series: -o why.csv writes all"
    return table


def _parts(explanation: Explanation) -> str:
    """Says how the differences were divided, and what the sums miss."""
    import numpy as np

    rough = float(np.abs(explanation.by_occlusion).sum())
    smooth = float(np.abs(explanation.output - explanation.reference - explanation.by_occlusion).sum())
    how = "integrated gradients"
    if rough:
        share = 100 * rough / (rough + smooth)
        how = f"{how} ({100 - share:.0f}%) and, for trees and features that count or rank, occlusion ({share:.0f}%)"
    return f"divided by {how}; the sums miss at most {explanation.error.max(initial=0.0):.2g}"
