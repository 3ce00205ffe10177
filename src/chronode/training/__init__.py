"""Training of a model on a task or on your own series."""

from typing import TYPE_CHECKING

from ..system._lazy import lazy

if TYPE_CHECKING:
    from ._events import BatchDone, Epoch, EpochDone, Event, Note, TrainingStopped
    from ._fit import fit
    from ._fitted import Fitted
    from ._objective import Objective
    from ._predict import Predictions, evaluate, predict
    from ._progress import ProgressBar
    from ._settings import Settings

__all__ = [
    "BatchDone",
    "Epoch",
    "EpochDone",
    "Event",
    "Fitted",
    "Note",
    "Objective",
    "Predictions",
    "ProgressBar",
    "Settings",
    "TrainingStopped",
    "evaluate",
    "fit",
    "predict",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "_events": "BatchDone Epoch EpochDone Event Note TrainingStopped",
        "_fit": "fit",
        "_fitted": "Fitted",
        "_objective": "Objective",
        "_predict": "Predictions evaluate predict",
        "_progress": "ProgressBar",
        "_settings": "Settings",
    },
)
