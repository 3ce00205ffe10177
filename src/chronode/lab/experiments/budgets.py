"""Budgets of the recipes.

`laptop` takes minutes per cell on one core: fewer optimizer steps than in the papers, and a schedule that ends at a low
rate; `long` takes up to a day per cell. Other differences from the paper are printed with each table. Settings were
selected by validation scores only, in the trials of a `Search` or in shorter ones; none by a test score.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from .recipe import Budget

FEW = {"train": 64, "valid": 32, "test": 32}
COSINE: dict[str, Any] = {"schedule": "cosine", "drop_epochs": []}


def in_epochs(epochs: int, *, seeds: int = 1, **more: Any) -> Budget:
    """Returns a budget of epochs; `more` are fields of Budget, or training settings."""
    return _budget(seeds, {"epochs": epochs}, more)


def in_steps(steps: int, *, seeds: int = 1, **more: Any) -> Budget:
    """Returns a budget of optimizer steps with a cosine schedule; `more` are fields of Budget, or training settings."""
    return _budget(seeds, {"epochs": 10_000, "steps": steps, **COSINE}, more)


def _budget(seeds: int, training: dict[str, Any], more: dict[str, Any]) -> Budget:
    own = {field.name: more.pop(field.name) for field in fields(Budget) if field.name in more}
    return Budget(seeds, {**training, **more}, **own)
