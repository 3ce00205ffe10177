"""Learning curves, comparisons and searches as SVG, and what notebooks show of them and of fitted estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..judge import model_name
from ..training import LOWER_IS_BETTER, labeled
from .pages import (
    COLORS,
    GRAY,
    Html,
    Plot,
    bar_chart,
    dot_chart,
    figure,
    grid,
    number,
    page,
    piece,
    safe,
    span,
    table,
    write_page,
)

if TYPE_CHECKING:
    from ..runs import Run
    from ..search import Comparison, ModelScores, Trial


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


def comparison_table(comparison: Comparison) -> Html:
    """Returns a row per model with mean ± standard deviation of every metric; a click on a heading sorts."""
    columns, rows = comparison.table()
    first = [[row.score(name)[0] for name in comparison.metrics] for row in comparison.rows]
    if comparison.baseline is not None:
        first.append([comparison.baseline[1], *[None] * (len(comparison.metrics) - 1)])
    cells: list[list[Any]] = []
    for (name, *texts), means in zip(rows, first, strict=True):
        scores = [text if mean is None else (text, mean) for text, mean in zip(texts, means, strict=False)]
        cells.append([name, *scores, *texts[len(scores) :]])
    best = 0 if comparison.rows and comparison.rows[0].results else None
    return table(columns, cells, numeric=columns[1:], sortable=True, best=best)


def comparison_pictures(comparison: Comparison) -> list[str]:
    """Returns every run as a dot, and the learning curves."""
    rows = [row for row in comparison.rows if row.results]
    if not rows:
        return []
    values = {row.model: list(row.values(comparison.metric).values()) for row in rows}
    lines = {} if comparison.baseline is None else dict([comparison.baseline])
    title = f"Test {comparison.metric}: runs, mean ± standard deviation"
    return [figure(dot_chart(values, title=title, lines=lines)), *_curves(rows, comparison.metric)]


def _curves(rows: Sequence[ModelScores], metric: str) -> list[str]:
    """The mean over seeds and the range; a run that stopped early counts as long as it went on."""
    tables = {row.model: _table_of(row) for row in rows[: len(COLORS)]}
    drawn = {name: curve for name, curve in tables.items() if np.isfinite(curve).any()}
    if not drawn:
        return []
    longest = max(curve.shape[1] for curve in drawn.values())
    plot = Plot(
        span([1, longest], room=0.02),
        span(*drawn.values()),
        title=f"Validation {metric}: mean over seeds and range",
        xlabel="epoch",
        whole=True,
    )
    for index, (name, curve) in enumerate(tables.items()):
        if name not in drawn:
            continue
        kept = np.isfinite(curve).any(0)
        epochs, shown = np.arange(1, curve.shape[1] + 1)[kept], curve[:, kept]
        color = COLORS[index]
        if len(curve) > 1:
            plot.band(epochs, np.nanmin(shown, 0), np.nanmax(shown, 0), color=color)
        plot.line(epochs, np.nanmean(shown, 0), color=color, name=name, dots=len(epochs) <= 40)
    note = f"The {len(COLORS)} best of {len(rows)} models." if len(rows) > len(COLORS) else ""
    return [figure(plot, note)]


def _table_of(row: ModelScores) -> np.ndarray:
    longest = max((len(one.curve) for one in row.results), default=0)
    curves = np.full((len(row.results), longest), np.nan)
    for line, one in zip(curves, row.results, strict=True):
        line[: len(one.curve)] = [np.nan if value is None else value for value in one.curve]
    return curves


def comparison_html(comparison: Comparison) -> str:
    """Returns what a notebook shows of a comparison."""
    return piece(comparison_table(comparison), grid(*comparison_pictures(comparison)))


def trial_table(trials: Sequence[Trial], metric: str, lower_is_better: bool) -> Html:
    """Returns a row per trial, the best first."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    sign = 1.0 if lower_is_better else -1.0
    ordered = sorted(trials, key=lambda trial: np.inf if trial.value is None else sign * trial.value)
    columns = ["trial", metric, *names, "state", "epochs", "seconds"]
    rows = [
        [
            trial.number,
            trial.value,
            *(trial.settings.get(name) for name in names),
            trial.fault or trial.state,
            trial.epochs,
            trial.seconds,
        ]
        for trial in ordered
    ]
    best = 0 if ordered and ordered[0].value is not None else None
    return table(columns, rows, numeric=["trial", metric, *names, "epochs", "seconds"], sortable=True, best=best)


def search_pictures(trials: Sequence[Trial], metric: str, importances: Mapping[str, float]) -> list[str]:
    """Returns the trials with the best so far, the importances, and the metric over every numeric setting."""
    done = [trial for trial in trials if trial.value is not None]
    if not done:
        return []
    values = np.array([trial.value for trial in done], dtype=np.float64)
    pictures: list[str] = [figure(_history(trials, done, values, metric))]
    if importances:
        names = sorted(importances, key=lambda name: -importances[name])
        shares = [importances[name] for name in names]
        texts = [f"{100 * share:.0f}%" for share in shares]
        pictures.append(figure(bar_chart(names, shares, texts, title="Importance of the settings", color=COLORS[2])))
    for name in done[0].settings:
        chosen = [trial.settings.get(name) for trial in done]
        if len(set(chosen)) > 1 and all(isinstance(one, int | float) and not isinstance(one, bool) for one in chosen):
            pictures.append(figure(_over_setting(name, np.array(chosen, dtype=np.float64), values, metric, done)))
    return pictures


def _history(trials: Sequence[Trial], done: Sequence[Trial], values: np.ndarray, metric: str) -> Plot:
    best = np.minimum.accumulate if metric in LOWER_IS_BETTER else np.maximum.accumulate
    ends = span(values)
    plot = Plot((-0.5, len(trials) - 0.5), ends, title=f"Validation {metric} by trial", xlabel="trial", whole=True)
    numbers = [trial.number for trial in done]
    plot.line(numbers, best(values), color=COLORS[1], name="best so far", step=True)
    titles = [f"trial {trial}: {number(value)}" for trial, value in zip(numbers, values.tolist(), strict=True)]
    plot.dots(numbers, values, name="complete", titles=titles)
    pruned = [trial.number for trial in trials if trial.state == "pruned"]
    if pruned:
        plot.dots(pruned, [ends[0]] * len(pruned), color=GRAY, name="pruned", size=2.5)
    return plot


def _over_setting(name: str, x: np.ndarray, y: np.ndarray, metric: str, trials: Sequence[Trial]) -> Plot:
    log = bool((x > 0).all() and x.max() > 20 * x.min())
    across, whole = np.log10(x) if log else x, bool((x == np.round(x)).all())
    plot = Plot(span(across), span(y), title=f"{metric} over {name}", xlabel=name, log=log, height=200, whole=whole)
    titles = [f"trial {trial.number}: {name} {number(float(value))}" for trial, value in zip(trials, x, strict=True)]
    plot.dots(across, y, titles=titles)
    return plot


def search_html(
    trials: Sequence[Trial], metric: str, importances: Mapping[str, float], lower_is_better: bool, most: int = 10
) -> str:
    """Returns what a notebook shows of a search: the best trials and the pictures."""
    sign = 1.0 if lower_is_better else -1.0
    ordered = sorted(trials, key=lambda trial: np.inf if trial.value is None else sign * trial.value)
    listed = trial_table(ordered[:most], metric, lower_is_better)
    return piece(listed, grid(*search_pictures(trials, metric, importances)))
