"""Notebook display of a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..judge import model_name
from ..training import labeled
from ._training_pictures import learning_pictures
from .pages import grid, number, piece, table

if TYPE_CHECKING:
    from ..runs import Run


def run_html(run: Run) -> str:
    """Returns the facts of a run, its test metrics beside the baselines, and the learning curves."""
    summary, rows = run.summary(), run.metrics()
    model, data = (run.config.get(name) or {} for name in ("model", "data"))
    facts: dict[str, Any] = {"folder": run.path, "status": run.status}
    fields = {} if summary is None else asdict(summary)
    name = model_name(fields, str(model.get("model")), model.get("start"))
    facts |= {"model": name, "data": data.get("source")}
    pieces: list[str] = []
    metric, best = "", None
    if summary is not None:
        metric, best = summary.metric, summary.best_epoch
        facts |= {"best epoch": best or None, "parameters": summary.parameters, "fault": summary.fault}
        if summary.test:
            names = list(summary.test)
            scores = {name: summary.test, **summary.baselines}
            lines = [[row, *(_cell(values.get(one)) for one in names)] for row, values in scores.items()]
            heads = [labeled(one, summary.positive, len(summary.targets)) for one in names]
            pieces.append(table(["test", *heads], lines, numeric=heads, best=0))
    entries = [[name, str(value)] for name, value in facts.items() if value not in (None, "")]
    return piece(table(["Run", ""], entries), *pieces, grid(*learning_pictures(rows, metric, best)))


def _cell(value: float | None) -> str:
    return "" if value is None else number(value)
