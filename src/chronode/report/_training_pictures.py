"""Learning curves as SVG, and what notebooks show of runs and fitted estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..judge import model_name
from ..training import labeled
from .pages import COLORS, Plot, figure, grid, number, page, piece, safe, span, table, write_page

if TYPE_CHECKING:
    from ..runs import Run


def learning_pictures(rows: Sequence[Mapping[str, Any]], metric: str, best_epoch: int | None) -> list[str]:
    """Returns the losses over epochs, and the validation metric if it is not the loss.

    Example:
        >>> rows = [{"epoch": 1, "loss": 0.9, "valid_loss": 0.8}, {"epoch": 2, "loss": 0.5, "valid_loss": None}]
        >>> len(learning_pictures(rows, "loss", 2)), len(learning_pictures([], "loss", None))
        (1, 0)
    """
    epochs = [float(row["epoch"]) for row in rows]

    def column(key: str) -> NDArray[np.float64]:
        cells = [row.get(key) for row in rows]
        return np.array([np.nan if value is None else float(value) for value in cells])

    panels = {"Loss": {"training": column("loss"), "validation": column("valid_loss")}}
    if metric not in ("", "loss", "valid_loss"):
        panels[f"Validation {metric}"] = {"": column(metric)}
    pictures: list[str] = []
    for title, lines in panels.items():
        if not any(np.isfinite(values).any() for values in lines.values()):
            continue
        plot = Plot(span(epochs, room=0.02), span(*lines.values()), title=title, xlabel="epoch", whole=True)
        for index, (name, values) in enumerate(lines.items()):
            color = COLORS[index] if name else COLORS[2]
            plot.line(epochs, values, color=color, name=name, dots=len(epochs) <= 40)
        if best_epoch:
            plot.upright(float(best_epoch), name=f"best epoch ({best_epoch})")
        pictures.append(figure(plot))
    return pictures


def write_curves(
    curves: Mapping[str, Sequence[float]], path: Path, *, title: str, ylabel: str, chance: float | None = None
) -> Path:
    """Writes a page with one line per model over epochs; `chance` is a dotted line."""
    epochs = range(1, 1 + max(map(len, curves.values())))
    heights = span(*map(np.asarray, curves.values()), [] if chance is None else [chance])
    plot = Plot(span(epochs, room=0.02), heights, title=ylabel, xlabel="epoch", whole=True, height=300)
    for index, (name, values) in enumerate(curves.items()):
        color = COLORS[index % len(COLORS)]
        plot.line(epochs[: len(values)], values, color=color, name=name, dots=len(epochs) <= 40)
    if chance is not None:
        plot.level(chance, name="chance")
    return write_page(path, page(title, "", {"Learning curves": [figure(plot)]}))


def progress_html(
    done: float, epochs: int, text: str, rows: Sequence[Mapping[str, Any]], best_epoch: int | None
) -> str:
    """Returns a progress bar with a line of text and, after two epochs, the learning curves."""
    bar = f'<progress value="{done:.3f}" max="{epochs}" style="width:200px"></progress>'
    curves = grid(*learning_pictures(rows, "", best_epoch)) if len(rows) > 1 else ""
    return piece(f"<div>{bar} {safe(text)}</div>", curves)


def fitted_html(estimator: Any) -> str:
    """Returns size, scores beside those of the baselines, and learning curves of a fitted estimator."""
    rows, model = [epoch.as_row() for epoch in estimator.history_], estimator.model_
    facts = {"model": model.title, "channels": estimator.n_features_in_, "parameters": model.num_weights}
    facts |= {"epochs": len(rows), "best epoch": estimator.best_epoch_} if estimator.best_epoch_ else {}
    listed = table(("fitted", ""), list(facts.items()), numeric=("",))
    pictures = grid(*learning_pictures(rows, "", estimator.best_epoch_))
    return piece(listed, _held_out_table(estimator), pictures)


def _held_out_table(estimator: Any) -> str:
    """Returns the table of a model and the baselines on held-out series; empty if none were measured."""
    names = list(estimator.validated_)
    if not names:
        return ""
    scores = {"this model": estimator.validated_, **estimator.baselines_}
    rows = [[name, *(score.get(key, "") for key in names)] for name, score in scores.items()]
    positive = getattr(estimator, "positive_", None)
    shown = [labeled(name, None if positive is None else str(positive)) for name in names]
    return table(("held-out series", *shown), rows, numeric=shown)


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
            lines = [
                [row, *("" if (value := values.get(one)) is None else number(value) for one in names)]
                for row, values in scores.items()
            ]
            heads = [labeled(one, summary.positive, len(summary.targets)) for one in names]
            pieces.append(table(["test", *heads], lines, numeric=heads, best=0))
    entries = [[name, str(value)] for name, value in facts.items() if value not in (None, "")]
    return piece(table(["Run", ""], entries), *pieces, grid(*learning_pictures(rows, metric, best)))
