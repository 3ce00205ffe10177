"""`chronode analyze health`: what a run's model does with its data, and what to try."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .analyze_shared import Json
from .predict import Anyway, RunFolder


def health(
    run: RunFolder,
    data: Annotated[
        str | None, typer.Argument(help="A file with the columns of training; by default the run's own test part.")
    ] = None,
    anyway: Anyway = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder for health.png and health.json; by default the run's.")
    ] = None,
    json: Json = False,
) -> None:
    """Gradient flow, saturation, dead units, ranges and time of a trained model: five findings and a page of plots.

    Example: chronode analyze health runs/vitals-1
    """
    from ..analysis.health import health_report
    from ..training.trained import Trained

    trained = Trained.load(run)
    series = trained.series(data, labelled=False, anyway=anyway)
    for note in series.notes if data else ():
        print(f"note: {note}", file=sys.stderr)
    folder = output or trained.run.path
    found = health_report(trained.model, series, folder)
    print(found.to_json() if json else "\n".join(found.findings))
    print(f"plot: {folder / 'health.png'}", file=sys.stderr if json else sys.stdout)
