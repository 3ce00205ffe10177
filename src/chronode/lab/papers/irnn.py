"""iRNN and ERNN (Kag, Zhang & Saligrama 2020, 2019): both use the same code.

They have one η per time step, so the number of steps must be known.
"""

from __future__ import annotations

from typing import Any

from ._settings import PaperSetting

_ADAM: dict[str, Any] = {"batch_size": 128, "optimizer": "adam", "learning_rate": 0.01}
_SENSORS = {"dsa-19": {"eta_steps": 125}, "har": {"eta_steps": 128, "hidden_size": 80}}
_SENSORS["har-2"] = _SENSORS["har"]
_LONG: dict[str, dict[str, Any]] = {
    **{task: {"hidden_size": 128, "eta_steps": 784} for task in ("smnist", "psmnist")},
    **{task: {"hidden_size": 128, "eta_steps": 1000} for task in ("noisy-mnist", "noisy-cifar")},
    **{task: {"hidden_size": 80, "K": 5, "eta_steps": 99} for task in ("google-12", "google-30")},
}


def _irnn(task: str, network: dict[str, Any], training: dict[str, Any], paper: str = "irnn") -> PaperSetting:
    return PaperSetting(paper, task, paper, "text and program", network, training)


SETTINGS = (
    *(
        _irnn(task, {"K": 5, "hidden_size": 128}, {"batch_size": 128, "optimizer": "adam", "steps": 2000, "epochs": 40})
        for task in ("adding", "copy")
    ),
    *(
        PaperSetting(paper, task, paper, "text and program", {"K": K, **network}, _ADAM, used=K == 5)
        for task, network in _SENSORS.items()
        for paper in ("irnn", "ernn")
        for K in (5, 1, 3)
    ),
    *(_irnn(task, network, _ADAM, paper) for task, network in _LONG.items() for paper in ("irnn", "ernn")),
    _irnn("ptb", {"hidden_size": 256, "K": 1, "embedding_size": 256}, {"optimizer": "adam"}),
    _irnn("yelp-5", {"hidden_size": 128, "K": 3, "embedding_size": 128}, {"optimizer": "adam"}),
)
