"""`chronode threshold`: the probability from which the positive of two classes is predicted."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..settings import SettingError, named
from .flags import words
from .options import OneTarget, RunFolder, with_plugins

if TYPE_CHECKING:
    from ..runs import TwoClassRows
    from .tables import Table


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(with_plugins(threshold))


def threshold(
    run: RunFolder,
    target: OneTarget = None,
    cost: Annotated[
        str,
        typer.Option(
            help="Costs of a missed positive (fn) and of a false alarm (fp); the threshold with the lowest cost on the "
            "validation part is stored. [example: fn=5,fp=1]"
        ),
    ] = "",
    sensitivity: Annotated[
        float | None,
        typer.Option(help="Highest threshold that finds this share of the positive validation series. [example: 0.9]"),
    ] = None,
    specificity: Annotated[
        float | None,
        typer.Option(help="Lowest threshold that leaves this share of the others unflagged. [example: 0.95]"),
    ] = None,
    value: Annotated[
        float | None, typer.Option(help="This threshold, without looking at any data. [example: 0.3]")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Predict the more likely class again.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Choose the threshold between two classes, and store it with the model.

    It is chosen on the validation part, never on the test part, and used by predict, evaluate, stream and serve.
    Without an option, the rates of the current one are printed.

    Example: chronode threshold runs/vitals-1 --cost fn=5,fp=1
    """
    from ..judge import choose_threshold
    from ..runs import for_threshold, load, set_threshold, tested_rows, validation_rows
    from .outcome import print_result, say, say_note

    rule: dict[str, Any] = {"cost": _costs(cost), "sensitivity": sensitivity, "specificity": specificity}
    rule = {name: given for name, given in rule.items() if given is not None}
    if len(rule) + (value is not None) + reset > 1:
        raise ValueError("pass only one of --cost, --sensitivity, --specificity, --value and --reset.")
    trained = load(run)
    objective = for_threshold(trained, target).objective
    console = Console(stderr=json)
    valid = validation_rows(trained, target) if rule else None
    if valid is not None and valid.note:
        say_note(console, valid.note)
    chosen = (
        choose_threshold(valid.chances, valid.positive, weights=valid.weights, **rule) if valid is not None else value
    )
    if rule or value is not None or reset:
        objective = set_threshold(run, chosen, target)
    tested = tested_rows(trained, target)
    parts = {name: rows for name, rows in (("validation", valid), ("test", tested)) if rows is not None}
    if json:
        rates = {name: _rates(rows, objective.threshold).as_dict() for name, rows in parts.items()}
        result = {"run": str(run), "positive": objective.positive, "threshold": objective.threshold, "rates": rates}
        print_result(jsonlib.dumps(result, indent=1))
        return
    now = "the more likely class" if objective.threshold is None else f"probability ≥ {objective.threshold:.4g}"
    say(console, f"{run}: {objective.positive} is predicted for {now}")
    console.print(_table(parts, objective.threshold, rule.get("cost")))
    if rule or value is not None or reset:
        from ..report.run_page import report_of

        say(console, f"stored in {run}; next: chronode show {run} --open   or   chronode predict {run} NEW_FILE")
        report_of(run)


def _costs(text: str) -> dict[str, float] | None:
    """Returns the costs of `--cost fn=5,fp=1`."""
    if not text:
        return None
    try:
        return {name.strip(): float(price) for name, _, price in (word.partition("=") for word in words(text))}
    except ValueError:
        raise SettingError(
            f"{named('cost', text)} is not a list of costs: write {named('cost', 'fn=5,fp=1')}.", argument="cost"
        ) from None


def _rates(rows: TwoClassRows, threshold: float | None) -> Any:
    from ..judge import rates_at

    return rates_at(rows.chances, rows.positive, [0.5, *([] if threshold is None else [threshold])], rows.weights)


def _table(parts: dict[str, TwoClassRows], threshold: float | None, cost: dict[str, float] | None) -> Table:
    from .outcome import shown
    from .tables import Table

    table = Table("part and threshold")
    for name in ("sensitivity", "specificity", "precision", "flagged", *(["cost"] if cost else [])):
        table.add_column(name, justify="right")
    for part, rows in parts.items():
        rates = _rates(rows, threshold)
        for index, at in enumerate(rates.thresholds):
            cells = [rates.sensitivity, rates.specificity, rates.precision, rates.flagged]
            texts = [shown(float(column[index])) for column in cells]
            if cost:
                texts.append(shown(cost["fn"] * rates.missed[index] + cost["fp"] * rates.false_alarms[index]))
            table.add_row(f"{part} ≥ {shown(float(at))}", *texts)
    return table
