"""One table of a paper as Markdown and as a plot: numbers of the paper, ours, and the settings that differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...report import text_table
from ...report.pages import COLORS
from ...storage import replacing
from ..papers import PaperNumber
from .counts import Reasons
from .recipe import Recipe
from .rows import FEWEST_SEEDS, TableRow, mean_text, named, shown
from .run import BEST_TEST

_ELSEWHERE = ("epochs", "steps", "drop_epochs", "drop_factor", "refit")
"""Settings with columns of their own in the table, or a note below it."""


def as_markdown(recipe: Recipe, budget: str, rows: list[TableRow], reasons: Reasons | None = None) -> str:
    """Formats the rows that were run with the reasons for those not reached, and one line with those that were not run.

    Example:
        >>> from chronode.lab.experiments.rows import compare
        >>> from chronode.lab.experiments.ledger import Ledger
        >>> from chronode.lab.experiments.recipe import find_recipe
        >>> recipe = find_recipe("unicornn/table5")
        >>> print(as_markdown(recipe, "laptop", compare(recipe, "laptop", Ledger("nowhere"))))
        ### IMDB review sentiment
        <BLANKLINE>
        `chronode reproduce unicornn/table5 --budget laptop`, clean protocol.
        <BLANKLINE>
        Not run: LSTM, skip LSTM, GRU, ReLU GRU, skip GRU, coRNN, UnICORNN (L=2).
        <BLANKLINE>
    """
    command = f"`chronode reproduce {recipe.name} --budget {budget}`, {recipe.protocol} protocol."
    parts = [f"### {recipe.what}", " ".join([command, *recipe.notes])]
    if differing := differences(recipe, rows):
        parts.append(f"Settings that differ from the paper: {'; '.join(differing)}.")
    if any(row.entries for row in rows):
        parts.append(as_table(recipe, rows))
    parts += reasons.as_markdown(recipe, rows) if reasons else []
    ran = {row.number.task for row in rows if row.entries}
    parts += [f"Not comparable: {reason}" for task, reason in recipe.incomparable.items() if task in ran]
    notes = dict.fromkeys(f"{entry.task}: {note}." for row in rows for entry in row.entries for note in entry.notes)
    if absent := [row for row in rows if not row.entries]:
        parts.append(f"Not run: {named(absent, rows)}.")
    return "\n\n".join([*parts, *(note.replace("..", ".") for note in notes)]) + "\n"


def as_table(recipe: Recipe, rows: list[TableRow], format: str = "markdown") -> str:
    """Formats the rows that were run as Markdown, LaTeX or CSV, without columns that are constant or empty."""
    ran = [row for row in rows if row.entries]
    if not ran:
        return ""
    selected = dict.fromkeys(name for row in ran for name in row.selected)
    theirs = _settings_of_the_paper(recipe) if selected else {}
    lines = [_cells(row) | {f"selected {name}": _choice(row, name, theirs) for name in selected} for row in ran]
    references = dict.fromkeys(row.reference for row in ran if _difference(row))
    minus = f"minus {' or '.join(references)}"
    lines = [line | {minus: _difference(row)} for line, row in zip(lines, ran, strict=True)]
    always = (*_ALWAYS, *(f"selected {name}" for name in selected))
    if any(row.number.mean is not None for row in ran):
        always += ("paper", "verdict")
    always += (BEST_TEST,) if any(line[BEST_TEST] for line in lines) else ()
    names = [name for name in lines[0] if name in always or len({line[name] for line in lines}) > 1]
    metric = "" if "metric" in names else f", {lines[0]['metric']}"
    headings = [name + metric if name in ("paper", "ours") else name for name in names]
    numeric = [heading for name, heading in zip(names, headings, strict=True) if name in (*_NUMBERS, minus)]
    return text_table(headings, [[line[name] for name in names] for line in lines], format, numeric=numeric)


def _difference(row: TableRow) -> str:
    """Formats a paired difference with its 95% interval; "" with fewer than three shared seeds."""
    if row.difference is None or row.difference.n < FEWEST_SEEDS:
        return ""
    mean, low, high = (shown(value, row.number) for value in row.difference[:3])
    return f"{mean} [{low}, {high}]"


_ALWAYS = ("model", "ours", "seeds", "steps", "CPU minutes")
_NUMBERS = ("paper", "ours", BEST_TEST, "seeds", "steps", "CPU minutes")


def _cells(row: TableRow) -> dict[str, str]:
    """Returns the cells of a row by column."""
    number, minutes = row.number, sum(entry.seconds for entry in row.entries) / 60
    paper, ours = (mean_text(one.mean, one.spread, number) for one in (number, row))
    return {
        "column": number.column,
        "model": number.label,
        "metric": f"{number.metric} {number.unit}".strip(),
        "paper": paper + (f" (n = {number.n})" if number.n else ""),
        "trained for": number.budget,
        "ours": ours,
        BEST_TEST: shown(row.best_test, number),
        "seeds": str(len(row.entries)),
        "steps": f"{max(entry.steps for entry in row.entries):,}",
        "CPU minutes": f"{minutes:.1f}",
        "verdict": row.judgment,
        "other metrics": _other_metrics(row),
    }


def _choice(row: TableRow, name: str, theirs: dict[PaperNumber, dict[str, dict[str, Any]]]) -> str:
    """Formats a setting that was selected by validation, with that of the paper if it differs."""
    if name not in row.selected:
        return ""
    papers = {key: value for settings in theirs[row.number].values() for key, value in settings.items()}
    ours, paper = _plain(row.selected[name]), _plain(papers.get(name))
    return ours if row.number.mean is None or paper in ("", ours) else f"{ours} (paper: {paper})"


def _other_metrics(row: TableRow) -> str:
    names = [name for name in row.entries[0].metrics["test"] if name not in (row.number.metric, "loss")]
    means = {name: sum(e.metrics["test"][name] for e in row.entries) / len(row.entries) for name in names}
    return ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())


def differences(recipe: Recipe, rows: list[TableRow]) -> list[str]:
    """Lists the settings that differ from the paper, with both values and the models concerned.

    Settings that were selected by validation are in the table.
    """
    theirs = _settings_of_the_paper(recipe)
    ran = [row for row in rows if row.entries and row.cell and any(row.cell.config.values())]
    by_setting: dict[str, list[TableRow]] = {}
    for row in ran:
        assert row.cell is not None
        for part, settings in row.cell.config.items():
            for name, value in settings.items():
                paper = theirs[row.number][part].get(name)
                if name not in (*_ELSEWHERE, *row.selected) and value != paper:
                    instead = ", which the paper does not give" if paper is None else f" instead of {_plain(paper)}"
                    by_setting.setdefault(f"{name} {_plain(value)}{instead}", []).append(row)
    return [
        line + ("" if len(concerned) == len(ran) else f" ({named(concerned, ran)})")
        for line, concerned in by_setting.items()
    ]


def _settings_of_the_paper(recipe: Recipe) -> dict[PaperNumber, dict[str, dict[str, Any]]]:
    return {cell.number: cell.config for cell in recipe.cells("paper")}


def _plain(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def plot(recipe: Recipe, rows: list[TableRow], path: Path, budget: str) -> Path:
    """Draws the numbers of the paper and ours as dots with standard deviations, one panel per column."""
    from matplotlib.figure import Figure as Canvas

    columns = list(dict.fromkeys(row.number.column for row in rows if row.entries))
    most = max(sum(row.number.column == column for row in rows) for column in columns)
    canvas = Canvas(figsize=(4.2 * len(columns) + 1.5, 1.4 + 0.3 * most), dpi=110, layout="constrained")
    canvas.suptitle(f"{recipe.what}\n{recipe.name}, budget: {budget}", fontsize=11)
    panels = canvas.subplots(1, len(columns), squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        column_rows = [row for row in rows if row.number.column == column]
        papers = [(row.number.mean, row.number.spread) for row in column_rows]
        _dots(axes, papers, fmt="o", color=COLORS[0], label="paper")
        _dots(axes, [(row.mean, row.spread) for row in column_rows], fmt="D", color=COLORS[1], label="ours")
        axes.set_yticks(range(len(column_rows)), [row.number.label for row in column_rows], fontsize=8)
        axes.set_ylim(len(column_rows) - 0.5, -0.5)  # the first row on top
        unit = f" ({column_rows[0].number.unit})" if column_rows[0].number.unit else ""
        axes.set_xlabel(f"{column_rows[0].number.metric}{unit}")
        axes.set_title(column, fontsize=10)
        axes.grid(axis="x", alpha=0.3)
    panels[0].legend(frameon=False, fontsize=8)
    with replacing(path) as draft:
        canvas.savefig(draft, format="png")
    return path


def _dots(axes: Any, values: list[tuple[float | None, float | None]], **look: Any) -> None:
    """Draws a dot with its standard deviation for each row with a number."""
    dots = [(mean, height, spread or 0) for height, (mean, spread) in enumerate(values) if mean is not None]
    if dots:
        means, heights, spreads = zip(*dots, strict=True)
        axes.errorbar(means, heights, xerr=spreads, capsize=2, **look)
