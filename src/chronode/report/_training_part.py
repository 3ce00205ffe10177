"""The training section of a report: how the model was chosen, and its learning curves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..judge import headline, is_linear, linear_text
from ..runs import RaceSummary, Run, Summary
from ..training import labeled
from ._training_pictures import learning_pictures
from .pages import details, grid, heading, paragraph, table

_ENDS = {"early": "stopped early: no improvement", "epochs": "all epochs were trained", "steps": "all steps were taken"}
_FEW_METRICS = 5


def training_section(run: Run, summary: Summary, start: str | None) -> list[str]:
    """Returns the choice of the model, the learning curves and all epochs.

    Args:
        run: The run folder.
        summary: Its summary.
        start: Linear start of the network.
    """
    rows, linear = run.metrics(), is_linear(asdict(summary), start)
    pieces: list[str] = []
    if rows:
        end = _ENDS.get(summary.stopped, summary.stopped or summary.status)
        alone = f" The model is {linear_text(asdict(summary))}." if linear and summary.start is not None else ""
        pieces += [paragraph(f"{len(rows):,} epochs; {end}.{alone}")]
        metric = headline({"metric": summary.metric, "test": summary.valid})
        pieces.append(grid(*learning_pictures(rows, metric, summary.best_epoch)))
    elif linear:
        pieces.append(paragraph(f"The model is {linear_text(asdict(summary))}."))
    else:
        pieces.append(paragraph("No epoch was finished."))
    if summary.race is not None:
        pieces += _race(summary.race, summary.positive)
    if rows:
        names = list(rows[-1])
        body = [[row.get(name) for name in names] for row in rows]
        pieces.append(details("All epochs", table(names, body, numeric=names)))
    return pieces


def _race(race: RaceSummary, positive: str | None) -> list[str]:
    """Returns all candidates with their metrics on held-out series, the best first."""
    own = ("candidate", "epochs", "spread")
    measured = [name for name in race.chosen if name not in own]
    names = list(dict.fromkeys([race.metric, "loss", *measured]))[:_FEW_METRICS]
    heads = [labeled(name, positive) for name in names]
    spread = any(entry.get("spread") is not None for entry in race.entries)
    columns = ["candidate", heads[0], *(["± over folds"] if spread else []), *heads[1:], "epochs"]
    rows: list[list[Any]] = []
    for entry in race.entries:
        first, *others = (entry.get(name) for name in names)
        rows.append([entry.get("candidate"), first, *([entry.get("spread")] if spread else []), *others])
        rows[-1].append(entry.get("epochs") or "")
    text = f"Candidates on held-out series, by {race.judged}; the best {labeled(race.metric, positive)} first."
    return [
        str(heading("Race")),
        paragraph(f"Choice: {race.reason}"),
        table(columns, rows, numeric=columns[1:]),
        paragraph(text, "small"),
    ]
