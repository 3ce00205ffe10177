"""A recipe: how to run a paper's table again, and which runs that takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

from .._checks import near, one_of
from ..nn._registry import models
from ..papers import PaperNumber, numbers, setting_for
from ..tasks import tasks
from ..training._settings import Settings
from .ledger import run_hash
from .summary import CANDIDATES

BUDGETS = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Budget:
    """How much is spent on each run.

    Attributes:
        seeds: runs per cell.
        training: settings of training that replace the recipe's: epochs, steps, learning_rate, ...
        options: of the task that replace its own: fewer series, shorter ones.
        model: settings of the model that replace the recipe's; only where the machine leaves no choice.
        by_model: settings of training of single models, which replace those of `training`.
        choices: settings of training or of the model, and the values to choose from by the validation metric of the
            first seed; the chosen values are used for all seeds.
    """

    seeds: int = 1
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    by_model: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class TableCell:
    """A number of the paper and the run that gives ours.

    Attributes:
        number: the paper's.
        recipe: the table that asks for it.
        budget: "smoke", "laptop" or "paper".
        model: a name of the registry.
        task: a name of `chronode tasks`.
        protocol: "clean" or "paper".
        config: options of the task, settings of the model and of the training.
        seeds: how many runs.
        choices: as in `Budget`; `candidates` has a cell for each.
    """

    number: PaperNumber
    recipe: str
    budget: str
    model: str
    task: str
    protocol: str
    config: dict[str, dict[str, Any]]
    seeds: int
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def candidates(self) -> list[TableCell]:
        """The cell with each combination of the settings to choose from; itself if there is nothing to choose."""
        combinations = product(*([(name, value) for value in values] for name, values in self.choices.items()))
        chosen = [by_kind(dict(combination)) for combination in combinations]
        configs = [self.config | {kind: self.config[kind] | own[kind] for kind in own} for own in chosen]
        return [replace(self, choices={}, config=config) for config in configs]

    def every_hash(self) -> set[str]:
        """Of the runs of all candidates, chosen or not."""
        return {key for candidate in self.candidates() for key in candidate.hashes()}

    def hashes(self) -> list[str]:
        """What identifies the run of each seed."""
        return [run_hash(self.model, self.task, self.protocol, seed, self.config) for seed in range(self.seeds)]


@dataclass(frozen=True)
class Recipe:
    """How a table is run.

    What a cell needs is put together from the general to the special: what the task knows of the paper's settings,
    the row's own (units, layers, K), the budget.

    Attributes:
        name: "mmrnn/table3".
        what: one line.
        paper: whose table it is.
        table: its number.
        budgets: "smoke", "laptop", "paper" -> Budget for all, or column or task -> Budget (the others are left out).
        protocol: whose splits.
        notes: what differs from the paper, a line each; printed with the table.
    """

    name: str
    what: str
    paper: str
    table: str
    budgets: Mapping[str, Budget | Mapping[str, Budget]]
    protocol: str = "clean"
    notes: tuple[str, ...] = ()

    def numbers(self) -> list[PaperNumber]:
        """The table's numbers."""
        return numbers(self.paper, self.table)

    def cells(self, budget: str = "laptop") -> list[TableCell]:
        """What can be run: a figure whose model or task we do not have is left out."""
        one_of("budget", budget, BUDGETS)
        known = {*models(), *CANDIDATES}
        return [
            self._cell(number, budget)
            for number in self.numbers()
            if number.model in known and number.task in tasks() and self._budget(budget, number) is not None
        ]

    def _budget(self, budget: str, number: PaperNumber) -> Budget | None:
        found = self.budgets[budget]
        return found if isinstance(found, Budget) else found.get(number.column, found.get(number.task))

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
            {"training": budget.by_model.get(number.model, {})},
        ]
        known = tasks()[number.task].options
        config: dict[str, dict[str, Any]] = {"options": {}, "model": {}, "training": {}}
        for layer in layers:
            for part, settings in layer.items():
                config[part] |= settings
        config["options"] = {key: value for key, value in config["options"].items() if key in known}
        if number.model in CANDIDATES:  # it has settings of its own
            config |= {"model": {}, "training": {}}
        config = json.loads(json.dumps(config))  # tuples become lists, as they are in the ledger
        about = (number, self.name, name, number.model, number.task, self.protocol)
        return TableCell(*about, config, budget.seeds, {} if number.model in CANDIDATES else budget.choices)


def _papers_settings(paper: str, number: PaperNumber) -> dict[str, dict[str, Any]]:
    """How the authors trained the model of a number, as settings of training and of the model."""
    found = setting_for(paper, number.task, number.model, number.hidden)
    if found is None:
        return {}
    return {"training": dict(found.training), "model": found.network_for(number.model)}


def by_kind(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings of training, and those of the model: all others.

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
    """The settings that a figure's variant or options name.

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


def add(recipe: Recipe) -> None:
    """Adds a recipe under its name."""
    _recipes[recipe.name] = recipe


def recipes() -> dict[str, Recipe]:
    """All recipes by name."""
    from . import tables  # noqa: F401 - importing them adds them

    return dict(_recipes)


def current_hashes() -> set[str]:
    """Of all runs that some recipe asks for at some budget."""
    cells = (cell for recipe in recipes().values() for budget in BUDGETS for cell in recipe.cells(budget))
    return {key for cell in cells for key in cell.every_hash()}


def find(name: str) -> Recipe:
    """The recipe of that name; a ValueError that lists the near ones if there is none."""
    known = recipes()
    if name not in known:
        raise ValueError(f"there is no recipe {name!r}.{near(name, known)} `chronode reproduce --list` lists all.")
    return known[name]
