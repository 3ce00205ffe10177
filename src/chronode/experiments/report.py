"""Tables and pictures of what was run: one table as Markdown and PNG, and RESULTS.md with all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._files import replacing
from ..report.curves import COLOURS
from .compare import Row, compare, told
from .ledger import Entry, Ledger
from .recipe import Recipe, recipes

VERDICTS = ("within spread", "better", "worse")


def as_markdown(recipe: Recipe, budget: str, rows: list[Row]) -> str:
    """The table: the paper's number and training, ours, seeds, epochs, minutes, verdict.

    Example:
        >>> from chronode.experiments.recipe import find
        >>> recipe = find("mmrnn/table3")
        >>> print(as_markdown(recipe, "laptop", compare(recipe, "laptop", Ledger("nowhere"))).splitlines()[0])
        ### mmrnn/table3: Bit-stream parity: dense and event-based encoding
    """
    lines = [f"### {recipe.name}: {recipe.what}", ""]
    lines += [f"Budget {budget}, {recipe.protocol} protocol. " + " ".join(recipe.notes), ""]
    lines += ["| | model | metric | paper | n | trained for | ours | seeds | epochs | minutes | verdict |"]
    lines += ["| --- | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |"]
    for row in rows:
        figure = row.figure
        paper = told(figure.mean, figure.spread, figure)
        ours = told(row.mean, row.spread, figure)
        spent = ["", "", ""]
        if row.entries:
            seconds = sum(entry.seconds for entry in row.entries)
            spent = [str(len(row.entries)), str(max(e.epochs for e in row.entries)), f"{seconds / 60:.1f}"]
        metric = f"{figure.metric} {figure.unit}".strip()
        papers = [paper, str(figure.n or ""), figure.budget]
        cells = [figure.column, figure.label, metric, *papers, ours, *spent, row.verdict]
        lines.append("| " + " | ".join(cells) + " |")
    told_once = dict.fromkeys(f"{entry.task}: {note}" for row in rows for entry in row.entries for note in entry.notes)
    return "\n".join([*lines, *(f"\n{note}" for note in told_once)]) + "\n"


def plot(recipe: Recipe, rows: list[Row], path: Path, budget: str) -> Path:
    """Paper and ours as dots with spreads, a panel per column of the table."""
    from matplotlib.figure import Figure as Canvas

    columns = list(dict.fromkeys(row.figure.column for row in rows if row.entries))
    most = max(sum(row.figure.column == column for row in rows) for column in columns)
    canvas = Canvas(figsize=(4.2 * len(columns) + 1.5, 1.4 + 0.3 * most), dpi=110, layout="constrained")
    canvas.suptitle(f"{recipe.name} (budget: {budget})\n{recipe.what}", fontsize=11)
    panels = canvas.subplots(1, len(columns), squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        own = [row for row in rows if row.figure.column == column]
        papers = [(row.figure.mean, row.figure.spread) for row in own]
        _dots(axes, papers, fmt="o", color=COLOURS[0], label="paper")
        _dots(axes, [(row.mean, row.spread) for row in own], fmt="D", color=COLOURS[1], label="ours")
        axes.set_yticks(range(len(own)), [row.figure.label for row in own], fontsize=8)
        axes.set_ylim(len(own) - 0.5, -0.5)  # the first row on top
        unit = f" ({own[0].figure.unit})" if own[0].figure.unit else ""
        axes.set_xlabel(f"{own[0].figure.metric}{unit}")
        axes.set_title(column, fontsize=10)
        axes.grid(axis="x", alpha=0.3)
    panels[0].legend(frameon=False, fontsize=8)
    with replacing(path) as draft:
        canvas.savefig(draft, format="png")
    return path


def _dots(axes: Any, values: list[tuple[float | None, float | None]], **look: Any) -> None:
    """A dot with its spread for each row that has a number."""
    known = [(mean, place, spread or 0) for place, (mean, spread) in enumerate(values) if mean is not None]
    if known:
        means, places, spreads = zip(*known, strict=True)
        axes.errorbar(means, places, xerr=spreads, capsize=2, **look)


def render(ledger: Ledger, results: Path, folder: Path) -> int:
    """Writes RESULTS.md and its pictures from the ledger; gives the number of filled cells.

    Args:
        ledger: the runs.
        results: the page.
        folder: its `pictures` are those of the tables, written anew; what lies in its `figures` is shown.
    """
    tables = [(recipe, budget, rows) for recipe in recipes().values() for budget, rows in _budgets(recipe, ledger)]
    pictures, drawn, parts = folder / "pictures", set(), []
    for recipe, budget, rows in tables:
        path = plot(recipe, rows, pictures / f"{recipe.name.replace('/', '-')}-{budget}.png", budget)
        drawn.add(path)
        shown = path.relative_to(results.parent).as_posix()
        parts += [as_markdown(recipe, budget, rows), f"![{recipe.name}]({shown})\n"]
    for old in set(pictures.glob("*.png")) - drawn:
        old.unlink()
    runs = {entry.config_hash: entry for _, _, rows in tables for row in rows for entry in row.entries}
    contents = [_line(*table) for table in tables]
    page = [_head(list(runs.values()), len(ledger.entries()), contents), *parts, *_drawn(folder / "figures", results)]
    with replacing(results) as draft:
        draft.write_text("\n".join(page), encoding="utf-8")
    return sum(line["filled"] for line in contents)


def _budgets(recipe: Recipe, ledger: Ledger) -> Iterator[tuple[str, list[Row]]]:
    """The budgets at which the table was run; one whose runs are all in the one before is left out."""
    known: set[str] = set()
    for budget in ("laptop", "paper"):
        rows = compare(recipe, budget, ledger)
        runs = {entry.config_hash for row in rows for entry in row.entries}
        if not runs <= known:
            yield budget, rows
        known |= runs


def _drawn(figures: Path, results: Path) -> list[str]:
    """The papers' figures and analysis tables that were drawn."""
    from .drawings import drawings

    parts = []
    for drawing in drawings().values():
        for path in sorted(figures.glob(f"{drawing.name.replace('/', '-')}-*.png")):
            shown = path.relative_to(results.parent)
            told = f"`chronode reproduce {drawing.name} --output {shown.parent.as_posix()}`; its numbers lie beside it."
            parts.append(f"### {drawing.name}: {drawing.what}\n\n{told}\n\n![{drawing.name}]({shown.as_posix()})\n")
    return parts


def _line(recipe: Recipe, budget: str, rows: list[Row]) -> dict[str, Any]:
    """What the contents tell of a table."""
    verdicts = Counter(row.verdict for row in rows)
    name = f"{recipe.name} ({budget})" if budget != "laptop" else recipe.name
    told = {"table": name, "tasks": ", ".join(sorted({e.task for row in rows for e in row.entries}))}
    numbers = {"cells": len(rows), "filled": len(rows) - verdicts["not run"]}
    return told | numbers | {each: verdicts[each] for each in VERDICTS}


def _head(entries: list[Entry], finished: int, contents: list[dict[str, Any]]) -> str:
    models, tasks = {e.model for e in entries}, {e.task for e in entries}
    filled = sum(line["filled"] for line in contents)
    columns = ("table", "tasks", "cells", "filled", *VERDICTS)
    table = ["| " + " | ".join(columns) + " |", "| --- | --- |" + " ---: |" * (len(columns) - 2)]
    table += ["| " + " | ".join(str(line[column]) for column in columns) + " |" for line in contents]
    hours = sum(e.seconds for e in entries) / 3600
    machines = sorted({f"{e.machine['cpu']}, {e.machine['cores']} cores" for e in entries})
    return (
        f"""# Results

Made by `make results` from the ledger (`results/*.jsonl`); nothing here is typed by hand.

{len(entries)} runs of {len(models)} models on {len(tasks)} tasks: {hours:.1f} hours of training on
{"; ".join(machines)}. {finished - len(entries)} more in the ledger were made with settings that the recipes no
longer have. {filled} cells of the papers' tables are filled.

A budget of `laptop` trains far shorter than the papers did: read the epochs beside each number. Verdicts compare with
the larger of both spreads, or with 1 % where there is none.
Repeat a table with `chronode reproduce NAME`; [docs/reproducing.md](docs/reproducing.md) has what we found.

"""
        + "\n".join(table)
        + "\n"
    )
