"""Every number of the results tables of the papers, with its meaning."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class PaperNumber:
    """One number of a results table.

    Attributes:
        paper: "mmrnn", "unicornn", "ltc", "irnn" or "ernn".
        table: Number of the table, or "figure4".
        column: Data set or variant within the table; "" if there is only one.
        label: The row as the paper names it.
        model: Name in the registry; "" if chronode does not have the model.
        variant: Settings in the label, such as "K=3" or "num_layers=2".
        task: Name of the task; "" for analyses.
        options: Options of the task, such as "event=true".
        metric: Name of the metric, as tasks use it.
        unit: "%" for percentages, "1/min", "steps/sample"; "" for plain numbers.
        mean: The number, or the mean of several runs; None where the paper only draws a curve.
        spread: Standard deviation; None if the paper gives none.
        n: Number of runs; None if the paper does not say.
        hidden: Units per layer, if the table or the text says.
        parameters: Number of parameters, as rounded by the paper.
        hours: Hours of training on the authors' machine.
        budget: Training length of the authors.
        note: Remark on the number; "own" for a row that is not in a paper.
    """

    paper: str
    table: str
    column: str
    label: str
    model: str
    variant: str
    task: str
    options: str
    metric: str
    unit: str
    mean: float | None = None
    spread: float | None = None
    n: int | None = None
    hidden: int | None = None
    parameters: int | None = None
    hours: float | None = None
    budget: str = ""
    note: str = ""


@cache
def _all() -> tuple[PaperNumber, ...]:
    text = files("chronode.lab.papers").joinpath("numbers.csv").read_text(encoding="utf-8")
    return tuple(_number(row) for row in csv.DictReader(text.splitlines()))


def _number(row: dict[str, str]) -> PaperNumber:
    kinds = {"float | None": float, "int | None": int}
    values: dict[str, Any] = {}
    for column in fields(PaperNumber):
        kind, text = str(column.type), row[column.name]
        values[column.name] = text if kind == "str" else kinds[kind](text) if text else None
    return PaperNumber(**values)


def numbers(paper: str | None = None, table: str | None = None) -> list[PaperNumber]:
    """Returns the numbers of a paper or of one of its tables, in the order of the paper.

    Example:
        >>> [f.mean for f in numbers("mmrnn", "3") if f.label == "mmRNN"]
        [100.0, 98.89]
    """
    return [f for f in _all() if paper in (None, f.paper) and table in (None, f.table)]
