"""Tables beyond the papers, with our own settings, the same for every model."""

from __future__ import annotations

from ._settings import OTHERS, PaperSetting

SETTINGS = (
    PaperSetting(
        "beyond",
        "physionet-2012",
        OTHERS,
        "chosen here",
        {"hidden_size": 64},
        {"batch_size": 64, "optimizer": "adam", "learning_rate": 3e-3},
    ),
)
