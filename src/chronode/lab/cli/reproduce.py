"""`chronode reproduce`: reproduces the tables of the papers."""

from __future__ import annotations

import json as jsonlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ...cli.tables import Table
from ...nn import find_model
from ...search.engine import Engine
from ...settings import one_of
from ...storage import replacing
from ...training import ProgressBar
from ..experiments.cost import seconds
from ..experiments.figures import Drawing, drawings
from ..experiments.jobs import Finished, TableJob, make_runs, missing
from ..experiments.jobs import Progress as TrainingProgress
from ..experiments.ledger import Ledger
from ..experiments.recipe import OWN, Recipe, TableCell, find_recipe, recipes
from ..experiments.report import as_markdown, as_table, plot
from ..experiments.rows import TableRow, compare, mean_text


def show_recipes(as_json: bool) -> None:
    """Lists what can be reproduced: tables by training, figures and analyses by one call each."""
    listed = [(r.name, r.what, len(r.numbers())) for r in recipes().values()]
    listed += [(d.name, d.what, 0) for d in drawings().values() if d.name not in recipes()]
    if as_json:
        print(jsonlib.dumps([{"name": n, "what": w, "figures": f} for n, w, f in listed], indent=2))
        return
    table = Table(
        "recipe", "what", title="Recipes", caption="runs: numbers of the table; recipes without runs are plots"
    )
    table.add_column("runs", justify="right")
    for name, what, count in listed:
        table.add_row(name, what, str(count or ""))
    Console().print(table)


def show_plan(
    chosen: list[Recipe], cells: list[TableCell], budget: str, ledger: Ledger, *, seeds: int | None, as_json: bool
) -> None:
    """Prints the number of missing runs by recipe, and their estimated hours on one core of this machine."""
    entries = ledger.entries()
    lines = []
    for recipe in chosen:
        jobs = missing([cell for cell in cells if cell.recipe == recipe.name], ledger, seeds)
        lines.append((recipe.name, len(jobs), sum(seconds(job, entries) for job in jobs) / 3600))
    if as_json:
        print(jsonlib.dumps([{"recipe": n, "runs": runs, "hours": round(h, 3)} for n, runs, h in lines], indent=2))
        return
    table = Table(
        "recipe", title=f"Plan at the {budget} budget", caption="estimated from one small batch of each model"
    )
    for column in ("runs", "hours"):
        table.add_column(column, justify="right")
    for name, runs, hours in lines:
        table.add_row(name, str(runs), f"{hours:.2f}")
    table.add_row("all", str(sum(line[1] for line in lines)), f"{sum(line[2] for line in lines):.1f}", style="bold")
    Console().print(table)


def run_reproduce(
    chosen: list[Recipe],
    cells: list[TableCell],
    budget: str,
    ledger: Ledger,
    *,
    seeds: int | None,
    engine: Engine,
    output: Path,
    form: str | None,
) -> None:
    """Runs those of the cells that are missing from the ledger, then prints and draws each table."""
    console, faults = Console(stderr=form is not None), list[Finished]()
    failed: set[str] = set()
    while jobs := [job for job in missing(cells, ledger, seeds) if job.hash not in failed]:
        faults += _follow(jobs, ledger, engine, output / "state", console)
        failed = {fault.job.hash for fault in faults}
    tables = {recipe.name: compare(recipe, budget, ledger) for recipe in chosen}
    if form == "json":
        print(jsonlib.dumps({name: [_plain(row) for row in rows] for name, rows in tables.items()}, indent=2))
    for recipe in chosen:
        rows = tables[recipe.name]
        name = recipe.name.replace("/", "-")
        path = output / f"{name}-{budget}.md"
        with replacing(path) as draft:
            draft.write_text(as_markdown(recipe, budget, rows), encoding="utf-8")
        if form is None:
            console.print(_table(recipe, budget, rows))
        elif form != "json":
            print(as_table(recipe, rows, form))
        if any(row.entries for row in rows):
            picture = plot(recipe, rows, output / f"{name}-{budget}.png", budget)
            console.print(f"table: {path}   plot: {picture}", soft_wrap=True)
    for fault in faults:
        console.print(f"{fault.job}: {fault.fault}", style="red", markup=False, soft_wrap=True)
    if faults:
        raise SystemExit(1)


def chosen_recipes(names: list[str], every: bool) -> tuple[list[Recipe], list[Drawing]]:
    """Returns the requested tables and figures."""
    if every:
        return list(recipes().values()), list(drawings().values())
    if not names:
        raise ValueError("pass a recipe, such as mmrnn/table3, or use --all; `chronode reproduce --list` lists them.")
    drawn = [drawings()[name] for name in names if name in drawings()]
    return [find_recipe(name) for name in names if name not in drawings() or name in recipes()], drawn


def with_rows(chosen: list[Recipe], models: list[str]) -> list[Recipe]:
    """Returns the tables with rows for further models; rejects unknown ones and those that a table already has."""
    if models and not chosen:
        raise ValueError("--also adds rows to tables: pass one, such as mmrnn/table3.")
    for model in models:
        find_model(model)
        for recipe in chosen:
            if any(number.model == model for number in recipe.numbers()):
                raise ValueError(
                    f"--also {model}: {recipe.name} has this model already; choose it by --models {model}."
                )
    return [replace(recipe, also=tuple(models)) for recipe in chosen]


def draw(chosen: list[Drawing], budget: str, output: Path, as_json: bool) -> None:
    """Draws the figures; a JSON file next to each plot contains its numbers."""
    console = Console(stderr=as_json)
    for drawing in chosen:
        console.print(f"{drawing.name}: {drawing.what} ...", markup=False, highlight=False)
        for path in drawing.draw(output, budget):
            console.print(f"plot: {path}", soft_wrap=True)


def wanted_cells(chosen: list[Recipe], budget: str, only: list[str], models: list[str]) -> list[TableCell]:
    """Returns the cells of the named tasks, columns and models, or all; rejects unknown names."""
    cells = [cell for recipe in chosen for cell in recipe.cells(budget)]
    for name in only:
        one_of(
            "--only",
            name,
            sorted({text for cell in cells for text in (cell.task, cell.number.column)}),
        )
    for name in models:
        one_of("--models", name, sorted({cell.model for cell in cells}))
    return [
        cell
        for cell in cells
        if (not only or {cell.task, cell.number.column} & set(only)) and (not models or cell.model in models)
    ]


def _follow(jobs: list[TableJob], ledger: Ledger, engine: Engine, state: Path, console: Console) -> list[Finished]:
    """Runs all jobs with a bar, with the remaining time estimated from their cost."""
    entries = ledger.entries()
    costs = {str(job): max(seconds(job, entries), 0.1) for job in jobs}
    faults: list[Finished] = []
    with ProgressBar(1, console.file, runs=len(jobs), costs=costs) as bar:

        def show(job: TableJob, progress: TrainingProgress) -> None:
            bar.advance(str(job), progress.done, f"loss {progress.loss:.3f}")

        for item in make_runs(jobs, ledger, engine, state=state, on_progress=show):
            faults += [] if item.entry else [item]
            bar.end(str(item.job), _line(item))
    return faults


def _line(item: Finished) -> str:
    if item.entry is None:
        return f"{item.job}: failed"
    scores = ", ".join(f"{name} {value:.4g}" for name, value in item.entry.metrics["test"].items())
    return f"{item.job}: {scores} ({item.entry.seconds:.0f} s)"


def _table(recipe: Recipe, budget: str, rows: list[TableRow]) -> Table:
    notes = f"budget: {budget}. " + " ".join(recipe.notes)
    table = Table(names=2, title=f"{recipe.name}: {recipe.what}", caption=notes)
    for column in ("", "model"):
        table.add_column(column)
    for column in ("paper", "ours", "seeds"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for row in rows:
        number = row.number
        paper, ours = (mean_text(one.mean, one.spread, number) for one in (number, row))
        table.add_row(number.column, number.label, paper, ours, str(len(row.entries) or ""), row.judgment)
    return table


def _plain(row: TableRow) -> dict[str, Any]:
    number = row.number
    row_facts = {"column": number.column, "label": number.label, "model": number.model, "metric": number.metric}
    ours = {"mean": row.mean, "spread": row.spread, "seeds": len(row.entries), "steps of the paper": row.steps}
    difference = None if row.difference is None else {"from": row.reference, **row.difference._asdict()}
    return {
        **row_facts,
        "paper": {"mean": number.mean, "spread": number.spread, "n": number.n},
        "ours": ours,
        "difference": difference,
        "own": number.note == OWN,
        "verdict": row.verdict,
    }
