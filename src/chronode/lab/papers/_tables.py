"""Printed numbers of the results tables of the papers, and the settings with which their authors trained.

`settings.csv` has one line for each. The RMSprop of mmRNN is that of Keras: its mean square decays with a factor of
0.9, that of torch with 0.99. LTC has its own learning rate for each task, its baselines 0.001. The settings of UnICORNN
are those of the authors' random search; other rows of its tables use those of the larger network. iRNN and ERNN use
the same code, with one η per time step, so that the number of steps must be known.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any

OTHERS = "others"
"""Model name of settings for all baselines of a paper."""

SHARED = ("hidden_size", "embedding_size", "word_dropout")
"""Network settings of the authors' own model that are shared with the baselines."""


@dataclass(frozen=True)
class PaperSetting:
    """Settings with which the authors of a paper trained a model on a task.

    Attributes:
        paper: "mmrnn", "unicornn", "ltc", "irnn" or "ernn"; "beyond" for our own tables.
        task: Name of the task.
        model: Registered name of the model, or "others".
        source: Source: "text", "program" (the authors' code), or a table or appendix.
        network: Settings of the network, in the words of `chronode.create`.
        training: Settings of the training, in the words of `chronode.training.Settings`.
        hidden: Units of the row of the table; None for every row.
        used: Whether tables are run with it; False for alternatives mentioned by the authors.
    """

    paper: str
    task: str
    model: str
    source: str
    network: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    hidden: int | None = None
    used: bool = True

    def network_for(self, model: str) -> dict[str, Any]:
        """Returns the network settings of a model: all for its own model, otherwise the shared ones."""
        return {name: value for name, value in self.network.items() if model == self.model or name in SHARED}


@cache
def _all_settings() -> tuple[PaperSetting, ...]:
    text = files("chronode.lab.papers").joinpath("settings.csv").read_text(encoding="utf-8")
    return tuple(_setting(**line) for line in csv.DictReader(text.splitlines()))


def _setting(network: str, training: str, hidden: str, used: str, **names: str) -> PaperSetting:
    units = int(hidden) if hidden else None
    return PaperSetting(
        **names, network=settings_in(network), training=settings_in(training), hidden=units, used=used == "yes"
    )


def settings_in(text: str) -> dict[str, Any]:
    """Parses settings such as those in the variant or options of a number.

    Example:
        >>> settings_in("K=3 activation=relu"), settings_in("event=true")
        ({'K': 3, 'activation': 'relu'}, {'event': True})
    """
    settings: dict[str, Any] = {}
    for pair in text.split():
        key, _, value = pair.partition("=")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value
    return settings


def settings(task: str | None = None, paper: str | None = None) -> list[PaperSetting]:
    """Returns the settings for a task, of a paper, or all of them.

    Example:
        >>> [(s.model, s.training["learning_rate"]) for s in settings("gesture", "ltc")]
        [('ltc', 0.01), ('others', 0.001)]
    """
    return [s for s in _all_settings() if task in (None, s.task) and paper in (None, s.paper)]


def setting_for(paper: str, task: str, model: str, hidden: int | None = None) -> PaperSetting | None:
    """Returns the setting for a row of a table; None if the paper does not cover the task.

    A setting for the model itself comes first, then one for rows of this size, then one for all others, then that of
    the authors' own model. ERNN and iRNN have the same authors, so missing settings are taken from the other paper.

    Example:
        >>> setting_for("unicornn", "psmnist", "unicornn", 128).training["learning_rate"]
        0.00114
        >>> setting_for("ltc", "gesture", "lstm").training["learning_rate"]
        0.001
    """
    settings_of_task = [s for s in settings(task, paper) if s.used]
    if not settings_of_task and paper == "ernn":
        return setting_for("irnn", task, model, hidden)
    own_model = paper if any(s.model == paper for s in settings_of_task) else ""
    ranked = [
        *(s for s in settings_of_task if s.model == model != own_model and s.hidden in (None, hidden)),
        *(s for s in settings_of_task if s.hidden is not None and s.hidden == hidden),
        *(s for s in settings_of_task if s.model == OTHERS and model != own_model),
        *(s for s in settings_of_task if s.model == own_model and s.hidden is None),
    ]
    return ranked[0] if ranked else None


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
def _all_numbers() -> tuple[PaperNumber, ...]:
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
    return [f for f in _all_numbers() if paper in (None, f.paper) and table in (None, f.table)]
