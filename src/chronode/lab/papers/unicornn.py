"""UnICORNN (Rusch & Mishra 2021): settings found by the authors' random search, their Table 6."""

from __future__ import annotations

from typing import Any

from ._settings import PaperSetting


def _setting(
    task: str, network: dict[str, Any], training: dict[str, Any], source: str = "appendix, Table 6", **row: Any
) -> PaperSetting:
    return PaperSetting("unicornn", task, "unicornn", source, network, {"optimizer": "adam", **training}, **row)


def _drop_once(epoch: int, epochs: int) -> dict[str, Any]:
    """Returns a schedule that divides the rate by ten after an epoch."""
    return {"epochs": epochs, "schedule": "step", "drop_epochs": (epoch,), "drop_factor": 0.1}


_DEEP = {"num_layers": 3, "dropout": 0.1}
_PIXELS = {"clip": 0.0, **_drop_once(650, 2600)}
_PIXEL_ROWS: tuple[tuple[int, int | None, dict[str, Any], dict[str, Any]], ...] = (
    (256, None, {"delta_t": 0.19, "alpha": 30.65}, {"learning_rate": 2.51e-3, "batch_size": 32}),
    (128, 128, {"delta_t": 0.482, "alpha": 12.53}, {"learning_rate": 1.14e-3, "batch_size": 64}),
)
_NOISY = {**_DEEP, "hidden_size": 128, "delta_t": 0.126, "alpha": 13.0}
_NOISY_TRAINING = {"batch_size": 30, "clip": 0.0, **_drop_once(250, 500)}
_VITALS = {**_DEEP, "hidden_size": 128}
_VITALS_TRAINING = {"batch_size": 32, **_drop_once(250, 500)}

SETTINGS = (
    *(
        # The other rows of the table use the settings of the larger network.
        _setting(task, {**_DEEP, "hidden_size": units, **network}, {**_PIXELS, **training}, hidden=row)
        for task in ("psmnist", "smnist")
        for units, row, network, training in _PIXEL_ROWS
    ),
    _setting("noisy-cifar", _NOISY, {**_NOISY_TRAINING, "learning_rate": 3.14e-3}, "program"),
    _setting("noisy-cifar", _NOISY, {**_NOISY_TRAINING, "learning_rate": 3.14e-2}, "text", used=False),
    _setting("bidmc-rr", {**_VITALS, "delta_t": 0.011, "alpha": 9.0}, {**_VITALS_TRAINING, "learning_rate": 3.98e-3}),
    _setting("bidmc-hr", {**_VITALS, "delta_t": 0.046, "alpha": 10.0}, {**_VITALS_TRAINING, "learning_rate": 2.88e-3}),
    _setting(
        "eigenworms",
        {"hidden_size": 32, "num_layers": 2, "delta_t": [2.81e-5, 0.0343], "alpha": 0.0, "dropout": 0.0},
        {"batch_size": 8, "learning_rate": 8.59e-3, "epochs": 250},
    ),
    _setting(
        "imdb",
        {"hidden_size": 128, "num_layers": 2, "delta_t": [0.0066, 0.205], "alpha": 0.0, "dropout": 0.61}
        | {"embedding_size": 100, "word_dropout": 0.65, "head_init": "normal"},
        {"batch_size": 32, "learning_rate": 1.67e-4, "epochs": 50},
    ),
    # The text only gives sizes.
    PaperSetting("unicornn", "lorenz96", "unicornn", "text", {"num_layers": 2, "hidden_size": 90}),
    PaperSetting("unicornn", "lorenz96", "cornn", "text", {"hidden_size": 64}),
    PaperSetting("unicornn", "lorenz96", "lstm", "text", {"hidden_size": 44}),
)
