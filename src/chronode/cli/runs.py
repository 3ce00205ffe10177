"""`chronode runs` and `chronode show`: lists of runs and details of one run."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ..data import counted
from .options import check_folder
from .tables import Table

if TYPE_CHECKING:
    from ..runs import Run


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.command("runs")(list_runs)
    app.command()(show)


def list_runs(
    folder: Annotated[Path, typer.Argument(help="Folder with the run folders.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the runs in a folder: data, model, status, test metrics.

    Example: chronode runs --json
    """
    if folder != Path("runs"):  # without any run there is no folder "runs"
        check_folder(folder)
    from ..judge import headline
    from ..runs import run_folders
    from ..training import labeled
    from .outcome import say, shown

    listed = sorted(
        (_listed(path) for path in run_folders(folder)), key=lambda summary: (summary["started"], summary["run"])
    )
    if json:
        return print(jsonlib.dumps(listed, indent=1))
    table = Table(title=f"Runs in {folder}")
    for column in ("run", "data", "model", "status", "epochs", "test"):
        table.add_column(column, overflow="fold", justify="right" if column == "epochs" else "left")
    for summary in listed:
        metric = headline(summary)
        score = shown(summary["test"].get(metric))
        cells = (
            Path(summary["run"]).name,
            summary["data"],
            summary["model"],
            summary["status"],
            str(summary["epochs"] or ""),
        )
        name = labeled(metric, summary["positive"], len(summary["targets"]))
        table.add_row(*map(Text, cells), Text(f"{name} {score}" if score else ""))
    Console().print(table)
    for summary in listed:
        if summary["status"] == "damaged":
            say(Console(stderr=True), f"note: {summary['fault']}")


def _listed(folder: Path) -> dict[str, Any]:
    """Returns the summary of a run, or why it is damaged."""
    from ..runs import Run

    try:
        return facts(Run.open(folder))
    except (ValueError, OSError) as error:
        nothing = dict.fromkeys(("epochs", "best_epoch", "parameters", "seconds"))
        summary = {"run": str(folder), "data": "", "model": "", "status": "damaged", "metric": "", "started": ""}
        summary |= {**nothing, "network": "", "positive": None, "fault": str(error)}
        return {**summary, "valid": {}, "test": {}, "baselines": {}, "targets": {}, "notes": []}


def show(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.", callback=check_folder)],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    open: Annotated[
        bool, typer.Option("--open", help="Open the report (report.html) in the browser; written if it is missing.")
    ] = False,
) -> None:
    """Show the details of a run, or open its report.

    The details are results, settings, environment and files.

    Example: chronode show runs/vitals-1

    Example: chronode show runs/vitals-1 --open
    """
    from ..runs import Run
    from .outcome import say, scores_table, targets_table

    run = Run.open(folder)
    if open:
        return _open_report(run)
    summary, rows = facts(run), run.metrics()
    files = sorted(path.name for path in run.path.iterdir() if not path.name.startswith("."))
    if json:
        whole = {**summary, "config": run.config, "environment": run.environment, "metrics": rows, "files": files}
        return print(jsonlib.dumps(whole, indent=1))
    console = Console()
    epochs = f", {counted(summary['epochs'], 'epoch')}" if summary["epochs"] else ""
    say(console, f"{run.path}: {summary['status']}, {summary['model']} on {summary['data']}{epochs}", style="bold")
    if run.command:
        say(console, f"command: chronode {' '.join(run.command)}")
    if summary["fault"]:
        say(console, f"error: {summary['fault']}")
    parts = {"validation": summary["valid"], "test": summary["test"], **summary["baselines"]}
    if scores := {name: scores_of for name, scores_of in parts.items() if scores_of}:
        title = f"best epoch {summary['best_epoch']}" if summary["best_epoch"] else summary["model"]
        console.print(scores_table(title, scores, summary["positive"], len(summary["targets"])))
    if summary["targets"]:
        console.print(targets_table(summary["targets"], summary["metric"]))
    if rows:
        console.print(_last_epochs(rows))
    for name in ("data", "model", "training"):
        say(console, f"{name}: {_changed(name, run.config.get(name) or {})}")
    say(console, "made with: " + ", ".join(f"{k} {v}" for k, v in run.environment.items() if v is not None))
    say(console, "files: " + "  ".join(files))
    if summary["status"] in ("interrupted", "new"):
        say(console, f"next: chronode train --resume {run.path}")


def _open_report(run: Run) -> None:
    """Opens the page in the browser and prints its path."""
    import webbrowser

    from ..runs import REPORT

    path = run.path / REPORT
    if not path.is_file():
        from ..report.run_page import report_of

        report_of(run.path)
    print(path)
    webbrowser.open(path.resolve().as_uri())


def facts(run: Run) -> dict[str, Any]:
    """Returns the entries of a run in a list."""
    from ..judge import model_name
    from ..runs import Summary, config_of

    config, rows = config_of(run), run.metrics()
    summary = run.summary() or Summary("interrupted", epochs=len(rows))
    fields = asdict(replace(summary, race=None))  # which is in race.json
    return {
        "run": str(run.path),
        "data": config.data.source,
        **fields,
        "model": model_name(fields, config.model.model, config.model.start),
        "network": config.model.model,
        "status": run.status,
        "epochs": len(rows) if summary.epochs is None else summary.epochs,
        "started": str(run.environment.get("started") or ""),
    }


def _last_epochs(rows: list[dict[str, Any]], most: int = 5) -> Table:
    from .outcome import shown

    table = Table(title="Last epochs", title_justify="left")
    for name in rows[-1]:
        table.add_column(name, justify="right")
    for row in rows[-most:]:
        table.add_row(*(shown(row.get(name)) for name in rows[-1]))
    return table


def _changed(name: str, section: dict[str, Any]) -> str:
    """Returns the settings of a section that differ from the defaults."""
    from ..runs import Config

    usual = Config().as_dict()[name]
    return ", ".join(f"{key} {value}" for key, value in section.items() if value != usual.get(key)) or "defaults"
