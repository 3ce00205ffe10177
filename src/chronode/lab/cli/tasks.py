"""`chronode tasks`: the tasks as a table, and details of one task."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ...cli.tables import Table

if TYPE_CHECKING:
    from ...data import Parts
    from ..tasks import Task

tasks_app = typer.Typer(help="The tasks of the papers: description, sizes and settings.", rich_markup_mode=None)


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.add_typer(tasks_app, name="tasks")


@tasks_app.callback(invoke_without_command=True)
def list_tasks(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of docs/tasks.md.")] = False,
) -> None:
    """List the tasks with their sizes.

    Example: chronode tasks --json
    """
    if context.invoked_subcommand:
        return
    from ..tasks import tasks

    if json:
        print(jsonlib.dumps([facts(task) for task in tasks().values()], indent=2, ensure_ascii=False))
    elif markdown:
        print(as_markdown())
    else:
        Console().print(as_table())


@tasks_app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of a task; `chronode tasks` lists all.")],
    protocol: Annotated[str, typer.Option(help="Protocol: clean or paper.")] = "clean",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of synthetic series, splits and noise.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the task; may be repeated. [example: length=200]"),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the plot.")] = Path("runs/tasks"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Describe a task, load it, and draw three of its series.

    Example: chronode tasks show adding --option length=100
    """
    from ...report import write_series_page
    from ..papers import settings
    from ..tasks import find_task

    task = find_task(name)
    parts = task.load(protocol, seed, **task.read_options(option or []))
    path = write_series_page(parts.train, output / f"{name}.html", title=f"{name}: {task.what}")
    summaries = {part: getattr(parts, part).describe().as_dict() for part in ("train", "valid", "test")}
    if json:
        print(jsonlib.dumps({**facts(task), "parts": summaries, "notes": notes(parts), "plot": str(path)}, indent=2))
        return
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{name}: {task.what}", style="bold", markup=False)
    console.print(f"{protocol}: {task.protocols[protocol]}", markup=False)
    for part in ("train", "valid", "test"):
        console.print(f"  {part:<5} {getattr(parts, part).describe()}", markup=False)
    for note in notes(parts):
        console.print(f"  note: {note}", markup=False)
    console.print(f"loss {task.loss}, metric {task.metric}" + (f", data set {task.data}" if task.data else ""))
    for setting in settings(name):
        values = ", ".join(f"{key} {value}" for key, value in {**setting.network, **setting.training}.items())
        console.print(f"{setting.paper} ({setting.model}, {setting.source}): {values}", markup=False)
    if task.options:
        console.print("options: " + ", ".join(f"{k}={v}" for k, v in task.options.items()), markup=False)
    console.print(f"plot: {path}")


def facts(task: Task) -> dict[str, Any]:
    """Returns the entries of a task in the table, without loading it."""
    from ..papers import settings

    return {
        "name": task.name,
        "what": task.what,
        **asdict(task.sizes),
        "loss": task.loss,
        "metric": task.metric,
        "data": task.data,
        "protocols": dict(task.protocols),
        "settings": [asdict(setting) for setting in settings(task.name)],
        "options": dict(task.options),
    }


def notes(parts: Parts) -> list[str]:
    """Returns the notes on the series without duplicates."""
    texts = [note for part in (parts.train, parts.valid, parts.test) for note in part.notes]
    return list(dict.fromkeys(texts))


def as_table() -> Table:
    """Returns all tasks as a table for the terminal."""
    table = Table(title="Tasks", caption="T: steps of the longest series, D: channels, C: classes")
    table.add_column("name", style="bold", no_wrap=True)
    for column in ("train / valid / test", "T", "D", "C"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column("what")
    for name, what, *cells in _rows():
        table.add_row(name, *cells, what)
    return table


def as_markdown() -> str:
    """Returns all tasks as the table of docs/tasks.md."""
    lines = ["| name | what | train / valid / test | steps | channels | classes | metric |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    lines += [f"| `{name}` | {' | '.join(cells)} |" for name, *cells in _rows()]
    return "\n".join(lines)


def _rows() -> list[list[str]]:
    from ..tasks import tasks

    rows = []
    for task in tasks().values():
        sizes = task.sizes
        counts = f"{sizes.train:,} / {sizes.valid:,} / {sizes.test:,}"
        classes = "" if sizes.classes is None else f"{sizes.classes:,}"
        rows.append([task.name, task.what, counts, f"{sizes.steps:,}", f"{sizes.channels:,}", classes, task.metric])
    return rows
