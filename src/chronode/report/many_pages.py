"""Pages of comparisons and searches: comparison.html and search.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ._training_pictures import comparison_pictures, comparison_table, search_pictures, trial_table
from .pages import bullets, cards, code, details, grid, number, page, paragraph, table, write_page

if TYPE_CHECKING:
    from ..search import Comparison, Trial


def write_comparison(comparison: Comparison, path: str | Path, *, title: str, command: str = "") -> Path:
    """Writes the page of a comparison: a sortable table, every run as a dot, learning curves, all runs.

    Example:
        >>> import tempfile
        >>> from chronode.search import Comparison, RunResult
        >>> runs = [RunResult("gru", seed, "", "accuracy", {"accuracy": 0.5}, (0.4, 0.6)) for seed in range(2)]
        >>> write_comparison(Comparison.of(runs), Path(tempfile.mkdtemp()) / "two.html", title="two").name
        'two.html'
    """
    rows = [one for row in comparison.rows for one in (*row.results, *row.failed)]
    best = comparison.rows[0] if comparison.rows and comparison.rows[0].results else None
    facts: dict[str, Any] = {"models": len(comparison.rows), "runs": len(rows)}
    if best is not None:
        facts = {"best model": best.model, f"test {comparison.metric}": best.score(comparison.metric)[0], **facts}
    if comparison.baseline is not None:
        facts[f"{comparison.baseline[0]} {comparison.metric}"] = comparison.baseline[1]
    heads = [comparison.label(name) for name in comparison.metrics]
    columns = ["model", "seed", *heads, "epochs", "run"]
    runs = [
        [one.model, one.seed, *((one.test or {}).get(name) for name in comparison.metrics), len(one.curve), one.run]
        for one in rows
    ]
    sections: dict[str, list[str]] = {
        "Models": [
            comparison_table(comparison),
            paragraph("Mean ± standard deviation over seeds, on the test part. Click a heading to sort.", "small"),
            grid(*comparison_pictures(comparison)),
        ],
        "Runs": [
            table(columns, runs, numeric=["seed", *heads, "epochs"], sortable=True),
            paragraph("Every run folder has its own report: report.html.", "small"),
        ],
    }
    if comparison.failed:
        sections["Failed"] = [bullets(f"{one.model}, seed {one.seed}: {one.fault}" for one in comparison.failed)]
    if command:
        sections["How to repeat"] = [code(command)]
    text = page(title, cards(facts), sections, script=True, foot=f"chronode {__version__}")
    return write_page(path, text)


def write_search(
    trials: Sequence[Trial],
    metric: str,
    importances: Mapping[str, float],
    path: str | Path,
    *,
    title: str,
    lower_is_better: bool,
    best: str = "",
    test: Mapping[str, float | None] | None = None,
    command: str = "",
) -> Path:
    """Writes the page of a search: the trials, the importance of settings, the best settings and their test metrics."""
    done = [trial.value for trial in trials if trial.value is not None]
    facts: dict[str, Any] = {"trials": len(trials), "pruned": sum(trial.state == "pruned" for trial in trials)}
    if done:
        facts = {f"best validation {metric}": min(done) if lower_is_better else max(done), **facts}
    if test and test.get(metric) is not None:
        facts[f"test {metric}"] = test[metric]
    pieces: list[str] = [grid(*search_pictures(trials, metric, importances))]
    listed = trial_table(trials, metric, lower_is_better)
    sections: dict[str, list[str]] = {"Search": pieces, "Trials": [listed]}
    if best:
        scores = ", ".join(f"{name} {number(value)}" for name, value in (test or {}).items() if value is not None)
        result = paragraph(f"Trained once more and tested: {scores}") if scores else ""
        sections["Best settings"] = [result, details("Settings as --config takes them", code(best))]
    if command:
        sections["How to repeat"] = [code(command)]
    return write_page(path, page(title, cards(facts), sections, script=True, foot=f"chronode {__version__}"))
