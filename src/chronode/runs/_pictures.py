"""What a notebook shows of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._pages import grid, number, piece, table
from ..training._pictures import learning_pictures

if TYPE_CHECKING:
    from ._folder import Run


def run_html(run: Run) -> str:
    """Returns the facts of a run, its test metrics beside the baselines, and the learning curves."""
    summary, rows = run.summary(), run.metrics()
    model, data = (run.config.get(name) or {} for name in ("model", "data"))
    facts: dict[str, Any] = {"folder": run.path, "status": run.status}
    facts |= {"model": model.get("model"), "units": model.get("hidden"), "data": data.get("source")}
    pieces: list[str] = []
    metric, best = "", None
    if summary is not None:
        metric, best = summary.metric, summary.best_epoch
        facts |= {"best epoch": best, "parameters": summary.parameters, "fault": summary.fault}
        if summary.test:
            names = list(summary.test)
            scores = {str(model.get("model")): summary.test, **summary.baselines}
            lines = [[name, *(_cell(found.get(one)) for one in names)] for name, found in scores.items()]
            pieces.append(table(["test", *names], lines, numeric=names, best=0))
    entries = [[name, str(value)] for name, value in facts.items() if value not in (None, "")]
    return piece(table(["Run", ""], entries), *pieces, grid(*learning_pictures(rows, metric, best)))


def _cell(value: float | None) -> str:
    return "" if value is None else number(value)
