"""`chronode analyze health`: what the model of a run does with its data, and what to try."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from ...cli.predict import Anyway, RunFolder
from .analyze_shared import Findings, Json, Piece, show


def health(
    run: RunFolder,
    data: Annotated[
        str | None, typer.Argument(help="File with the columns of training; the test part of the run by default.")
    ] = None,
    anyway: Anyway = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for health.png and health.json; the run folder by default. [example: out]"),
    ] = None,
    json: Json = False,
) -> None:
    """Check the health of a trained model.

    Prints five findings (gradient flow, saturation, dead units, ranges, time) and draws a page of plots.

    Example: chronode analyze health runs/vitals-1
    """
    from ...runs import Trained
    from ..analysis import health as measure
    from ..analysis._plots_health import plot_health

    trained = Trained.load(run, anyway=anyway)
    series = trained.series(data, labeled=False, anyway=anyway)
    for note in series.notes if data else ():
        print(f"note: {note}", file=sys.stderr)
    found = measure(trained.model, series)
    found = replace(found, findings=(*_against_baselines(trained.path), *found.findings))
    findings = Findings("\n".join(found.findings), [Piece("health", found, plot_health)])
    show(findings, output or (trained.path if trained.path.is_dir() else trained.path.parent), as_json=json)


def _against_baselines(folder: Path) -> list[str]:
    """Returns a finding if the model of a run folder does not beat a baseline on the test part."""
    from ...judge import unbeaten
    from ...runs import Run

    summary = Run.open(folder).summary() if folder.is_dir() else None
    best = None if summary is None else unbeaten(asdict(summary))
    if best is None:
        return []
    return [f'Baselines: the model is not healthy: on the test part it does not beat "{best[0]}" ({best[1]:.4g}).']
