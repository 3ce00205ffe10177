"""Budgets of the recipes.

`laptop` takes minutes per cell on one core: fewer optimizer steps than in the papers, and a schedule that ends at a low
rate; `long` takes up to a day per cell. Other differences from the paper are printed with each table. Settings were
selected by validation scores only, in the trials of a `Search` or in shorter ones; none by a test score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


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


FEW = {"train": 64, "valid": 32, "test": 32}
COSINE: dict[str, Any] = {"schedule": "cosine", "drop_epochs": []}


def in_epochs(epochs: int, *, seeds: int = 1, **more: Any) -> Budget:
    """Returns a budget of epochs; `more` are fields of Budget, or training settings.

    Example:
        >>> in_epochs(20, seeds=3, learning_rate=0.01).training
        {'epochs': 20, 'learning_rate': 0.01}
    """
    return _budget_of(seeds, {"epochs": epochs}, more)


def in_steps(steps: int, *, seeds: int = 1, **more: Any) -> Budget:
    """Returns a budget of optimizer steps with a cosine schedule; `more` are fields of Budget, or training settings.

    Example:
        >>> in_steps(500, clip=1.0).training["steps"]
        500
    """
    return _budget_of(seeds, {"epochs": 10_000, "steps": steps, **COSINE}, more)


def _budget_of(seeds: int, training: dict[str, Any], more: dict[str, Any]) -> Budget:
    options = {field.name: more.pop(field.name) for field in fields(Budget) if field.name in more}
    return Budget(seeds, {**training, **more}, **options)
