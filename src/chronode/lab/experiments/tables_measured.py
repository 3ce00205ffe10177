"""Recipes of tables of random networks that are not trained: mmRNN Table 2 and LTC Table 2."""

from __future__ import annotations

from ..analysis import Setting, gradient_table, sweep
from ..analysis._expressivity import REFINE
from .budgets import Budget
from .recipe import Recipe, TableCell, add_recipe

_LENGTHS = (5, 10, 25, 50)


def _gradient_norm(cell: TableCell) -> dict[str, float]:
    """Measures the gradient norm of one model and length, with the settings fitted to the paper."""
    options = cell.config["options"]
    result = gradient_table([cell.model], _LENGTHS, hidden_size=options["hidden_size"], seeds=options["seeds"])
    column = _LENGTHS.index(options["length"])  # all lengths are measured on the same sequences
    return {"gradient norm": float(result.means[0, column]), "spread": float(result.stds[0, column])}


def _depth(cell: TableCell) -> dict[str, float]:
    """Measures the computational depth of one model and activation over random networks, as the authors count it."""
    options = cell.config["options"]
    setting = Setting(width=options["width"])
    result = sweep("activation", [options["activation"]], models=[cell.model], setting=setting, tries=options["tries"])
    depth = REFINE * result.depth[0, 0]
    return {"computational depth": float(depth.mean()), "spread": float(depth.std(ddof=1)) if len(depth) > 1 else 0.0}


add_recipe(
    Recipe(
        "mmrnn/table2",
        "Gradient norms at the start of training",
        *("mmrnn", "2"),
        budgets={
            "smoke": Budget(options={"hidden_size": 8, "seeds": 1}),
            "laptop": Budget(options={"hidden_size": 64, "seeds": 3}),
            "paper": Budget(options={"hidden_size": 64, "seeds": 3}),
        },
        incomparable={
            "": "the paper does not give the initialization, and ours was fitted to its numbers (docs/analysis.md)."
        },
        measure=_gradient_norm,
    )
)
add_recipe(
    Recipe(
        "ltc/table2",
        "Computational depth by activation",
        *("ltc", "2"),
        budgets={
            "smoke": Budget(options={"width": 6, "tries": 1}),
            "laptop": Budget(options={"width": 100, "tries": 20}),
            "paper": Budget(options={"width": 100, "tries": 100}),
        },
        protocol="paper",
        notes=("The networks are those of the authors' code; a step counts four times, as in MATLAB's ode45.",),
        measure=_depth,
    )
)
