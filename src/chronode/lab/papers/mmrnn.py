"""mmRNN (ICLR 2021 submission): one setting for all models of a table."""

from __future__ import annotations

from ._settings import PaperSetting

# RMSprop as in Keras: the decay of the mean square is 0.9, while torch uses 0.99. No gradient clipping.
_RMSPROP = {"optimizer": "rmsprop", "smoothing": 0.9, "clip": 0.0}


def _setting(
    task: str, learning_rate: float, batch_size: int, epochs: int, source: str, *, used: bool = True
) -> PaperSetting:
    training = {"batch_size": batch_size, **_RMSPROP, "learning_rate": learning_rate, "epochs": epochs}
    return PaperSetting("mmrnn", task, "mmrnn", source, {"hidden_size": 64}, training, used=used)


SETTINGS = (
    _setting("bitstream", 5e-3, 256, 500, "text, Table 8"),
    _setting("bitstream", 5e-4, 256, 500, "program", used=False),
    _setting("event-mnist", 5e-3, 256, 200, "text, Table 8"),
    _setting("event-mnist", 5e-4, 128, 200, "program", used=False),
    _setting("person-activity", 1e-2, 128, 200, "text, Table 8"),
    _setting("walker2d", 5e-3, 256, 200, "text, Table 8"),
)
