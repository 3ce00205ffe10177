"""LTC (Hasani et al. 2021): LTC has its own learning rate for each task, all other models 0.001, as in the code."""

from __future__ import annotations

from ._settings import OTHERS, PaperSetting

_LEARNING_RATE = {
    "gesture": 0.01,
    "half-cheetah": 0.01,
    "har": 0.01,
    "occupancy": 0.005,
    "ozone": 0.01,
    "person-activity": 0.01,
    "power": 0.01,
    "row-mnist": 0.005,
    "traffic": 0.01,
}


def _setting(task: str, model: str, learning_rate: float) -> PaperSetting:
    training = {"batch_size": 64 if task == "person-activity" else 16, "optimizer": "adam", "clip": 0.0, "epochs": 200}
    return PaperSetting(
        "ltc", task, model, "program", {"hidden_size": 32}, {**training, "learning_rate": learning_rate}
    )


SETTINGS = tuple(
    _setting(task, model, rate)
    for task, own in _LEARNING_RATE.items()
    for model, rate in (("ltc", own), (OTHERS, 1e-3))
)
