"""Budgets of the recipes.

`laptop` takes minutes to hours per cell on one core: fewer optimizer steps than in the papers, and a schedule that ends
at a low rate. Other differences from the paper are printed with each table. Settings were selected by validation scores
only, in the runs named by `choices` or in shorter ones; none by a test score.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from .recipe import Budget

FEW = {"train": 64, "valid": 32, "test": 32}


def in_epochs(epochs: int, *, seeds: int = 1, options: dict[str, Any] | None = None, **training: Any) -> Budget:
    """Returns a budget of epochs."""
    return Budget(seeds, {"epochs": epochs, **training}, options or {})


def in_steps(steps: int, *, seeds: int = 1, **more: Any) -> Budget:
    """Returns a budget of optimizer steps with a cosine schedule; `more` are fields of Budget, or training settings."""
    own = {field.name: more.pop(field.name) for field in fields(Budget) if field.name in more}
    training = {"epochs": 10_000, "steps": steps, "schedule": "cosine", "drop_epochs": [], **more}
    return Budget(seeds, training, **own)
