"""Fitted: what a run of training gives."""

from __future__ import annotations

from dataclasses import dataclass

from .._model import ModelSpec, SequenceModel
from ..data import Scaler, Sequences
from ._events import Epoch
from ._objective import Objective
from ._predict import Predictions, evaluate, predict
from ._settings import Settings


@dataclass(frozen=True)
class Fitted:
    """A trained model and how it came about.

    Attributes:
        model: with the weights of the best epoch by validation, in evaluation mode.
        settings: how it was trained.
        objective: what it was trained for.
        history: of all epochs.
        best_epoch: the epoch that the weights are of, from 1; 0 if no epoch ended, or none was better than the linear
            start.
        stopped: "epochs" (all done), "steps", "early" (nothing better for long), "interrupted" or "fault".
        seconds: wall-clock time of training, over all pieces of a resumed run.
        cpu_seconds: processor time of training, over all threads and all pieces of a resumed run.
        steps: optimiser steps that were taken.
        scaler: what the training values went through; None if they are as they came.
        notes: what the user should know about the data.
        start: the linear start alone, as epoch 0; None for a network alone.
    """

    model: SequenceModel
    settings: Settings
    objective: Objective
    history: tuple[Epoch, ...]
    best_epoch: int
    stopped: str
    seconds: float
    cpu_seconds: float
    steps: int
    scaler: Scaler | None = None
    notes: tuple[str, ...] = ()
    start: Epoch | None = None

    @property
    def spec(self) -> ModelSpec | None:
        """What the model can be built from; None if it was put together by hand."""
        return self.model.spec

    @property
    def best(self) -> Epoch | None:
        """The best epoch by validation; the linear start where nothing was better."""
        return self.history[self.best_epoch - 1] if self.best_epoch else self.start

    def evaluate(self, data: Sequences) -> dict[str, float]:
        """Loss and metrics on series that went through the same scaling as those of training."""
        return evaluate(self.model, self.objective, data)

    def predict(self, data: Sequences) -> Predictions:
        """Class probabilities or values (in the target's own units) of such series."""
        return predict(self.model, data, classes=self.objective.classes, scaler=self.scaler)
