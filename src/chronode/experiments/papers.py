"""The papers' figures as data: every number of their results tables, with what it is a number of."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One number of a results table.

    Attributes:
        paper: "mmrnn", "unicornn", "ltc", "irnn" or "ernn".
        table: its number there, or "figure4".
        column: which data set or variant of the table; "" if there is one only.
        label: the row as the paper names it.
        model: the name in the registry; "" if we do not have it.
        variant: settings in the label: "K=3", "num_layers=2".
        task: a name of `chronode tasks`; "" for analyses.
        options: of the task: "event=true".
        metric: as tasks name it.
        unit: "%" for percentages, "1/min", "steps/sample"; "" for plain numbers.
        mean: the number; of several runs their mean; None where the paper draws a curve and prints none.
        spread: their standard deviation; None if the paper gives none.
        n: how many runs; None if not said.
        hidden: units of a layer, if the table or the text says.
        parameters: trained numbers, as rounded by the paper.
        hours: of training on the authors' machine.
        budget: how long the authors trained.
        note: what a reader of the number should know.
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
    mean: float | None
    spread: float | None
    n: int | None
    hidden: int | None
    parameters: int | None
    hours: float | None
    budget: str
    note: str


@cache
def _all() -> tuple[Figure, ...]:
    text = files("chronode.experiments").joinpath("papers.csv").read_text(encoding="utf-8")
    return tuple(_figure(row) for row in csv.DictReader(text.splitlines()))


def _figure(row: dict[str, str]) -> Figure:
    kinds = {"float | None": float, "int | None": int}
    told: dict[str, Any] = {}
    for own in fields(Figure):
        kind, text = str(own.type), row[own.name]
        told[own.name] = text if kind == "str" else kinds[kind](text) if text else None
    return Figure(**told)


def figures(paper: str | None = None, table: str | None = None) -> list[Figure]:
    """The figures of a paper or of one of its tables, in the paper's order.

    Example:
        >>> [f.mean for f in figures("mmrnn", "3") if f.label == "mmRNN"]
        [100.0, 98.89]
    """
    return [f for f in _all() if paper in (None, f.paper) and table in (None, f.table)]
