"""Fitted: the result of training."""

from __future__ import annotations

from dataclasses import dataclass

from ..data import Scaler, Sequences
from ..model import ModelSpec, SequenceModel
from ._events import Epoch
from ._objective import Objective
from ._predict import Predictions, evaluate, predict
from ._settings import Settings
from ._targets import evaluate_targets


@dataclass(frozen=True)
class Fitted:
    """Trained model with the record of its training.

    Attributes:
        model: Model with the weights of the best epoch by validation, in evaluation mode.
        settings: Training settings.
        objective: Objective of the training.
        history: All epochs.
        best_epoch: Epoch of the weights, from 1; 0 if no epoch was completed or improved on the
            linear start.
        stopped: "epochs" (all done), "steps", "early" (no improvement for too long), "interrupted" or "fault".
        seconds: Wall-clock time of training, over all pieces of a resumed run.
        cpu_seconds: CPU time of training, over all threads and all pieces of a resumed run.
        steps: Number of optimizer steps.
        scaler: Scaler applied to the training values; None if they are not scaled.
        notes: Remarks about the data for the user.
        start: Results of the linear start alone, as epoch 0; None without a linear start.
        chance: The gain on the linear start, as a share of what is left to gain, that an epoch has to exceed.
        baseline: Baseline whose forecasts these are, because it was better on the validation part: "last value" or
            "seasonal naive (12)"; empty for the model itself.
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
    chance: float | None = None
    baseline: str = ""

    @property
    def spec(self) -> ModelSpec | None:
        """The spec of the model; None if it was assembled by hand."""
        return self.model.spec

    @property
    def best(self) -> Epoch | None:
        """The best epoch by validation; the linear start if no epoch was better."""
        return self.history[self.best_epoch - 1] if self.best_epoch else self.start

    def evaluate(self, data: Sequences) -> dict[str, float]:
        """Returns loss and metrics on series that are scaled like the training series."""
        return evaluate(self.model, self.objective, data)

    def evaluate_targets(self, data: Sequences) -> dict[str, dict[str, float]]:
        """Returns the metrics of each target in its own units; empty for a single target."""
        return evaluate_targets(self.model, self.objective, data, self.scaler)

    def predict(self, data: Sequences) -> Predictions:
        """Returns class probabilities or values (in the units of the target) for such series."""
        return predict(self.model, data, classes=self.objective.classes, scaler=self.scaler)
