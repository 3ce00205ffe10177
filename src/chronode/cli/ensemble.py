"""`chronode ensemble`: several runs as one model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .options import check_folder, with_plugins


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(with_plugins(ensemble))


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
