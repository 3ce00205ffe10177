"""`chronode check`: whether new data still look like those of training."""

from __future__ import annotations

import json as jsonlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..storage import check_new
from .options import Labels, RunFolder, check_order, check_source, this_command, with_plugins

if TYPE_CHECKING:
    from ..runs import CheckResult
    from .tables import Table

DRIFT = 3
"""Exit code if something has changed."""
_MOST_ROWS = 12


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(with_plugins(check))


def check(
    run: RunFolder,
    data: Annotated[
        str, typer.Argument(help="New file; with the target, the metric is compared too.", callback=check_source)
    ],
    labels: Labels = None,
    level: Annotated[
        float, typer.Option(min=1e-4, max=0.5, help="Probability of a false alarm if nothing has changed.")
    ] = 0.01,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page to write. [example: drift.html]")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Check whether new data still look like those of training.

    Compares the inputs series by series with those of the training file, and the predictions with those for the test
    part. Exit code 0: nothing has changed by more than chance allows; 3: something has.

    Example: chronode check runs/vitals-1 this_week.csv -o drift.html
    """
    from ..report.data_page import write_drift
    from ..runs import check_data, load
    from .outcome import print_result, say, say_note

    check_order("check", run, data)
    if output is not None:
        if output.suffix != ".html":
            raise ValueError(f"--output {output} must be an .html file.")
        check_new(output, "--output", force=force)
    console = Console(stderr=json)
    result = check_data(load(run), data, level=level, labels=labels)
    if output is not None:
        say(
            console,
            f"page: {write_drift(output, result, title=f'{Path(data).name} and {run}', command=this_command())}",
        )
    if json:
        print_result(jsonlib.dumps({"run": str(run), "data": data, **result.as_dict()}, indent=1))
    else:
        for note in result.notes:
            say_note(console, note)
        console.print(_table(result))
        for change in result.metrics:
            ends = f"worse by {change.low:.3g} to {change.high:.3g} ({100 - 200 * change.level:g}% interval)"
            ends = "too few series to tell whether it is worse" if math.isnan(change.low) else ends
            say(console, f"{change.metric}: {change.before:.4g} on the test part, {change.now:.4g} here; {ends}")
        changes = ", ".join(result.found)
        say(console, f"changed: {changes}" if changes else "nothing has changed by more than chance allows")
    if result.found:
        raise typer.Exit(DRIFT)


def _table(result: CheckResult) -> Table:
    from .outcome import shown
    from .tables import Table

    parts = [part for part in (result.predictions, result.inputs) if part is not None]
    table = Table("feature", title=f"{result.series:,} new series", title_justify="left")
    for name in ("training", "now", "distance", "p", ""):
        table.add_column(name, justify="right")
    rows = [
        (name, before, now, distance, p, part.level)
        for part in parts
        for name, before, now, distance, p in zip(
            part.names, part.before, part.now, part.distances, part.p_values, strict=True
        )
    ]
    for name, before, now, distance, p, level in sorted(rows, key=lambda row: row[4])[:_MOST_ROWS]:
        mark = "changed" if p <= level else ""
        table.add_row(name, shown(float(before)), shown(float(now)), f"{distance:.2f}", f"{p:.2g}", mark)
    if len(rows) > _MOST_ROWS:
        table.caption = f"{len(rows) - _MOST_ROWS} features with larger p are not shown"
    return table
