"""Recipes of the tables of UnICORNN."""

from __future__ import annotations

from typing import Any

from .budgets import COSINE, Search, in_epochs, in_steps
from .recipe import Recipe, add_recipe, add_splits

# After 1,200 steps of batches of 64, the validation accuracy was 79.1% with the settings of the authors, 81.0% with a
# rate of 6e-3 and clipped gradients, 84.1% with Δt = 0.7 in addition, and 85.6% without dropout. Over many epochs such
# a rate is too high: with 4e-3, the accuracy fell from 69.8 to 65.5% in the second epoch.
_OSCILLATORS = {"delta_t": 0.7, "alpha": 12.53, "dropout": 0.0, "learning_rate": 1.5e-3, "batch_size": 64, "clip": 1.0}
_PSMNIST = in_steps(45_000, by_model={"unicornn": {**_OSCILLATORS, "steps": 58_000}})
# Without dropout, the loss on the training images was 0.07 after 65 epochs, and 0.17 on the validation images.
_PIXELS = in_epochs(250, **COSINE, by_model={"unicornn": {**_OSCILLATORS, "dropout": 0.1}})
_WIDE = in_epochs(
    100,
    **COSINE,
    by_model={"unicornn": {"learning_rate": 1.5e-3, "batch_size": 64, "clip": 1.0}},
    searches={"unicornn": Search({"delta_t": (0.19, 0.3, 0.5)}, {"epochs": 3})},
)
# The first layer of the authors is so slow (Δt = 0.0066) that it is a double sum over the words, in which the last ones
# count least; their code appends padding to most reviews, so that these words count too. After 3,000 steps, Δt = 0.05
# has a validation accuracy of 83.7% and a loss of 0.39; that of the authors 83.0% and 0.54 after 4,000 steps.
_IMDB = in_steps(20_000, learning_rate=5e-4, by_model={"unicornn": {"delta_t": [0.05, 0.205]}})
_PADDED = in_steps(
    20_000,
    seeds=3,
    learning_rate=5e-4,
    options={"padding": 200},
    searches={"unicornn": Search({"delta_t": ([0.0066, 0.205], [0.05, 0.205])}, {"steps": 3_000})},
)
_NOISY = {"unicornn": {"delta_t": 0.06, "learning_rate": 1e-2, "clip": 1.0}}
_NOISY_CIFAR = in_steps(15_000, by_model=_NOISY)
_ALL_NOISY = in_epochs(60, **COSINE, by_model=_NOISY)
add_recipe(
    Recipe(
        "unicornn/table1",
        "Permuted sequential MNIST",
        *("unicornn", "1"),
        budgets={
            "smoke": in_epochs(1),
            "laptop": _PSMNIST,
            "long": {"unicornn 128": _PIXELS, "unicornn 256": _WIDE, "psmnist": in_epochs(60, **COSINE, clip=1.0)},
            "paper": in_epochs(2600, schedule="step", drop_epochs=[650]),
        },
    )
)
_HALVES = {"schedule": "step", "drop_epochs": [250], "drop_factor": 0.1}
add_splits(
    Recipe(
        "unicornn/table2",
        "Noise-padded CIFAR-10",
        *("unicornn", "2"),
        budgets={"smoke": in_epochs(1), "laptop": _NOISY_CIFAR, "long": _ALL_NOISY, "paper": in_epochs(500, **_HALVES)},
        notes=("The learning rate of the authors' code is 3.14e-3; their text says 3.14e-2.",),
    ),
    differ={"clean": "separate noise for each image", "paper": "the same noise for all images"},
)
add_recipe(
    Recipe(
        "unicornn/table3",
        "EigenWorms: 17,984 steps",
        *("unicornn", "3"),
        budgets={"smoke": in_epochs(1), "laptop": in_epochs(20), "paper": in_epochs(250, seeds=5)},
    )
)
# After 300 steps (random split), the validation error of the respiratory rate was 3.30 with the authors' settings, and
# 2.97 with Δt = 0.046, a rate of 0.01 and clipped gradients; that of the heart rate was 9.9 with a rate of 0.02 and
# clipped gradients, while that of the authors' settings was 12.6 after 700 steps.
_RATES = {"delta_t": 0.046, "learning_rate": 2e-2, "clip": 1.0, "dropout": 0.0}
_BY_MODEL = {"unicornn": _RATES, "lstm": {"clip": 1.0}}
_BIDMC = in_steps(1_200, by_model=_BY_MODEL)
_ALL_BIDMC = in_epochs(80, **COSINE, by_model=_BY_MODEL)
add_splits(
    Recipe(
        "unicornn/table4",
        "BIDMC: respiratory and heart rate from 32 s of PPG and ECG",
        *("unicornn", "4"),
        budgets={
            "smoke": in_epochs(1),
            "laptop": _BIDMC,
            "long": _ALL_BIDMC,
            "paper": in_epochs(500, seeds=5, **_HALVES),
        },
    ),
    differ={"clean": "no recording in two parts", "paper": "random split of overlapping windows"},
)
add_recipe(
    Recipe(
        "unicornn/table5",
        "IMDB review sentiment",
        *("unicornn", "5"),
        budgets={"smoke": in_epochs(1), "laptop": _IMDB, "long": _PADDED, "paper": in_epochs(50)},
    )
)
# Short pieces give an LSTM many optimizer steps; an oscillator needs whole series to find its phase.
_PIECES = {"batch_size": 32, "tbptt": 100}
# After 4,000 steps, validation errors were lower with 1e-2 than with 3e-3 (UnICORNN, F = 8: 0.606 and 0.605).
_LORENZ: dict[str, Any] = {
    "by_model": {"lstm": _PIECES, "cornn": _PIECES, "unicornn": {"batch_size": 4}},
    "learning_rate": 1e-2,
}
_FORCED: dict[str, Any] = {
    "searches": {"unicornn": Search({"delta_t": (0.1, 0.3, 1.0, 2.0), "alpha": (0.0, 3.0, 10.0)}, {"steps": 4_000})}
}
add_recipe(
    Recipe(
        "unicornn/table7",
        "Lorenz 96: the state 25 steps ahead",
        *("unicornn", "7"),
        budgets={
            "smoke": in_epochs(1, options={"train": 8, "valid": 4, "test": 4, "length": 50}),
            "laptop": in_steps(12_000, **_LORENZ),
            "long": {"F=0.9": in_steps(40_000, seeds=3, **_LORENZ), "F=8": in_steps(40_000, **_LORENZ, **_FORCED)},
            "paper": in_epochs(500, **_HALVES),
        },
        notes=(
            "The paper gives neither learning rate nor batch size; it divides the error by the root mean square of the "
            "target, as we understand it: repeating the input then gives 0.050 (F = 0.9) and 0.99 (F = 8).",
        ),
    )
)
add_recipe(
    Recipe(
        "unicornn/table8",
        "UnICORNN: repeated training of the best settings",
        *("unicornn", "8"),
        budgets={
            "smoke": in_epochs(1),
            "laptop": {"psmnist": _PSMNIST, "noisy-cifar": _NOISY_CIFAR, "imdb": _IMDB},
            "long": {
                "psmnist (128 units)": _PIXELS,
                "psmnist (256 units)": _WIDE,
                "noisy-cifar": _ALL_NOISY,
                "imdb": _PADDED,
            },
            "paper": {
                "psmnist": in_epochs(2600, seeds=10, schedule="step", drop_epochs=[650]),
                "noisy-cifar": in_epochs(500, seeds=10, **_HALVES),
                "imdb": in_epochs(50, seeds=10),
            },
        },
    )
)
