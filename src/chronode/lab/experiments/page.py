"""RESULTS.md and index.html: counts and a plot per paper, the findings, then every table that was run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...report.pages import COLORS, GRAY, Plot, cards, figure, grid, page, paragraph, span, table, write_page
from ...storage import replacing
from ..papers import PaperNumber
from .counts import Reasons, Table, counted, printed, tally
from .ledger import Entry, Ledger
from .recipe import Recipe, recipes
from .report import as_markdown, as_table
from .rows import TableRow, compare, mean_text
from .run import BEST_TEST

VERDICTS = ("reached", "not reached", "not comparable", "no number")
PAPERS = {
    "mmrnn": "Mixed-memory RNN (mmRNN)",
    "unicornn": "UnICORNN",
    "ltc": "Liquid time-constant networks (LTC)",
    "irnn": "Incremental RNN (iRNN)",
    "ernn": "Equilibrated RNN (ERNN)",
    "beyond": "Beyond the papers",
}


def render(ledger: Ledger, results: Path, folder: Path) -> int:
    """Writes RESULTS.md, its plots and index.html from the ledger; returns the number of printed cells that are filled.

    Args:
        ledger: The runs.
        results: Path of the page.
        folder: Folder whose `pictures` and `index.html` are rewritten, whose `figures` are shown, and whose
            `findings.md` and `reasons.csv` are included.
    """
    tables = [table for recipe in recipes().values() for table in _budgets(recipe, ledger)]
    runs = {entry.config_hash: entry for table in tables for row in table.rows for entry in row.entries}
    drawn = {paper: _picture(paper, tables, folder / "pictures") for paper in PAPERS}
    for old in set((folder / "pictures").glob("*.png")) - set(drawn.values()):
        old.unlink()
    reasons = Reasons(folder / "reasons.csv")
    page = [_head(list(runs.values()), tables)]
    for paper, title in PAPERS.items():
        if (path := drawn[paper]) is not None:
            page.append(f"![{title}: paper and chronode]({path.relative_to(results.parent).as_posix()})\n")
    if (findings := folder / "findings.md").exists():
        page.append(findings.read_text(encoding="utf-8"))
    page.append("## Own models: what is not reached\n")
    page += [f"- {'; '.join(cells)}: {why}" for why, cells in reasons.of_own_models(counted(tables)).items()]
    page.append("")
    for paper, title in PAPERS.items():
        texts = [as_markdown(*table, reasons) for table in tables if table.recipe.paper == paper]
        page += [f"## {title}\n", *texts] if texts else []
    page += _drawn(folder / "figures", results)
    with replacing(results) as draft:
        draft.write_text("\n".join(page), encoding="utf-8")
    write_index(tables, PAPERS, folder / "index.html")
    return len(counted(tables))


def all_tables(ledger: Ledger, format: str) -> Iterator[str]:
    """Yields every table that was run as text, below a line with its name and budget."""
    sign = "%" if format == "latex" else "#"
    for recipe in recipes().values():
        for one in _budgets(recipe, ledger):
            yield f"{sign} {recipe.name}, budget {one.budget}\n{as_table(recipe, one.rows, format)}"


def _budgets(recipe: Recipe, ledger: Ledger) -> Iterator[Table]:
    """Yields the budgets at which the table was run, except those whose runs are all in the previous one."""
    shown: set[str] = set()
    for budget in ("laptop", "long", "paper"):
        rows = compare(recipe, budget, ledger)
        runs = {entry.config_hash for row in rows for entry in row.entries}
        if not runs <= shown:
            yield Table(recipe, budget, rows)
        shown |= runs


def _head(entries: list[Entry], tables: list[Table]) -> str:
    models, tasks = {e.model for e in entries}, {e.task for e in entries}
    hours = sum(e.seconds for e in entries) / 3600
    machines = sorted({f"{e.machine['cpu']}, {e.machine['cores']} cores" for e in entries})
    rows = counted(tables)
    first, every = (tally(printed(own=only), rows) for only in (True, False))
    return f"""# Results

Written by `make results` from the ledger (`results/*.jsonl`), `results/findings.md` and `results/reasons.csv`.

Own models: {first["printed"]} printed cells, {first["filled"]} filled, {first["reached"]} reached.

{_count_table(rows, own=True)}

{every["filled"]} of the {every["printed"]} printed cells are filled. {every["reached"]} are reached, \
by {len(entries)} runs of {len(models)} models on {len(tasks)} tasks: {hours:.1f} CPU hours ({"; ".join(machines)}).

{_count_table(rows, own=False)}

A printed cell counts once, in the copy that is nearest to the authors': their split before a clean one, a longer
budget before a shorter one. Other copies, curves without numbers and tables beyond the papers are shown, but not
counted. A cell is *reached* if our mean is at least the printed mean minus the printed standard deviation; where none
is printed, at least the printed value minus our standard error over three seeds or more (at most 5% of the paper's
error). It is *not comparable* if only a part of the data, or other data, were available.

The budgets `laptop` and `long` use fewer optimizer steps than the papers; each verdict says whether a run had the
paper's steps or fewer, and each table lists the other settings that differ. Where models share three seeds or more, the
column *minus* has the mean of the paired differences from the named model, with its 95% interval. No setting and no
epoch was chosen by a test score. Where the authors report the best epoch on the test part, the column *{BEST_TEST}*
has that number of our runs; it does not count. [docs/reproducing.md](docs/reproducing.md) \
explains how to reproduce a table.
"""


def _count_table(rows: dict[PaperNumber, TableRow], *, own: bool) -> str:
    """Counts the printed cells by paper; with `own` those of the model that it introduces."""
    columns = ("printed", "filled", "reached", "not reached", "not comparable")
    lines = [
        f"| {'own model' if own else 'paper'} | " + " | ".join(columns) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    cells = printed(own=own)
    groups = {PAPERS[paper]: [cell for cell in cells if cell.paper == paper] for paper in PAPERS}
    for title, some in [*groups.items(), ("all", cells)]:
        if some:
            counts = tally(some, rows)
            lines.append(f"| {title} | " + " | ".join(str(counts[column]) for column in columns) + " |")
    return "\n".join(lines)


def _picture(paper: str, tables: list[Table], folder: Path) -> Path | None:
    """Draws our numbers over those of the paper; ours are better in the shaded half."""
    from matplotlib.figure import Figure as Canvas

    pairs = [(table, row) for table in tables if table.recipe.paper == paper for row in table.rows]
    compared = [(table, row) for table, row in pairs if row.mean is not None and row.number.mean is not None]
    kinds = [("accuracy", True, [pair for pair in compared if pair[1].number.unit == "%"])]
    kinds.append(
        ("error", False, [pair for pair in compared if pair[1].number.unit != "%" and pair[1].number.metric != "f1"])
    )
    kinds = [kind for kind in kinds if kind[2]]
    if not kinds:
        return None
    canvas = Canvas(figsize=(5.4 * len(kinds), 4.6), dpi=110, layout="constrained")
    canvas.suptitle(f"{PAPERS[paper]}: paper and chronode", fontsize=12)
    for axes, kind in zip(canvas.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        _panel(axes, *kind)
    path = folder / f"{paper}.png"
    with replacing(path) as draft:
        canvas.savefig(draft, format="png")
    return path


def _panel(axes: Any, what: str, higher: bool, pairs: list[tuple[Table, TableRow]]) -> None:
    """Draws a dot per cell; those of numbers that cannot be compared are hollow."""
    from matplotlib.ticker import LogLocator, NullFormatter

    names = list(dict.fromkeys(table.recipe.name for table, _ in pairs))
    for index, name in enumerate(names):
        color = COLORS[index % len(COLORS)]
        look = {"marker": "osD^vP*X"[index // len(COLORS) % 8], "edgecolors": color, "s": 22, "alpha": 0.8}
        for face, verdicts in ((color, VERDICTS[:2]), ("white", VERDICTS[2:])):
            rows = [row for table, row in pairs if table.recipe.name == name and row.verdict in verdicts]
            label = name.partition("/")[2] + (" (not comparable)" if face == "white" else "")
            if dots := [(row.number.mean, row.mean) for row in rows]:
                axes.scatter(*zip(*dots, strict=True), label=label, facecolors=face, **look)
    values = [value for _, row in pairs for value in (row.number.mean, row.mean) if value]
    low, high = min(values), max(values)
    if higher:
        low, high = low - 3, min(high + 3, 102)
    else:
        low, high = low / 1.5, high * 1.5
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    axes.plot([low, high], [low, high], color="0.4", lw=1)
    axes.fill_between([low, high], [low, high], high if higher else low, color=COLORS[2], alpha=0.08, lw=0)
    unit = " (%)" if higher else ""
    axes.set(xlim=(low, high), ylim=(low, high), xlabel=f"{what} in the paper{unit}", ylabel=f"chronode{unit}")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


def _drawn(figures: Path, results: Path) -> list[str]:
    """Returns the figures and analysis tables that were drawn."""
    from .figures import drawings

    parts = []
    for drawing in drawings().values():
        for path in sorted(figures.glob(f"{drawing.name.replace('/', '-')}-*.png")):
            shown = path.relative_to(results.parent)
            command = f"`chronode reproduce {drawing.name} --output {shown.parent.as_posix()}`"
            source = f"{command}; the numbers are next to the plot."
            parts.append(f"### {drawing.name}: {drawing.what}\n\n{source}\n\n![{drawing.name}]({shown.as_posix()})\n")
    return parts


_NUMERIC = ("paper", "ours", "seeds", "steps", "minutes")
_COLOR = {"reached": COLORS[2], "not reached": COLORS[1]}
_COLOR |= dict.fromkeys(("not comparable", "no number"), GRAY)


def write_index(tables: Sequence[Table], papers: Mapping[str, str], path: Path) -> Path:
    """Writes the page of all results."""
    cells = [(one, row) for one in tables for row in one.rows if row.entries]
    verdicts = Counter(row.verdict for _, row in cells)
    facts: dict[str, Any] = {"numbers of the papers": len(cells), **{name: verdicts[name] for name in _COLOR}}
    columns = ["table", "task", "model", "metric", "paper", "ours", "verdict", *_NUMERIC[2:]]
    rows = [_line(one, row) for one, row in cells]
    pictures = [_plots(papers[name], [row for one, row in cells if one.recipe.paper == name]) for name in papers]
    drawn = [one for group in pictures for one in group]
    note = (
        "Click a heading to sort; minutes are CPU minutes of one run. In the plots, accuracies above the line and "
        "errors below it beat the paper's."
    )
    sections: dict[str, list[str]] = {
        "All numbers": [paragraph(note, "small"), table(columns, rows, numeric=_NUMERIC, sortable=True)],
    }
    if drawn:
        sections = {"Papers and chronode": [grid(*drawn)], **sections}
    foot = "Written by `make results` from the ledger (results/*.jsonl). RESULTS.md explains how to reproduce them."
    return write_page(path, page("Results of chronode", cards(facts), sections, script=True, foot=foot))


def _line(one: Table, row: TableRow) -> list[Any]:
    number, entries = row.number, row.entries
    first = entries[0]
    minutes = sum(entry.seconds for entry in entries) / 60 / len(entries)
    return [
        one.recipe.name if one.budget == "laptop" else f"{one.recipe.name} ({one.budget})",
        number.task if number.column in ("", number.task) else f"{number.task}: {number.column}",
        number.label,
        f"{number.metric} ({number.unit})" if number.unit else number.metric,
        (mean_text(number.mean, number.spread, number), number.mean),
        (mean_text(row.mean, row.spread, number), row.mean),
        row.judgment,
        len(entries),
        first.steps,
        (f"{minutes:.1f}", minutes),
    ]


def _plots(title: str, rows: Sequence[TableRow]) -> list[str]:
    """Ours over the paper's: accuracies in percent, and errors in logarithms."""
    compared = [row for row in rows if row.mean is not None and row.number.mean is not None and np.isfinite(row.mean)]
    accuracies = [row for row in compared if row.number.unit == "%"]
    errors = [row for row in compared if row.number.unit != "%" and row.number.metric != "f1"]
    errors = [row for row in errors if (row.mean or 0) > 0 and (row.number.mean or 0) > 0]
    pictures: list[str] = []
    for what, chosen, scale in (("accuracy (%)", accuracies, float), ("log10 of the error", errors, np.log10)):
        if not chosen:
            continue
        x, y = (np.array([float(scale(value)) for value in values]) for values in _both(chosen))
        ends = span(x, y)
        plot = Plot(ends, ends, title=title, xlabel=f"{what} in the paper", ylabel="ours")
        plot.line(ends, ends, color=GRAY, dash="3 3")
        for verdict, color in _COLOR.items():
            indices = [index for index, row in enumerate(chosen) if row.verdict == verdict]
            titles = [f"{chosen[index].number.label}, {chosen[index].number.task}" for index in indices]
            if indices:
                plot.dots(x[indices], y[indices], color=color, name=verdict, opacity=0.8, titles=titles)
        pictures.append(figure(plot))
    return pictures


def _both(rows: Sequence[TableRow]) -> tuple[list[Any], list[Any]]:
    return [row.number.mean for row in rows], [row.mean for row in rows]
