"""Results of training and evaluation as lines and tables."""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from rich.console import Console

from ..data import Sequences, counted, is_irregular
from ..judge import Race, best_baseline, end_text, is_linear, linear_text, model_name
from ..runs import Config, Outcome, Prepared
from ..training import AUTO, labeled
from .tables import Table

_MANY_METRICS = 4
_MOST_TARGETS = 30
_NAME_WIDTH = 14


def print_result(text: str) -> None:
    """Writes the result of a command to standard output; it is an error if nobody can read it there."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def say(console: Console, line: str, **style: Any) -> None:
    """Prints one line of text without markup or wrapping."""
    console.print(line, markup=False, highlight=False, soft_wrap=True, **style)


def say_note(console: Console, note: str) -> None:
    """Prints a note."""
    say(console, f"note: {note}")


def show_prepared(console: Console, config: Config, prepared: Prepared) -> None:
    """Prints the summary of the data, the time unit, the split and the model."""
    say(console, f"{config.data.source}: {prepared.facts}")
    chosen = config.model
    size = f" H={chosen.hidden_size or 64}" + (f", {chosen.num_layers} layers" if (chosen.num_layers or 1) > 1 else "")
    # The choice of a model is printed when it is made.
    model = "" if chosen.model == AUTO else f"  model: {chosen.model}{size}"
    say(console, f"{prepared.facts.time}.  {prepared.divided}.{model}")
    for note in prepared.notes:
        say_note(console, note)


def show_race(console: Console, config: Config, prepared: Prepared, race: Race | None) -> None:
    """Prints the results of a race and the choice; without a race, the usual model with the reason for it."""
    chosen = config.model
    if race is None:
        why = f"default: {reason(prepared.parts.train)}; see `chronode models`"
        return say(console, f"model: {chosen.model} H={chosen.hidden_size} ({why})")
    shown_metrics = list(dict.fromkeys((race.metric, "loss", *prepared.objective.metrics[:1])))
    rows: dict[str, dict[str, Any]] = {}
    names = short_names([entry.name for entry in race.entries])
    for entry in race.entries:
        row: dict[str, Any] = {name: entry.metrics.get(name) for name in shown_metrics}
        if entry.spread is not None:
            row[race.metric] = f"{shown(entry.value)} ± {entry.spread:.2g}"
        rows[names[entry.name]] = row | {"epochs": entry.epochs or None}
    goal = prepared.objective
    console.print(scores_table(f"race, {race.judged}", rows, goal.positive, len(goal.targets)))
    for whole, short in names.items():
        if short.endswith("*"):
            say(console, f"{short}: {whole}")
    say(console, f"model: {race.reason}")


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Returns short names of candidates: model and number of units, with a star for each set of further settings.

    Example:
        >>> list(short_names(["stack alone", "gru H=16", "gru H=16 dropout=0.2", "gru H=16 dropout=0.4"]).values())
        ['stack alone', 'gru-16', 'gru-16*', 'gru-16**']
    """
    found: dict[str, str] = {}
    for name in names:
        model, units, settings = name.partition(" H=")
        size, _, settings = settings.partition(" ")
        short = f"{model}-{size}{'*' * bool(settings)}" if units and size.isdecimal() else name
        while short in found.values():
            short += "*"
        found[name] = short
    return found


def reason(train: Sequences) -> str:
    """Explains why the default model suits these series.

    Example:
        >>> from chronode.data import from_list
        >>> reason(from_list([[1.0, 2.0, 3.0]], times=[[0.0, 1.0, 5.0]]))
        'irregular times'
    """
    reasons = []
    if is_irregular(train):
        reasons.append("irregular times")
    if train.has_missing:
        reasons.append("missing values")
    if float(np.median(train.lengths)) >= 100:
        reasons.append("long series")
    return ", ".join(reasons) or "works for most data; the steps are regular, so lstm may work as well"


def targets_tables(name: str, targets: Mapping[str, Mapping[str, Any]], metric: str) -> list[Table]:
    """Returns a table of all targets, or one for each if there are classes among them, whose metrics differ.

    Args:
        name: Name of the model or of the data.
        targets: As for `targets_table`; "positive" is the positive one of two classes.
        metric: As for `targets_table`.
    """
    if not targets or all("rmse" in scores["test"] for scores in targets.values()):
        return [targets_table(targets, metric)] if targets else []
    return [
        scores_table(target, {name: scores["test"], **scores["baselines"]}, scores.get("positive"))
        for target, scores in targets.items()
    ]


def targets_table(targets: Mapping[str, Mapping[str, Any]], metric: str) -> Table:
    """Returns a row for each of several targets, in its own units."""
    names = list(next(iter(targets.values()))["test"])
    metric = metric if metric in names else names[0]
    table = Table("each target, in its own units", title_justify="left")
    for name in (*names, "best baseline"):
        table.add_column(name, justify="right")
    for target, scores in list(targets.items())[:_MOST_TARGETS]:
        best = best_baseline(metric, scores["baselines"])
        against = "" if best is None else f"{metric} {shown(best[1])} ({best[0]})"
        table.add_row(target, *(shown(scores["test"].get(name)) for name in names), against)
    if len(targets) > _MOST_TARGETS:
        table.add_row(f"... {len(targets) - _MOST_TARGETS:,} more (with --json)", *[""] * (len(names) + 1))
    return table


def scores_table(
    title: str, scores: Mapping[str, Mapping[str, Any]], positive: str | None = None, targets: int = 1
) -> Table:
    """Returns a table of models or files and their metrics."""
    names = list(dict.fromkeys(name for metrics in scores.values() for name in metrics))
    heads = {name: labeled(name, positive, targets) for name in names}
    table = Table(title, title_justify="left")
    if len(names) > _MANY_METRICS:  # a row per metric is easier to read than several tables
        for row in scores:
            table.add_column("\n".join(wrap(row, _NAME_WIDTH)), justify="right")
        for name in names:
            table.add_row(heads[name], *(shown(metrics.get(name)) for metrics in scores.values()))
        return table
    for name in names:
        table.add_column(heads[name], justify="right")
    for row, metrics in scores.items():
        table.add_row(row, *(shown(metrics.get(name)) for name in names))
    return table


def shown(value: float | str | None) -> str:
    """Formats a metric with four digits; "" if there is none."""
    if isinstance(value, str):
        return value
    return "" if value is None or value != value else f"{value:.4g}"


def show_outcome(console: Console, outcome: Outcome) -> None:
    """Prints the test metrics with the baselines, the folder, and the next commands."""
    summary, folder = outcome.summary, outcome.run.path
    by = f"best epoch {summary['best_epoch']} of {summary['epochs']} by {summary['metric']}"
    asked = outcome.run.config["model"]
    name = model_name(summary, asked["model"], asked.get("start"))
    if summary["stopped"] == "combined":
        by = f"validation {summary['metric']} {shown(summary['valid'].get(summary['metric']))}"
    elif outcome.run.config["training"].get("refit"):
        by = f"{counted(summary['epochs'], 'epoch')} on the training and validation series together"
    if is_linear(summary, asked.get("start")):
        by = linear_text(summary)
    say(console, f"{describe_end(summary)}: {by}")
    tested = bool(summary["test"])
    title, scores = ("test", summary["test"]) if tested else ("validation (no test part)", summary["valid"])
    targets = summary.get("targets") or {}
    short = name.partition(" (")[0]
    rows = {short: scores, **summary["baselines"]}
    console.print(scores_table(title, rows, summary.get("positive"), len(targets)))
    if short != name:
        say(console, f"model: {name}")
    for table in targets_tables(short, targets, summary["metric"]):
        console.print(table)
    start, last = summary.get("start"), summary["notes"][-1:]
    if start and start["valid"] is not None and not summary.get("baseline"):
        whole = summary["valid"].get(start["metric"], float("nan"))
        text = f"validation {start['metric']} {start['valid']:.4g} alone"
        text += f", {whole:.4g} with the network" if summary["best_epoch"] else ""
        name = "stack" if start.get("title", "").startswith("stack") else "linear start"
        say(console, f"{name} ({start['features']}): {text}")
    if linear := summary.get("linear"):
        value = summary["valid"].get(linear["metric"], float("nan"))
        text = f"{linear['metric']} {shown(linear['valid'])} on the validation part; this model: {shown(value)}"
        say(console, f"a linear start (--start linear) would begin at {text}")
    if last and "Most likely to help" in last[0]:
        say(console, last[0])
    say(console, f"run: {folder}   report.html  {'predictions.csv  ' if tested else ''}model.safetensors")
    say(console, f"next: chronode show {folder} --open   or   chronode predict {folder} NEW_FILE -o out.csv")


def show_unfit(console: Console, outcome: Outcome) -> None:
    """Prints the uses that a model of a file is not fit for."""
    trained = outcome.trained
    uses = {"stream": "live data", "export c": "export to C", "export onnx": "export to ONNX"}
    if trained is None or trained.reading is None:
        return
    refused = [text for capability, text in uses.items() if trained.can(capability) is not None]
    if refused:
        say(console, f"not for {', '.join(refused)}: train with --for stream or --for export if you need them")


def describe_end(summary: Mapping[str, Any]) -> str:
    """Describes why a run ended."""
    words = {"epochs": "finished", "steps": "finished all steps", "early": end_text(summary)}
    return words.get(summary["stopped"], summary["stopped"])
