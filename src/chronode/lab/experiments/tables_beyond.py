"""Recipes of benchmarks beyond the papers."""

from __future__ import annotations

from typing import Any

from .budgets import Search, in_epochs, in_steps
from .recipe import Recipe, add_recipe

# With only 3,200 stays, networks overfit within 10 epochs.
_STAYS: dict[str, Any] = {
    **{"optimizer": "adamw", "weight_decay": 0.1, "model": {"dropout": 0.5}},
    # On a path of all 132 channels (values, masks, ages), f(z) has 8,512 entries: over 20 CPU minutes for a training.
    "by_model": {"ncde": {"channels": 8}},
}
for _protocol, _ending, _what in (
    ("clean", "", "the sets of the challenge, trained on a, tested on b and c"),
    ("paper", "-splits", "random splits of set a"),
):
    add_recipe(
        Recipe(
            f"beyond/physionet2012{_ending}",
            f"PhysioNet 2012, in-hospital death: {_what}",
            *("beyond", "physionet2012"),
            budgets={
                "smoke": in_epochs(1),
                "laptop": in_steps(600, seeds=3, search=Search({"learning_rate": (1e-3, 3e-3)}), **_STAYS),
                "paper": in_steps(600, seeds=5, search=Search({"learning_rate": (1e-3, 3e-3)}), **_STAYS),
            },
            protocol=_protocol,
            notes=(
                "Readings at their original times, not on filled grids. Literature: GRU-D and mTAN about 0.85 to 0.86.",
            ),
        )
    )

_SHORT = {"train": 500, "valid": 200, "test": 500}
for _table, _what, _laptop, _protocol, _notes in (
    ("one-bit", "One bit remembered over 400 to 16,000 steps", in_steps(200, options=_SHORT), "clean", ()),
    ("spoken-digits", "Free Spoken Digits: raw sound of up to 18,262 values", in_steps(1_500), "clean", ()),
    ("pixels", "Sequential and permuted MNIST with state-space models", in_steps(10_000), "clean", ()),
    ("heart-rate", "BIDMC: heart rate with state-space models", in_steps(1_500), "paper", ()),
    (
        *("lem", "LEM on the tasks of its paper", in_steps(10_000), "paper"),
        ("The numbers of the paper are those of its authors' logs; their settings are not used.",),
    ),
):
    add_recipe(
        Recipe(
            f"beyond/{_table}",
            _what,
            *("beyond", _table),
            budgets={"smoke": in_epochs(1), "laptop": _laptop, "paper": _laptop},
            protocol=_protocol,
            notes=_notes,
        )
    )
