"""Recipes: how to reproduce the tables of the papers, and the runs they need."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from itertools import product
from typing import Any

from ...nn import models
from ...settings import near, one_of
from ...training import Settings
from ..papers import PaperNumber, numbers, setting_for
from ..tasks import tasks
from .ledger import run_hash
from .summary import CANDIDATES

BUDGETS = ("smoke", "laptop", "long", "paper")
SAME_COMPUTATION = {"ernn": "irnn"}
"""Model -> another name of the same cell: with K given, their runs are the same, and only one is made."""


@dataclass(frozen=True)
class Search:
    """Settings of training or model with candidate values, selected by the validation metric of the first seed.

    Attributes:
        choices: Setting -> candidate values; every combination is tried.
        trial: Training settings of the trials, such as fewer epochs; the selected values are then trained in full.
    """

    choices: Mapping[str, Sequence[Any]]
    trial: Mapping[str, Any] = field(default_factory=dict)


NO_SEARCH = Search({})


@dataclass(frozen=True)
class Budget:
    """Budget of each run.

    Attributes:
        seeds: Number of runs per cell.
        training: Training settings that replace those of the recipe: epochs, steps, learning_rate, ...
        options: Options of the task that replace the defaults: fewer or shorter series.
        model: Settings of the model that replace those of the recipe; only if the machine requires it.
        by_model: Settings of training or model of single models, which replace those of `training` and `model`.
        search: Candidate settings; the selected values are used for all seeds.
        searches: Candidate settings of single models, which replace `search`.
        refit: Whether the number is that of a training on the training and validation series together, with the
            selected settings and the weights of the last step.
    """

    seeds: int = 1
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    by_model: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    search: Search = NO_SEARCH
    searches: Mapping[str, Search] = field(default_factory=dict)
    refit: bool = False


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
        configs = [self.config | {kind: self.config[kind] | own[kind] for kind in own} for own in chosen]
        return [replace(self, search=NO_SEARCH, config=config) for config in configs]

    def trials(self) -> list[TableCell]:
        """Returns the cells that are run to select one of `candidates`, in the same order."""
        trial = self.search.trial
        found = self.candidates()
        return [replace(own, config={**own.config, "training": {**own.config["training"], **trial}}) for own in found]

    def final(self) -> TableCell:
        """Returns the cell whose runs are shown in the table: itself, or with `refit` on all training series."""
        if not self.refit:
            return self
        training = {**self.config["training"], "refit": True}
        return replace(self, refit=False, config={**self.config, "training": training})

    def every_hash(self) -> set[str]:
        """Returns the hashes of the runs of all candidates and of their trials."""
        cells = [cell for own in self.candidates() for cell in (own, own.final())]
        return {key for cell in (*cells, *self.trials()) for key in cell.hashes()}

    def hashes(self) -> list[str]:
        """Returns the hash of the run of each seed."""
        return [run_hash(self.model, self.task, self.protocol, seed, self.config) for seed in range(self.seeds)]


@dataclass(frozen=True)
class Recipe:
    """Recipe of a table.

    The config of a cell is assembled from general to specific settings: those of the paper for the task, those of the
    row (units, layers, K), and those of the budget.

    Attributes:
        name: Name, such as "mmrnn/table3".
        what: One-line description.
        paper: Paper of the table.
        table: Number of the table.
        budgets: "smoke", "laptop", "paper" and perhaps "long" -> Budget for all, or column, model with units
            ("unicornn 128") or task -> Budget (others are not run).
        protocol: Protocol of the splits.
        best_test: Whether the authors report the best epoch of the test part; a run then keeps that number too, beside
            the one that counts.
        notes: Differences from the paper, one line each; printed with the table.
        incomparable: Task -> why its numbers cannot be compared with those of the paper.
        measure: For tables of networks that are not trained: returns the metrics of a cell.
    """

    name: str
    what: str
    paper: str
    table: str
    budgets: Mapping[str, Budget | Mapping[str, Budget]]
    protocol: str = "clean"
    best_test: bool = False
    notes: tuple[str, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)
    measure: Callable[[TableCell], dict[str, float]] | None = None

    def numbers(self) -> list[PaperNumber]:
        """Returns the numbers of the table."""
        return numbers(self.paper, self.table)

    def cells(self, budget: str = "laptop") -> list[TableCell]:
        """Returns the cells that can be run, without those whose model or task is not available."""
        one_of("budget", budget, BUDGETS)
        if self.measure is not None:
            return [self._measured(number, budget) for number in self.numbers() if budget in self.budgets]
        known = {*models(), *CANDIDATES}
        return [
            self._cell(number, budget)
            for number in self.numbers()
            if number.model in known and number.task in tasks() and self._budget(budget, number) is not None
        ]

    def _budget(self, budget: str, number: PaperNumber) -> Budget | None:
        found = self.budgets.get(budget, {})
        if isinstance(found, Budget):
            return found
        places = (number.column, f"{number.model} {number.hidden}", number.task)
        return next((found[place] for place in places if place in found), None)

    def _measured(self, number: PaperNumber, budget: str) -> TableCell:
        found = self._budget(budget, number)
        assert found is not None
        options = {**settings_in(number.options), **found.options}
        config = {"options": options, "model": dict(found.model), "training": {}}
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
        known = tasks()[number.task].options
        config: dict[str, dict[str, Any]] = {"options": {}, "model": {}, "training": {}}
        for layer in layers:
            for part, settings in layer.items():
                config[part] |= settings
        config["options"] = {key: value for key, value in config["options"].items() if key in known}
        if number.model in CANDIDATES:  # it has its own settings
            config |= {"model": {}, "training": {}}
        config = json.loads(json.dumps(config))  # tuples become lists, as in the ledger
        model = SAME_COMPUTATION.get(number.model, number.model) if "K" in config["model"] else number.model
        if model == "irnn" and config["model"].get("activation") == "relu":
            del config["model"]["activation"]  # the default, so that rows that name it share the runs of the others
        about = (number, self.name, name, model, number.task, self.protocol)
        if number.model in CANDIDATES:
            return TableCell(*about, config, budget.seeds)
        search = budget.searches.get(number.model, budget.search)
        return TableCell(*about, config, budget.seeds, search, budget.refit, self.best_test)


def _papers_settings(paper: str, number: PaperNumber) -> dict[str, dict[str, Any]]:
    """Returns the settings of training and model with which the authors produced a number."""
    found = setting_for(paper, number.task, number.model, number.hidden)
    if found is None:
        return {}
    return {"training": dict(found.training), "model": found.network_for(number.model)}


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


def settings_in(text: str) -> dict[str, Any]:
    """Parses the settings in the variant or options of a number.

    Example:
        >>> settings_in("K=3 activation=relu"), settings_in("event=true")
        ({'K': 3, 'activation': 'relu'}, {'event': True})
    """
    found: dict[str, Any] = {}
    for pair in text.split():
        key, _, value = pair.partition("=")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


_recipes: dict[str, Recipe] = {}
_TABLES = ("measured", "mmrnn", "unicornn", "ltc", "equilibrium", "beyond")
"""Modules of recipes, in the order of the results."""


_SPLITS = {"clean": "clean split", "paper": "paper split"}


def add(recipe: Recipe) -> None:
    """Registers a recipe under its name."""
    _recipes[recipe.name] = recipe


def add_splits(*both: Recipe, differ: Mapping[str, str] = _SPLITS) -> None:
    """Registers each recipe with both protocols; the name of the authors' one ends in "-paper".

    Args:
        both: The recipes, without protocols.
        differ: Protocol -> its description, which is added to that of the recipe.
    """
    for protocol, what in differ.items():
        for recipe in both:
            name = recipe.name + ("-paper" if protocol == "paper" else "")
            add(replace(recipe, name=name, what=f"{recipe.what} ({what})", protocol=protocol))


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
    known = recipes()
    if name not in known:
        raise ValueError(
            f"there is no recipe {name!r}.{near(name, known)} `chronode reproduce --list` lists all recipes."
        )
    return known[name]
