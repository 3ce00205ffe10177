"""Recipes of the tables of mmRNN."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .budgets import FEW, in_epochs, in_steps
from .recipe import Recipe, add_recipe, add_splits

_PROGRAM = (
    "PhasedLSTM, RNN-decay and the reciprocal RNN are those of the authors' code, which differ from their papers."
)
# The smoothing of the authors is for RMSprop; Adam only supports the default.
_BITS: dict[str, Any] = {"optimizer": "adam", "smoothing": 0.99, "batch_size": 128, "clip": 1.0, "seeds": 5}
add_recipe(
    Recipe(
        "mmrnn/table3",
        "Bit-stream parity: dense and event-based encoding",
        *("mmrnn", "3"),
        budgets={
            "smoke": in_epochs(1, options=FEW),
            "laptop": {
                "event": in_steps(15_000, options={"valid": 2_000}, **_BITS),
                "dense": in_steps(8_000, options={"valid": 2_000}, **_BITS),
            },
            "long": {"event": in_steps(40_000, options={"valid": 2_000}, **{**_BITS, "seeds": 3})},
            "paper": in_epochs(500, seeds=5),
        },
        notes=(
            "Blocks of 2 to 31 bits, as in the authors' code; their text says 32.",
            _PROGRAM,
            "A bit lasts 1/32 unit of time. The paper gives no step of coRNN, and no ε and β of the Lipschitz RNN: for "
            "the dense encoding, the steps are 2 per bit (coRNN) and 1 (Lipschitz RNN, β = 0.5); with "
            "steps of 0.5 and 0.003 both are at chance (`results/archive`). For events, the step of coRNN is 0.5.",
        ),
    )
)
add_splits(
    Recipe(
        "mmrnn/table4",
        "Person activity: one label per step",
        *("mmrnn", "4"),
        budgets={"smoke": in_epochs(1), "laptop": in_epochs(200), "paper": in_epochs(200, seeds=5)},
        notes=(_PROGRAM,),
    )
)
add_recipe(
    Recipe(
        "mmrnn/table5",
        "Event-based MNIST",
        *("mmrnn", "5"),
        budgets={
            "smoke": in_epochs(1),
            "laptop": in_steps(12_000, batch_size=128, clip=1.0, seeds=5),
            "paper": in_epochs(200, seeds=5),
        },
        notes=(
            _PROGRAM,
            "A pixel lasts 1/256 unit of time. The paper gives no ε of the Lipschitz RNN; with 0.1 instead of 8 it has "
            "65.3% after 6,000 steps (`results/archive`). iRNN ignores times, so gaps are an input.",
        ),
    )
)
# In 30 CPU seconds, mmRNN has a validation error of 1.08 with batches of 64 and 1.36 with the paper's 256.
_SMALL: dict[str, Any] = {"batch_size": 64, "optimizer": "adam", "smoothing": 0.99, "clip": 1.0}
_WALKER = Recipe(
    "mmrnn/table6",
    "Walker2d: next-step prediction",
    *("mmrnn", "6"),
    budgets={
        "smoke": in_epochs(1, options={"source": "scripted"}),
        "laptop": in_epochs(200),
        "paper": in_epochs(200, seeds=5),
    },
    notes=(_PROGRAM,),
    incomparable={
        "walker2d": "these are recordings of policies trained here. The order of the models can be compared, their "
        "errors cannot."
    },
)
add_recipe(replace(_WALKER, what="Walker2d: next-step prediction (new recordings)"))
add_recipe(
    replace(
        _WALKER,
        name="mmrnn/table6-paper",
        what="Walker2d: next-step prediction (the authors' recordings and split)",
        protocol="paper",
        budgets={
            **_WALKER.budgets,
            "laptop": {"mmrnn 64": in_epochs(200, clip=1.0), "walker2d": in_steps(3_000, **_SMALL)},
            "long": in_steps(10_000, seeds=3, **_SMALL),
        },
        incomparable={},
    )
)
