"""Recipes: how to reproduce the tables of the papers, and the runs they need."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from ...nn import find_model, models
from ...settings import near, one_of
from ...training import Settings
from ..papers import PaperNumber, numbers, setting_for, settings_in
from ..tasks import find_task, tasks
from .budgets import NO_SEARCH, Budget, Search
from .ledger import run_hash
from .summary import CANDIDATES

BUDGETS = ("smoke", "laptop", "long", "paper")
SAME_COMPUTATION = {"ernn": "irnn"}
"""Model -> another name of the same cell: with K given, their runs are the same, and only one is made."""
OWN = "own"
"""Note of rows that are not in a paper: they are shown beside the others and never counted."""


@dataclass(frozen=True)
class TableCell:
    """Number of a paper and the run that reproduces it.

    Attributes:
        number: The number of the paper.
        recipe: Name of the recipe.
        budget: "smoke", "laptop", "long" or "paper".
        model: Registered name.
        task: Name of the task.
        protocol: "clean" or "paper".
        config: Options of the task, settings of model and training; the model may have a `start`, as for `fit`.
        seeds: Number of runs.
        search: As in `Budget`; `candidates` has a cell for each combination.
        refit: As in `Budget`; `final` is that cell.
        best_test: As in `Recipe`.
    """

    number: PaperNumber
    recipe: str
    budget: str
    model: str
    task: str
    protocol: str
    config: dict[str, dict[str, Any]]
    seeds: int
    search: Search = NO_SEARCH
    refit: bool = False
    best_test: bool = False

    def candidates(self) -> list[TableCell]:
        """Returns the cell with each combination of candidate settings; only itself without candidates."""
        combinations = product(*([(name, value) for value in values] for name, values in self.search.choices.items()))
        chosen = [by_kind(dict(combination)) for combination in combinations]
        configs = [self.config | {kind: self.config[kind] | settings[kind] for kind in settings} for settings in chosen]
        return [replace(self, search=NO_SEARCH, config=config) for config in configs]

    def trials(self) -> list[TableCell]:
        """Returns the cells that are run to select one of `candidates`, in the same order."""
        trials = []
        for candidate in self.candidates():
            training = {**candidate.config["training"], **self.search.trial}
            trials.append(replace(candidate, config={**candidate.config, "training": training}))
        return trials

    def final(self) -> TableCell:
        """Returns the cell whose runs are shown in the table: itself, or with `refit` on all training series."""
        if not self.refit:
            return self
        training = {**self.config["training"], "refit": True}
        return replace(self, refit=False, config={**self.config, "training": training})

    def every_hash(self) -> set[str]:
        """Returns the hashes of the runs of all candidates and of their trials."""
        cells = [cell for candidate in self.candidates() for cell in (candidate, candidate.final())]
        return {key for cell in (*cells, *self.trials()) for key in cell.hashes()}

    def planned_steps(self) -> int:
        """Returns the number of optimizer steps of a run, for the expected sizes of the task."""
        training = training_of(self.config)
        steps = training.epochs * self.epoch_steps()
        return steps if training.steps is None else min(steps, training.steps)

    def epoch_steps(self) -> int:
        """Returns the number of optimizer steps of an epoch, for the expected sizes of the task."""
        sizes, training = find_task(self.task).sizes, training_of(self.config)
        series = self.config["options"].get("train", sizes.train)
        length = self.config["options"].get("length", sizes.steps)
        return math.ceil(series / training.batch) * math.ceil(length / (training.tbptt or length))

    def hashes(self) -> list[str]:
        """Returns the hash of the run of each seed."""
        return [run_hash(self.model, self.task, self.protocol, seed, self.config) for seed in range(self.seeds)]


@dataclass(frozen=True)
class Recipe:
    """Recipe of a table: of a paper, or with rows of your own.

    The config of a cell is assembled from general to specific settings: those of the paper for the task, those of the
    row (units, layers, K), and those of the budget.

    Attributes:
        name: Name, such as "mmrnn/table3".
        what: One-line description.
        paper: Paper of the table; "own" for a table of your own.
        table: Number of the table.
        rows: Rows of a table of your own, made by `row`.
        also: Further models, which are run in every column with the protocol and the budget of the table.
        budgets: "smoke", "laptop", "paper" and perhaps "long" -> Budget for all, or column, model with units
            ("unicornn 128") or task -> Budget (others are not run).
        protocol: Protocol of the splits.
        best_test: Whether the authors report the best epoch of the test part; a run then keeps that number too, beside
            the one that counts.
        notes: Differences from the paper, one line each; printed with the table.
        incomparable: Task -> why its numbers cannot be compared with those of the paper.
        measure: For tables of networks that are not trained: returns the metrics of a cell.

    Example:
        >>> from chronode.lab.experiments import in_steps
        >>> rows = (row("gru", "adding"), row("lstm", "adding", label="LSTM", mean=0.01, num_layers=2))
        >>> mine = Recipe("mine/adding", "My table", rows=rows, budgets={"laptop": in_steps(500, seeds=3)})
        >>> [(cell.model, cell.config["model"], cell.seeds) for cell in mine.cells("laptop")]
        [('gru', {}, 3), ('lstm', {'num_layers': 2}, 3)]
    """

    name: str
    what: str
    paper: str = OWN
    table: str = ""
    budgets: Mapping[str, Budget | Mapping[str, Budget]] = field(default_factory=dict)
    rows: tuple[PaperNumber, ...] = ()
    also: tuple[str, ...] = ()
    protocol: str = "clean"
    best_test: bool = False
    notes: tuple[str, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)
    measure: Callable[[TableCell], dict[str, float]] | None = None

    def numbers(self) -> list[PaperNumber]:
        """Returns the numbers of the table, then those of the models in `also` for each of its columns."""
        printed = list(self.rows) or numbers(self.paper, self.table)
        columns = {(one.column, one.task, one.options): one for one in reversed(printed)}
        first = [columns[key] for key in reversed(columns)]
        return [*printed, *(_own_row(model, one) for model in self.also for one in first)]

    def cells(self, budget: str = "laptop") -> list[TableCell]:
        """Returns the cells that can be run, without those whose model or task is not available."""
        one_of("budget", budget, BUDGETS)
        if self.measure is not None:
            return [self._measured(number, budget) for number in self.numbers() if budget in self.budgets]
        available = {*models(), *CANDIDATES}
        return [
            self._cell(number, budget)
            for number in self.numbers()
            if number.model in available and number.task in tasks() and self._budget(budget, number) is not None
        ]

    def _budget(self, budget: str, number: PaperNumber) -> Budget | None:
        budgets = self.budgets.get(budget, {})
        if isinstance(budgets, Budget):
            return budgets
        keys = (number.column, f"{number.model} {number.hidden}", number.task)
        return next((budgets[key] for key in keys if key in budgets), None)

    def _measured(self, number: PaperNumber, budget: str) -> TableCell:
        chosen = self._budget(budget, number)
        assert chosen is not None
        options = {**settings_in(number.options), **chosen.options}
        config = {"options": options, "model": dict(chosen.model), "training": {}}
        return TableCell(number, self.name, budget, number.model, number.task, self.protocol, config, 1)

    def _cell(self, number: PaperNumber, name: str) -> TableCell:
        budget = self._budget(name, number)
        assert budget is not None
        row: dict[str, Any] = {"options": settings_in(number.options), **by_kind(settings_in(number.variant))}
        if number.hidden is not None:
            row["model"]["hidden_size"] = number.hidden
        layers = [
            _papers_settings(self.paper, number),
            row,
            {"training": budget.training, "options": budget.options, "model": budget.model},
            by_kind(budget.by_model.get(number.model, {})),
        ]
        task_options = tasks()[number.task].options
        config: dict[str, dict[str, Any]] = {"options": {}, "model": {}, "training": {}}
        for layer in layers:
            for part, settings in layer.items():
                config[part] |= settings
        config["options"] = {key: value for key, value in config["options"].items() if key in task_options}
        if number.model in CANDIDATES:  # it has its own settings
            config |= {"model": {}, "training": {}}
        elif source := _source_of(number.model):
            config["cell"] = {"source": source}
        config = json.loads(json.dumps(config))  # tuples become lists, as in the ledger
        model = SAME_COMPUTATION.get(number.model, number.model) if "K" in config["model"] else number.model
        if model == "irnn" and config["model"].get("activation") == "relu":
            del config["model"]["activation"]  # the default, so that rows that name it share the runs of the others
        identity = (number, self.name, name, model, number.task, self.protocol)
        if number.model in CANDIDATES:
            return TableCell(*identity, config, budget.seeds)
        search = budget.searches.get(number.model, budget.search)
        return TableCell(*identity, config, budget.seeds, search, budget.refit, self.best_test)


def row(
    model: str,
    task: str,
    *,
    label: str = "",
    column: str = "",
    options: str = "",
    mean: float | None = None,
    spread: float | None = None,
    **settings: Any,
) -> PaperNumber:
    """Returns a row of a table of your own.

    Args:
        model: Registered name.
        task: Name of the task.
        label: Name in the table; that of the model by default.
        column: Column of the table, for several tasks or options; the task by default.
        options: Options of the task, such as "event=true length=100".
        mean: A published number to compare with, in percent for accuracies.
        spread: Its standard deviation.
        settings: Settings of the model or of its training that replace those of the budget's defaults.

    Example:
        >>> row("lstm", "bitstream", hidden_size=32).metric
        'accuracy'
    """
    metric = find_task(task).metric
    return PaperNumber(
        **{"paper": OWN, "table": "", "column": column or task, "label": label or model, "model": model, "task": task},
        variant=" ".join(f"{name}={json.dumps(value)}" for name, value in settings.items()),
        options=options,
        metric=metric,
        unit="%" if metric == "accuracy" else "",
        mean=mean,
        spread=spread,
        note=OWN,
    )


def _own_row(model: str, like: PaperNumber) -> PaperNumber:
    """Returns the row of a further model in the column of a printed number."""
    nothing: dict[str, Any] = dict.fromkeys(("mean", "spread", "n", "hidden", "parameters", "hours"))
    label = f"{model} ({OWN})"
    return replace(like, label=label, model=model, variant="", budget="", note=OWN, **nothing)


def _source_of(model: str) -> str:
    """Returns a hash of the file of a plugin's cell, so that a changed cell is trained again; "" for our own cells."""
    cell = find_model(model).cell
    if cell.__module__.partition(".")[0] == "chronode":
        return ""
    try:
        content = Path(inspect.getfile(cell)).read_bytes()
    except (OSError, TypeError):  # a cell that was defined in a notebook
        content = f"{cell.__module__}.{cell.__qualname__}".encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _papers_settings(paper: str, number: PaperNumber) -> dict[str, dict[str, Any]]:
    """Returns the settings of training and model with which the authors produced a number."""
    setting = setting_for(paper, number.task, number.model, number.hidden)
    if setting is None:
        return {}
    return {"training": dict(setting.training), "model": setting.network_for(number.model)}


def training_of(config: Mapping[str, Any], seed: int = 0) -> Settings:
    """Returns the training settings of a cell: those that it does not give are the same for all tables.

    Example:
        >>> training_of({"training": {"epochs": 3}}).early_stop
        0
    """
    usual = {"epochs": 20, "batch_size": 64, "early_stop": 0}
    return Settings.from_dict({**usual, **config["training"], "seed": seed})


def by_kind(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Separates settings of training from those of the model (all others).

    Example:
        >>> by_kind({"epochs": 3, "K": 5})
        {'training': {'epochs': 3}, 'model': {'K': 5}}
    """
    training = {field.name for field in fields(Settings)}
    return {
        "training": {key: value for key, value in settings.items() if key in training},
        "model": {key: value for key, value in settings.items() if key not in training},
    }


_recipes: dict[str, Recipe] = {}
_TABLES = ("measured", "mmrnn", "unicornn", "ltc", "equilibrium", "beyond")
"""Modules of recipes, in the order of the results."""


_SPLITS = {"clean": "clean split", "paper": "paper split"}


def add_recipe(recipe: Recipe) -> None:
    """Registers a recipe under its name.

    Example:
        >>> add_recipe(Recipe("mine/empty", "My table"))
        >>> find_recipe("mine/empty").what
        'My table'
    """
    _recipes[recipe.name] = recipe


def add_splits(*both: Recipe, differ: Mapping[str, str] = _SPLITS) -> None:
    """Registers each recipe with both protocols; the name of the authors' one ends in "-paper"."""
    for protocol, what in differ.items():
        for recipe in both:
            name = recipe.name + ("-paper" if protocol == "paper" else "")
            add_recipe(replace(recipe, name=name, what=f"{recipe.what} ({what})", protocol=protocol))


def recipes() -> dict[str, Recipe]:
    """Returns all recipes by name."""
    for name in _TABLES:  # importing them adds them
        import_module(f"{__package__}.tables_{name}")
    return dict(_recipes)


def current_hashes() -> set[str]:
    """Returns the hashes of all runs that any recipe needs at any budget."""
    cells = (cell for recipe in recipes().values() for budget in BUDGETS for cell in recipe.cells(budget))
    return {key for cell in cells for key in cell.every_hash()}


def find_recipe(name: str) -> Recipe:
    """Returns the recipe of the given name; otherwise raises a ValueError that lists similar names."""
    registered = recipes()
    if name not in registered:
        raise ValueError(
            f"there is no recipe {name!r}.{near(name, registered)} `chronode reproduce --list` lists all recipes."
        )
    return registered[name]
