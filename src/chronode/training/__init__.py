"""Training: `fit` a model to a task or to series of your own."""

from .fit import fit
from .fitted import Fitted
from .objective import Objective
from .predict import Predictions, evaluate, predict
from .progress import BatchDone, Epoch, EpochDone, Event, Note, TrainingStopped
from .settings import Settings

__all__ = [
    "BatchDone",
    "Epoch",
    "EpochDone",
    "Event",
    "Fitted",
    "Note",
    "Objective",
    "Predictions",
    "Settings",
    "TrainingStopped",
    "evaluate",
    "fit",
    "predict",
]
